"""``GET /api/v1/knowledge-map/``: the map exactly as the Planner is given it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from documents.knowledge_map import knowledge_map

CONTENT_TYPE = "application/yaml; charset=utf-8"


class OneForm(BaseContentNegotiation):
    """There is one form of the answer, whatever ``Accept`` says (YAML has had many names)."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type or ""


class KnowledgeMap(APIView):
    required_scopes = "read"
    content_negotiation_class = OneForm

    @extend_schema(
        summary="The knowledge map",
        description=(
            "YAML, as the Planner is given it: `available_knowledge_domains`, a list of `domain_id`, `description`, "
            "`when_to_retrieve` and `documents` (`title`, `covers`). It is bounded by `KNOWLEDGE_MAP_MAX_CHARS`: "
            "`documents_left_out` in a domain and `domains_left_out` at the top say how many are missing."
        ),
        operation_id="knowledge_map_retrieve",
        parameters=[OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)],
        responses={
            (200, "application/yaml"): OpenApiTypes.STR,
            304: OpenApiResponse(description="The map is still the one with the `ETag` that was sent."),
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        text = knowledge_map()
        etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
        whole = HttpResponse(text, content_type=CONTENT_TYPE, headers=headers)
        return get_conditional_response(request._request, etag=etag, response=whole) or whole
