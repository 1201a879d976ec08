"""The drafts of one document beside its text: accept, edit, dismiss, take back, ask again. Works without a script."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from clients.registry import get_llm
from documents import services
from documents.admin.actions import person
from documents.admin.draft_decisions import Decision, DecisionError, decide
from documents.admin.draft_fields import Editor, FieldView, field_views
from documents.admin.draft_place import place_of
from documents.admin.draft_text import shown_text
from documents.admin.model_state import document_line
from documents.admin.progress import model_progress
from documents.errors import DocumentError
from documents.models import ApiDocument

PAGE = "admin:documents_document_drafts"
TEMPLATE = "admin/documents/apidocument/drafts.html"


class DraftPages(admin.ModelAdmin[ApiDocument]):
    """The pages of drafts, for the admin of documents."""

    def draft_urls(self) -> list[Any]:
        own: list[tuple[str, Any, str]] = [
            ("drafts/", self.next_draft_view, "documents_drafts"),
            ("<int:document_id>/drafts/", self.drafts_view, "documents_document_drafts"),
            ("<int:document_id>/drafts/state/", self.draft_state_view, "documents_document_drafts_state"),
        ]
        return [path(route, self.admin_site.admin_view(view), name=name) for route, view, name in own]

    def next_draft_view(self, request: HttpRequest) -> HttpResponse:
        """The first document with a draft, or the words that there is none."""
        self._admit(request)
        ids = services.documents_with_drafts()
        if ids:
            return HttpResponseRedirect(reverse(PAGE, args=[ids[0]]))
        context = {
            **self._base(request),
            "title": _("Drafts"),
            "model": model_progress(),
            "configured": get_llm().configured,
        }
        return TemplateResponse(request, "admin/documents/apidocument/drafts_empty.html", context)

    def drafts_view(self, request: HttpRequest, document_id: int) -> HttpResponse:
        return require_http_methods(["GET", "HEAD", "POST"])(self._drafts)(request, document_id)

    def draft_state_view(self, request: HttpRequest, document_id: int) -> HttpResponse:
        """Whether the model is still at it, for the page that waits."""
        return require_safe(self._draft_state)(request, document_id)

    def _drafts(self, request: HttpRequest, document_id: int) -> HttpResponse:
        document = self._document(document_id)
        self._admit(request, document)
        if document is None:
            return self._gone(request, document_id)
        if request.method == "POST":
            return self._decided(request, document)
        editor = Editor(field=request.GET.get("edit", ""), without=request.GET.get("without", ""))
        return self._page(request, document, editor)

    def _draft_state(self, request: HttpRequest, document_id: int) -> HttpResponse:
        document = self._document(document_id)
        self._admit(request, document)
        return JsonResponse({"busy": _busy(document)})

    def _decided(self, request: HttpRequest, document: ApiDocument) -> HttpResponse:
        """Do what a button says, then lead back to where it stood."""
        decision = Decision.of(request.POST)
        try:
            outcome = decide(document, decision, user=person(request))
        except DecisionError as refusal:
            return self._refused(request, document, decision, str(refusal), status=400)
        except DocumentError as refusal:
            return self._refused(request, document, decision, _reason(document, refusal), status=refusal.status)
        self.log_change(request, document, outcome.logged)
        messages.success(request, outcome.words, extra_tags=outcome.undo)
        return HttpResponseRedirect(reverse(PAGE, args=[document.pk]) + outcome.fragment)

    def _refused(
        self, request: HttpRequest, document: ApiDocument, decision: Decision, words: str, *, status: int
    ) -> HttpResponse:
        """Say why; what was typed stays in its box."""
        fresh = self._document(document.pk)
        if fresh is None:
            return self._gone(request, document.pk)
        if decision.verb != "save" or not decision.fields:
            messages.error(request, words)
            return HttpResponseRedirect(reverse(PAGE, args=[document.pk]))
        editor = Editor(field=decision.fields[0], typed=decision.typed, error=words)
        return self._page(request, fresh, editor, status=status)

    def _page(
        self, request: HttpRequest, document: ApiDocument, editor: Editor, *, status: int = 200
    ) -> TemplateResponse:
        fields = field_views(services.drafts_of(document), editor)
        configured = get_llm().configured
        context = {
            **self._base(request),
            "title": _("Review drafts"),
            "document": document,
            "path": document.file_path.removeprefix("knowledge_base/"),
            "text": shown_text(document),
            "deleting": document.status == ApiDocument.Status.DELETING,
            "configured": configured,
            "line": document_line(document, configured=configured),
            "place": place_of(document.pk, services.documents_with_drafts()),
            "editor": editor,
            "lost": _lost(editor, fields),
            **_counts(fields),
        }
        return TemplateResponse(request, TEMPLATE, context, status=status)

    def _base(self, request: HttpRequest) -> dict[str, Any]:
        # What is compared needs the width; the bar leads everywhere.
        return {**self.admin_site.each_context(request), "is_nav_sidebar_enabled": False, "opts": self.opts}

    def _admit(self, request: HttpRequest, document: ApiDocument | None = None) -> None:
        if not self.has_change_permission(request, document):
            raise PermissionDenied

    def _document(self, document_id: int) -> ApiDocument | None:
        return ApiDocument.objects.select_related("enrichment").filter(pk=document_id).first()

    def _gone(self, request: HttpRequest, document_id: int) -> HttpResponse:
        messages.error(request, _("That document is gone: somebody has deleted it."))
        return HttpResponseRedirect(reverse("admin:documents_apidocument_changelist"))


def _busy(document: ApiDocument | None) -> bool:
    line = document_line(document, configured=get_llm().configured) if document is not None else None
    return line is not None and line.busy


def _reason(document: ApiDocument, refusal: DocumentError) -> str:
    """The refusal in words; of a stale revision, what became of it."""
    if refusal.code != "stale_revision":
        return refusal.detail
    document.refresh_from_db(fields=["revision"])
    return _(
        "Somebody else changed this document meanwhile: it is at revision %(revision)d now, and shown as it stands. "
        "Nothing was written. Decide once more."
    ) % {"revision": document.revision}


def _lost(editor: Editor, fields: list[FieldView]) -> str:
    """What was typed for a field that somebody else has decided meanwhile: shown all the same, to be copied."""
    if editor.typed is None or any(field.editing for field in fields):
        return ""
    return editor.typed


def _counts(fields: list[FieldView]) -> dict[str, Any]:
    waiting = [field.name for field in fields if field.state == "draft"]
    return {
        "fields": fields,
        "waiting": waiting,
        "decided": sum(field.state not in ("draft", "empty") for field in fields),
    }
