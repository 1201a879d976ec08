"""Earlier revisions for curators: what is kept, how it differs from the present file, and its return (DOC-12)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from documents import services
from documents.admin.actions import person
from documents.admin.cells import moment_cell
from documents.admin.history_diff import compared
from documents.admin.records import ReadOnlyAdmin
from documents.errors import DocumentError
from documents.history_api import kept_file
from documents.models import ApiDocument, DocumentHistory

PAGE = "admin:documents_documenthistory_change"
MOST_UNDO_LINKS = 5
"""After the deletion of more at once, one link leads to all that is kept."""


class DocumentHistoryAdmin(ReadOnlyAdmin):
    """The list of what is kept, a page that compares, and the button that brings a revision back."""

    list_display = ("file_path", "revision", "reason", "size", "kept", "created_by")
    list_filter = ("reason", "created_at")
    search_fields = ("file_path", "=document_id")

    @admin.display(description=gettext_lazy("kept since"), ordering="created_at")
    def kept(self, row: DocumentHistory) -> str:
        return moment_cell(row.created_at)

    def get_urls(self) -> list[Any]:
        own = [
            ("<int:history_id>/restore/", self.restore_view, "documents_history_restore"),
            ("<int:history_id>/content/", self.content_view, "documents_history_content"),
        ]
        pages = [path(route, self.admin_site.admin_view(view), name=name) for route, view, name in own]
        return [*pages, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return require_safe(self._page)(request, self._row(request, object_id), asking=False)

    def content_view(self, request: HttpRequest, history_id: int) -> HttpResponse:
        """The kept bytes, as a download."""
        return require_safe(self._content)(request, self._row(request, history_id))

    def restore_view(self, request: HttpRequest, history_id: int) -> HttpResponse:
        """Asks first; a POST does it."""
        return require_http_methods(["GET", "HEAD", "POST"])(self._restore)(request, self._row(request, history_id))

    def _content(self, request: HttpRequest, row: DocumentHistory) -> HttpResponse:
        try:
            return kept_file(row)
        except DocumentError as refusal:
            messages.error(request, refusal.detail)
            return HttpResponseRedirect(reverse(PAGE, args=[row.pk]))

    def _restore(self, request: HttpRequest, row: DocumentHistory) -> HttpResponse:
        if not may_restore(request, row):
            raise PermissionDenied
        if request.method != "POST":
            return self._page(request, row, asking=True)
        replace = request.POST.get("replace") == "yes"
        if replace and not request.user.has_perm("documents.change_apidocument"):
            raise PermissionDenied
        try:
            outcome = services.restore_revision(history_id=row.pk, user=person(request), replace=replace)
        except DocumentError as refusal:
            messages.error(request, refusal.detail)
            return HttpResponseRedirect(reverse(PAGE, args=[row.pk]))
        if outcome.unchanged:
            messages.info(request, _("The document has this very text already; nothing was changed."))
        else:
            said = _("Revision %(revision)d of %(path)s is back.") % {
                "revision": row.revision,
                "path": row.file_path.removeprefix("knowledge_base/"),
            }
            messages.success(request, with_undo(said, outcome.document.pk))
            self.log_addition(request, row, _("Brought back."))
        return HttpResponseRedirect(reverse("admin:documents_apidocument_change", args=[outcome.document.pk]))

    def _page(self, request: HttpRequest, row: DocumentHistory, *, asking: bool) -> HttpResponse:
        living = services.living_document(row)
        other = services.in_its_place(row) if living is None else None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Bring this revision back?") if asking else _("Earlier revision"),
            "row": row,
            "path": row.file_path.removeprefix("knowledge_base/"),
            "document": living,
            "other": other,
            "asking": asking,
            "compared": compared(row, living or other),
            "may_restore": may_restore(request, row),
            "may_replace": request.user.has_perm("documents.change_apidocument"),
        }
        return TemplateResponse(request, "admin/documents/documenthistory/revision.html", context)

    def _row(self, request: HttpRequest, history_id: int | str) -> DocumentHistory:
        if not self.has_view_permission(request):
            raise PermissionDenied
        text = str(history_id)
        row = DocumentHistory.objects.filter(pk=int(text)).first() if text.isdecimal() and len(text) < 19 else None
        if row is None:
            raise Http404(_("This revision is no longer kept."))
        return row


def may_restore(request: HttpRequest, row: DocumentHistory) -> bool:
    """As with uploads: adding brings a deleted document back, only changing replaces a text that is there."""
    living = ApiDocument.objects.filter(pk=row.document_id).exists()
    return request.user.has_perm(f"documents.{'change' if living else 'add'}_apidocument")


def last_kept(document_id: int) -> DocumentHistory | None:
    """What was kept last of a document."""
    return DocumentHistory.objects.filter(document_id=document_id).order_by("-id").first()


def deleted_with_undo(document_id: int) -> SafeString | str:
    """After a deletion: what is kept of it, and the way back."""
    row = last_kept(document_id)
    if row is None:
        return _("Nothing of the document is kept: it had no file.")
    words = _("%(path)s is deleted; its text is kept.") % {"path": row.file_path.removeprefix("knowledge_base/")}
    return with_undo(words, document_id)


def kept_deleted() -> SafeString:
    """After many deletions at once: where they all are."""
    address = f"{reverse('admin:documents_documenthistory_changelist')}?reason__exact=deleted"
    return format_html('{} <a href="{}">{}</a>', _("The deleted texts are kept."), address, _("Earlier revisions"))


def with_undo(said: str, document_id: int) -> SafeString | str:
    """The words, with a link that takes the last change of a document back, where something of it is kept."""
    row = last_kept(document_id)
    if row is None:
        return said
    address = reverse("admin:documents_history_restore", args=[row.pk])
    return format_html('{} <a href="{}">{}</a>', said, address, _("Undo"))
