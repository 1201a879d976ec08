"""What the document list can be narrowed to."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from documents.enrichment_overview import with_drafts
from documents.models import ApiDocument, LlmJob


class HeaderFilter(admin.SimpleListFilter):
    """Documents whose header needs a person."""

    title = gettext_lazy("header")
    parameter_name = "header"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("broken", gettext_lazy("broken")),
            ("none", gettext_lazy("none")),
            ("read", gettext_lazy("read")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> QuerySet[ApiDocument]:
        match self.value():
            case "broken":
                return queryset.exclude(frontmatter_problem="")
            case "none":
                return queryset.filter(metadata__isnull=True, frontmatter_problem="")
            case "read":
                return queryset.filter(metadata__isnull=False)
        return queryset


class DraftFilter(admin.SimpleListFilter):
    """Documents by what the language model has done about them."""

    title = gettext_lazy("drafts")
    parameter_name = "drafts"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("open", gettext_lazy("to be decided")),
            ("failed", gettext_lazy("model failed")),
            ("waiting", gettext_lazy("waiting for the model")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiDocument]) -> QuerySet[ApiDocument]:
        match self.value():
            case "open":
                return queryset.filter(pk__in=with_drafts().values("pk"))
            case "failed":
                return queryset.filter(enrichment__state=LlmJob.State.FAILED)
            case "waiting":
                return queryset.filter(enrichment__state__in=(LlmJob.State.WAITING, LlmJob.State.RUNNING))
        return queryset
