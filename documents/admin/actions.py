"""What is done to the selected documents of the list, each by itself: one that is refused holds up no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, ngettext

from clients.registry import get_llm
from documents import services
from documents.errors import DocumentError
from documents.models import ApiDocument


def no_model() -> str:
    """What to do where no language model is set up."""
    return gettext(
        "No model is set up: OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL in .env name one. Nothing was asked."
    )


def person(request: HttpRequest) -> User:
    """Who is signed in: the admin has let nobody else through."""
    return cast(User, request.user)


class DocumentActions(admin.ModelAdmin[ApiDocument]):
    """The actions of the list."""

    actions = ("reindex_selected", "enable_selected", "disable_selected", "ask_model_again", "accept_drafts")

    @admin.action(description=gettext_lazy("Index again"), permissions=["change"])
    def reindex_selected(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> None:
        self.each(
            request, list(queryset.values_list("pk", flat=True)), lambda pk: services.request_reindex(document_id=pk)
        )

    @admin.action(description=gettext_lazy("Enable"), permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        self.each(request, ids, lambda pk: services.set_enabled(document_id=pk, enabled=True))

    @admin.action(description=gettext_lazy("Disable"), permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        self.each(request, ids, lambda pk: services.set_enabled(document_id=pk, enabled=False))

    @admin.action(description=gettext_lazy("Ask the model again"), permissions=["change"])
    def ask_model_again(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> None:
        if not get_llm().configured:
            self.message_user(request, no_model(), messages.WARNING)
            return
        documents = list(queryset)
        services.regenerate_drafts([document.pk for document in documents])
        for document in documents:
            self.log_change(request, document, gettext("Asked the model again."))
        words = ngettext(
            "The model is asked again about %(count)d document.",
            "The model is asked again about %(count)d documents.",
            len(documents),
        )
        self.message_user(request, words % {"count": len(documents)}, messages.SUCCESS)

    @admin.action(description=gettext_lazy("Accept the drafts"), permissions=["change"])
    def accept_drafts(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> None:
        """All drafts of the selected documents as they stand; those without a draft are left alone."""
        waiting = set(services.documents_with_drafts())
        documents = {document.pk: document for document in queryset if document.pk in waiting}
        if not documents:
            self.message_user(request, gettext("None of the selected documents has a draft."), messages.WARNING)
            return

        def accept(document_id: int) -> None:
            services.accept_drafts(document_id, None, revision=None, user=person(request))
            self.log_change(request, documents[document_id], gettext("Accepted all drafts of the model."))

        self.each(request, documents, accept)

    def each(self, request: HttpRequest, ids: Iterable[int], change: Callable[[int], Any]) -> None:
        """Change each and say how it went."""
        done = 0
        for document_id in ids:
            try:
                change(document_id)
                done += 1
            except DocumentError as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
        if done:
            self.message_user(
                request,
                ngettext("Done for %(count)d document.", "Done for %(count)d documents.", done) % {"count": done},
                messages.SUCCESS,
            )
