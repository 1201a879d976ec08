"""What is done to the selected documents of the list, each by itself: one that is refused holds up no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy, ngettext

from documents import services
from documents.errors import DocumentError
from documents.models import ApiDocument


def person(request: HttpRequest) -> User:
    """Who is signed in: the admin has let nobody else through."""
    return cast(User, request.user)


class DocumentActions(admin.ModelAdmin[ApiDocument]):
    """The actions of the list."""

    actions = ("reindex_selected", "enable_selected", "disable_selected")

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
