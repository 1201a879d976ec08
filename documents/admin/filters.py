"""What the document list can be narrowed to."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from documents.models import ApiDocument


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
