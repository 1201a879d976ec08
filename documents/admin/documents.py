"""The document list and one document: every change goes through documents.services, as in the API."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from clients.registry import get_llm
from documents import services
from documents.admin.actions import DocumentActions, no_model, person
from documents.admin.cells import drafts_cell, moment_cell, status_cell, title_cell
from documents.admin.document_form import DocumentForm
from documents.admin.drafts import DraftPages
from documents.admin.filters import DraftFilter, HeaderFilter
from documents.admin.history import MOST_UNDO_LINKS, deleted_with_undo, kept_deleted, with_undo
from documents.admin.progress import progress
from documents.admin.upload import UploadForm, known_domains, limit_text, upload_files
from documents.errors import DocumentError
from documents.models import ApiDocument
from documents.scan import scan
from documents.source import get_keyword_index


class ApiDocumentAdmin(DocumentActions, DraftPages):
    """Curators' list: status with its reason, upload, retry, enable, delete."""

    form = DocumentForm
    change_list_template = "admin/documents/apidocument/change_list.html"
    list_display = (
        "title_cell",
        "status_cell",
        "category",
        "keyword_count",
        "chunk_count",
        "changed",
    )
    list_display_links = ("title_cell",)
    list_filter = ("status", DraftFilter, "enabled", HeaderFilter, "category")
    list_select_related = ("uploaded_by", "enrichment")
    list_per_page = 50
    search_fields = ("title", "file_path")
    ordering = ("-updated_at", "-id")
    readonly_fields = (
        "file_path",
        "status_cell",
        "keywords_text",
        "drafts_text",
        "frontmatter_problem",
        "revision",
        "chunk_count",
        "size",
        "content_hash",
        "uploaded_by",
        "created_at",
        "updated_at",
        "indexed_at",
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "file_path",
                    "status_cell",
                    "enabled",
                    "keywords_text",
                    "drafts_text",
                    "frontmatter_problem",
                    "text",
                    "seen_revision",
                )
            },
        ),
        (
            gettext_lazy("Facts"),
            {
                "classes": ("collapse",),
                "fields": (
                    ("revision", "chunk_count", "size"),
                    "content_hash",
                    ("uploaded_by", "created_at", "updated_at", "indexed_at"),
                ),
            },
        ),
    )

    # ---- Cells ------------------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("title"), ordering="title")
    def title_cell(self, document: ApiDocument) -> str:
        return title_cell(document)

    @admin.display(description=gettext_lazy("status"), ordering="status")
    def status_cell(self, document: ApiDocument) -> str:
        return status_cell(document)

    @admin.display(description=gettext_lazy("changed"), ordering="updated_at")
    def changed(self, document: ApiDocument) -> str:
        return moment_cell(document.updated_at)

    @admin.display(description=gettext_lazy("keywords"))
    def keyword_count(self, document: ApiDocument) -> int:
        return len(services.keywords_of(document))

    @admin.display(description=gettext_lazy("keywords"))
    def keywords_text(self, document: ApiDocument) -> str:
        return ", ".join(services.keywords_of(document)) or _("none: found by meaning only")

    @admin.display(description=gettext_lazy("drafts"))
    def drafts_text(self, document: ApiDocument) -> str:
        return drafts_cell(document)

    # ---- The list ---------------------------------------------------------------------------------------------------

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiDocument], search_term: str
    ) -> tuple[QuerySet[ApiDocument], bool]:
        """Titles and paths by the database, keywords by the index that lookups use."""
        found, may_repeat = super().get_search_results(request, queryset, search_term)
        if search_term.strip():
            ids = [match.entry.document_id for match in get_keyword_index().match(search_term)[:500]]
            found = found | queryset.filter(pk__in=ids)
        return found, may_repeat

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"progress": progress(), "may_change": self.has_change_permission(request)}
        return super().changelist_view(request, {**(extra_context or {}), **context})

    def get_urls(self) -> list[Any]:
        own = [
            ("progress/", self.progress_view, "documents_progress"),
            ("retry-failed/", self.retry_failed_view, "documents_retry_failed"),
            ("retry-model/", self.retry_model_view, "documents_retry_model"),
            ("scan/", self.scan_view, "documents_scan"),
        ]
        pages = [path(route, self.admin_site.admin_view(view), name=name) for route, view, name in own]
        return [*pages, *self.draft_urls(), *super().get_urls()]

    def progress_view(self, request: HttpRequest) -> JsonResponse:
        """Counts for the bar above the list, asked for while something is waiting."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return JsonResponse(progress())

    def retry_failed_view(self, request: HttpRequest) -> HttpResponse:
        return require_POST(self._retry_failed)(request)

    def _retry_failed(self, request: HttpRequest) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        failed = list(ApiDocument.objects.filter(status=ApiDocument.Status.FAILED).values_list("pk", flat=True))
        self.each(request, failed, lambda pk: services.request_reindex(document_id=pk))
        return HttpResponseRedirect(reverse("admin:documents_apidocument_changelist"))

    def retry_model_view(self, request: HttpRequest) -> HttpResponse:
        return require_POST(self._retry_model)(request)

    def _retry_model(self, request: HttpRequest) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        if not get_llm().configured:
            self.message_user(request, no_model(), messages.WARNING)
            return HttpResponseRedirect(reverse("admin:documents_apidocument_changelist"))
        count = services.retry_failed_enrichment()
        words = ngettext(
            "The model is asked again about %(count)d document.",
            "The model is asked again about %(count)d documents.",
            count,
        )
        self.message_user(request, words % {"count": count}, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:documents_apidocument_changelist"))

    def scan_view(self, request: HttpRequest) -> HttpResponse:
        return require_POST(self._scan)(request)

    def _scan(self, request: HttpRequest) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        report = scan()
        self.message_user(request, str(report), messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:documents_apidocument_changelist"))

    # ---- Upload -----------------------------------------------------------------------------------------------------

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Adding a document is uploading it."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = UploadForm(request.POST or None, request.FILES or None)
        results = []
        if request.method == "POST" and form.is_valid():
            results = upload_files(
                files=form.cleaned_data["uploads"], category=form.cleaned_data["category"], user=person(request)
            )
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Upload documents"),
            "form": form,
            "results": results,
            "domains": known_domains(),
            "limit": limit_text(),
        }
        return TemplateResponse(request, "admin/documents/apidocument/upload.html", context)

    # ---- One document -----------------------------------------------------------------------------------------------

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A document that is refused while it is saved is said so on the page, not as an error page."""
        context = {"show_save_and_add_another": False, **(extra_context or {})}
        try:
            return super().change_view(request, object_id, form_url, context)
        except DocumentError as refusal:
            self.message_user(request, refusal.detail, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:documents_apidocument_change", args=[unquote(object_id)]))

    # Django wraps both views in a transaction. What documents.services answers must be committed and on disk, so these
    # two run without: each service call has its own transactions.
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined, no-any-return]

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined, no-any-return]

    def save_model(self, request: HttpRequest, obj: ApiDocument, form: Any, change: bool) -> None:
        """Never ``obj.save()``: rows change by the protocol of documents.services only."""
        if "enabled" in form.changed_data:
            services.set_enabled(document_id=obj.pk, enabled=obj.enabled)
        data = form.new_bytes()
        if data is not None:
            services.replace_text(
                document_id=obj.pk, data=data, revision=form.cleaned_data["seen_revision"], user=person(request)
            )
            self.message_user(request, with_undo(_("The former text is kept."), obj.pk), messages.INFO)

    def log_change(self, request: HttpRequest, obj: ApiDocument, message: Any) -> Any:
        obj.refresh_from_db()
        return super().log_change(request, obj, message)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, Any], set[Any], list[Any]]:
        """The documents themselves; their chunks and vectors go with them and are nobody's decision."""
        shown = [f"{document.title} ({document.file_path})" for document in objs]
        return shown, {self.opts.verbose_name_plural: len(shown)}, set(), []

    def delete_model(self, request: HttpRequest, obj: ApiDocument) -> None:
        self._delete(request, [obj.pk])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> None:
        self._delete(request, list(queryset.values_list("pk", flat=True)))

    def _delete(self, request: HttpRequest, ids: list[int]) -> None:
        unfinished = 0
        for document_id in ids:
            gone = services.delete_document(document_id=document_id, user=person(request))
            unfinished += not gone
            if gone and len(ids) <= MOST_UNDO_LINKS:
                self.message_user(request, deleted_with_undo(document_id), messages.INFO)
        if len(ids) > MOST_UNDO_LINKS:
            self.message_user(request, kept_deleted(), messages.INFO)
        if unfinished:
            self.message_user(
                request,
                ngettext(
                    "%(count)d document is hidden from every lookup; its vectors go when the vector store is back.",
                    "%(count)d documents are hidden from every lookup; their vectors go when the vector store is back.",
                    unfinished,
                )
                % {"count": unfinished},
                messages.WARNING,
            )
