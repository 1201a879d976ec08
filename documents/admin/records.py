"""Recorded tool calls, and what all pages of recorded rows share."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from documents.models import ToolInvocation, ToolInvocationDocument

MAX_SHOWN = 120


class ReadOnlyAdmin(admin.ModelAdmin[Any]):
    """Rows that the program writes: looked at, never changed by hand."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ServedInline(admin.TabularInline[ToolInvocationDocument, ToolInvocation]):
    """The documents that one call served."""

    model = ToolInvocationDocument
    extra = 0
    can_delete = False
    fields = ("file_path", "role", "section", "match_type", "similarity")
    readonly_fields = fields
    verbose_name = _("served document")
    verbose_name_plural = _("served documents")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ToolInvocationAdmin(ReadOnlyAdmin):
    """Every recorded call: what was asked, what was answered, how long it took."""

    list_display = (
        "created_at",
        "short_query",
        "relevance_level",
        "dedup_reason",
        "channel",
        "document_path",
        "duration",
    )
    list_filter = ("relevance_level", "dedup_reason", "channel", "tool_name", "created_at")
    search_fields = ("query", "session_id", "run_id", "document_path")
    date_hierarchy = None
    show_full_result_count = False
    inlines = (ServedInline,)
    fields = (
        ("created_at", "channel", "tool_name", "model"),
        ("run_id", "session_id", "principal"),
        "query",
        ("found", "relevance_level", "dedup_reason"),
        ("domain", "document_path"),
        ("l0_match_count", "l1_top_similarity"),
        ("duration_ms", "l0_ms", "embed_ms", "l1_ms", "memory_ms"),
        ("degraded", "error"),
        "arguments_text",
        "outline_text",
        "details_text",
    )

    @admin.display(description=_("query"), ordering="query")
    def short_query(self, row: ToolInvocation) -> str:
        return row.query if len(row.query) <= MAX_SHOWN else row.query[:MAX_SHOWN] + "…"

    @admin.display(description=_("milliseconds"), ordering="duration_ms")
    def duration(self, row: ToolInvocation) -> str:
        return f"{row.duration_ms:.1f}"

    @admin.display(description=_("arguments"))
    def arguments_text(self, row: ToolInvocation) -> SafeString:
        return _json(row.arguments)

    @admin.display(description=_("answer's outline"))
    def outline_text(self, row: ToolInvocation) -> SafeString:
        return _json(row.outline)

    @admin.display(description=_("retrieval details"))
    def details_text(self, row: ToolInvocation) -> SafeString:
        return _json(row.retrieval_details)


def _json(value: Any) -> SafeString:
    return format_html(
        '<div class="k"><pre class="k-code">{}</pre></div>', json.dumps(value, ensure_ascii=False, indent=2)
    )
