"""Knowledge domains: who wrote each text, how the model's work stands, and what the Planner is told of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from clients.registry import get_llm
from documents.admin.actions import no_model
from documents.admin.domain_cells import documents_link, model_cell, text_cell
from documents.admin.map_page import MapPages
from documents.domain_texts import ask_model_again, describe, status_of
from documents.domains import recompute_now
from documents.models import KnowledgeDomain

LIST = "admin:documents_knowledgedomain_changelist"
CHANGE = "admin:documents_knowledgedomain_change"
TEXTS = ("description", "when_to_retrieve")


class DomainForm(forms.ModelForm[KnowledgeDomain]):
    """The two texts that a curator may write."""

    class Meta:
        model = KnowledgeDomain
        fields = TEXTS
        widgets = {
            "description": forms.Textarea(attrs={"rows": 2, "maxlength": 256}),
            "when_to_retrieve": forms.Textarea(attrs={"rows": 6}),
        }
        help_texts = {
            "description": gettext_lazy("What the domain holds, in one line of up to 256 characters."),
            "when_to_retrieve": gettext_lazy("It tells the planner when to search here, and when not to search again."),
        }


class KnowledgeDomainAdmin(MapPages):
    """A curator's own wording is kept for ever; what stands there otherwise is the model's, or a plain summary."""

    form = DomainForm
    change_form_template = "admin/documents/knowledgedomain/change_form.html"
    change_list_template = "admin/documents/knowledgedomain/change_list.html"
    list_display = ("domain_id", "description_cell", "when_cell", "document_count", "model_state")
    list_select_related = ("aggregation",)
    search_fields = ("domain_id", "description", "when_to_retrieve")
    actions = ("compute_selected", "ask_selected")
    readonly_fields = ("domain_id", "documents", "description_written", "when_written", "created_at", "updated_at")
    fields = (
        "domain_id",
        "documents",
        "description",
        "description_written",
        "when_to_retrieve",
        "when_written",
        "updated_at",
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # a domain is a folder: it comes with its first document

    def has_delete_permission(self, request: HttpRequest, obj: KnowledgeDomain | None = None) -> bool:
        return False

    # ---- Cells ------------------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("description"), ordering="description")
    def description_cell(self, domain: KnowledgeDomain) -> str:
        return text_cell(domain.description, domain.description_source)

    @admin.display(description=gettext_lazy("when to retrieve"), ordering="when_to_retrieve")
    def when_cell(self, domain: KnowledgeDomain) -> str:
        return text_cell(domain.when_to_retrieve, domain.when_to_retrieve_source)

    @admin.display(description=gettext_lazy("model"))
    def model_state(self, domain: KnowledgeDomain) -> str:
        return model_cell(status_of(domain), configured=get_llm().configured)

    @admin.display(description=gettext_lazy("documents"))
    def documents(self, domain: KnowledgeDomain) -> str:
        return documents_link(domain)

    @admin.display(description=gettext_lazy("written by"))
    def description_written(self, domain: KnowledgeDomain) -> str:
        return text_cell("", domain.description_source)

    @admin.display(description=gettext_lazy("written by"))
    def when_written(self, domain: KnowledgeDomain) -> str:
        return text_cell("", domain.when_to_retrieve_source)

    # ---- One domain -------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        own = path("<int:domain_id>/do/", self.admin_site.admin_view(self.do_view), name="documents_domain_do")
        return [own, *self.map_urls(), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        domain = self.get_object(request, object_id)
        configured = get_llm().configured
        more: dict[str, Any] = {"configured": configured}
        if domain is not None:
            more["work"] = model_cell(status_of(domain), configured=configured, long=True)
            more["own"] = [name for name in TEXTS if _is_curators(domain, name)]
        return super().change_view(request, object_id, form_url, {**more, **(extra_context or {})})

    def save_model(self, request: HttpRequest, obj: KnowledgeDomain, form: Any, change: bool) -> None:
        """What a person typed is the curator's from now on; emptied, it is the program's again."""
        typed = {name: form.cleaned_data[name].strip() for name in TEXTS if name in form.changed_data}
        if typed:
            describe(obj, typed)

    def do_view(self, request: HttpRequest, domain_id: int) -> HttpResponse:
        """The buttons beside the form."""
        return require_POST(self._do)(request, domain_id)

    def _do(self, request: HttpRequest, domain_id: int) -> HttpResponse:
        domain = KnowledgeDomain.objects.filter(pk=domain_id).first()
        if not self.has_change_permission(request, domain):
            raise PermissionDenied
        if domain is None:
            messages.error(request, _("There is no such domain."))
            return HttpResponseRedirect(reverse(LIST))
        self._each(request, [domain], request.POST.get("do", ""))
        return HttpResponseRedirect(reverse(CHANGE, args=[domain.pk]))

    def _each(self, request: HttpRequest, domains: Iterable[KnowledgeDomain], step: str) -> None:
        """Do it to each, note it in each one's history, say it once."""
        if step == "ask" and not get_llm().configured:
            messages.warning(request, no_model())
            return
        words = ""
        for domain in domains:
            words = _done(domain, step)
            if words:
                self.log_change(request, domain, words)
        if words:
            messages.success(request, words)
        else:
            messages.error(request, _("Choose one of the buttons of the page."))

    # ---- Actions ----------------------------------------------------------------------------------------------------

    @admin.action(description=gettext_lazy("Compute again"), permissions=["change"])
    def compute_selected(self, request: HttpRequest, queryset: QuerySet[KnowledgeDomain]) -> None:
        self._each(request, queryset, "compute")

    @admin.action(description=gettext_lazy("Ask the model again"), permissions=["change"])
    def ask_selected(self, request: HttpRequest, queryset: QuerySet[KnowledgeDomain]) -> None:
        self._each(request, queryset, "ask")


def _is_curators(domain: KnowledgeDomain, name: str) -> bool:
    return bool(getattr(domain, f"{name}_source") == KnowledgeDomain.TextSource.CURATOR)


def _done(domain: KnowledgeDomain, step: str) -> str:
    """Do one step to one domain; the words for it, empty for a step that there is not."""
    verb, _colon, name = step.partition(":")
    if verb == "compute":
        recompute_now(domain.domain_id)
        return _("Computed again: count and texts are those of the documents as they are now.")
    if verb == "ask":
        if ask_model_again(domain.domain_id):
            return _("The model is asked again. A curator’s own text stays as it is.")
        return _("There is nothing to ask: the domain has no document, or both texts are a curator’s.")
    if verb == "hand-back" and name in TEXTS:
        describe(domain, {name: ""})
        return _("Handed back: the program writes this text from now on.")
    return ""
