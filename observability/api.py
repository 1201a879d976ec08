"""``GET /invocations/``: recorded tool calls, newest first, as JSON pages or CSV."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.pagination import CursorPagination
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from documents.models import ToolInvocation, ToolInvocationDocument
from documents.serializers import MomentField, StrictCharField, StrictSerializer, read_query
from observability.csv_text import csv_text

MAX_PAGE_SIZE = 1_000
LEVELS = ("PRECISE", "HIGHLY_RELEVANT", "REFERENCE", "DEDUPED", "none")
REASONS = ("doc_retrieved", "domain_retrieved", "budget_exhausted", "none")


class ServedDocumentSerializer(serializers.ModelSerializer[ToolInvocationDocument]):
    class Meta:
        model = ToolInvocationDocument
        fields: ClassVar = ["document_id", "file_path", "domain", "role", "section", "match_type", "similarity"]


class InvocationSerializer(serializers.ModelSerializer[ToolInvocation]):
    arguments = serializers.DictField()
    outline = serializers.DictField()
    retrieval_details = serializers.DictField(allow_null=True)
    documents = ServedDocumentSerializer(many=True)

    class Meta:
        model = ToolInvocation
        fields: ClassVar = [
            "id",
            "created_at",
            "channel",
            "principal",
            "run_id",
            "session_id",
            "model",
            "tool_name",
            "query",
            "arguments",
            "found",
            "relevance_level",
            "dedup_reason",
            "domain",
            "document_id",
            "document_path",
            "l0_match_count",
            "l1_top_similarity",
            "duration_ms",
            "l0_ms",
            "embed_ms",
            "l1_ms",
            "memory_ms",
            "degraded",
            "error",
            "outline",
            "retrieval_details",
            "documents",
        ]
        read_only_fields: ClassVar = fields


class InvocationQuery(StrictSerializer):
    since = MomentField(required=False)
    until = MomentField(required=False)
    session_id = StrictCharField(required=False, max_length=128)
    run_id = StrictCharField(required=False, max_length=64)
    level = serializers.ChoiceField(required=False, choices=LEVELS)
    dedup_reason = serializers.ChoiceField(required=False, choices=REASONS)
    channel = serializers.ChoiceField(required=False, choices=ToolInvocation.Channel.choices)
    cursor = StrictCharField(required=False, max_length=500)
    page_size = serializers.IntegerField(required=False, default=100, min_value=1, max_value=MAX_PAGE_SIZE)
    format = serializers.ChoiceField(required=False, choices=["json", "csv"])

    def get_fields(self) -> dict[str, Any]:
        """``from`` and ``to``, which Python does not let be attribute names."""
        fields = super().get_fields()
        fields["from"], fields["to"] = fields.pop("since"), fields.pop("until")
        return fields


class InvocationPages(CursorPagination):
    ordering = "-id"
    page_size_query_param = "page_size"
    max_page_size = MAX_PAGE_SIZE
    page_size = 100


class CSVRenderer(BaseRenderer):
    """The rows of one page; nested values as JSON text."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        columns: Sequence[str] = InvocationSerializer.Meta.fields
        rows = ([_flat(row[column]) for column in columns] for row in data["results"])
        return csv_text(columns, rows).encode("utf-8")


class InvocationList(APIView):
    required_scopes = "ops"
    renderer_classes = (JSONRenderer, CSVRenderer)

    @extend_schema(
        summary="Recorded tool calls",
        description="Newest first. As CSV the address of the next page is in the header `Link`.",
        parameters=[InvocationQuery],
        responses={
            (200, "application/json"): inline_serializer(
                name="InvocationPage",
                fields={
                    "next": serializers.URLField(allow_null=True),
                    "previous": serializers.URLField(allow_null=True),
                    "results": InvocationSerializer(many=True),
                },
            ),
            (200, "text/csv"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> Response:
        rows = _filtered(read_query(InvocationQuery, request.query_params)).prefetch_related("documents")
        pages = InvocationPages()
        page = pages.paginate_queryset(rows, request, view=self)
        response = pages.get_paginated_response(InvocationSerializer(page, many=True).data)
        if isinstance(request.accepted_renderer, CSVRenderer):
            response["Content-Disposition"] = 'attachment; filename="invocations.csv"'
            if pages.get_next_link():
                response["Link"] = f'<{pages.get_next_link()}>; rel="next"'
        return response


def _filtered(query: dict[str, Any]) -> QuerySet[ToolInvocation]:
    rows = ToolInvocation.objects.all()
    for name, condition in (
        ("from", "created_at__gte"),
        ("to", "created_at__lt"),
        ("session_id", "session_id"),
        ("run_id", "run_id"),
        ("channel", "channel"),
    ):
        if name in query:
            rows = rows.filter(**{condition: query[name]})
    for name, column in (("level", "relevance_level"), ("dedup_reason", "dedup_reason")):
        if name in query:
            rows = rows.filter(**{column: None if query[name] == "none" else query[name]})
    return rows


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
