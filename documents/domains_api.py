"""REST doors of knowledge domains: what there is, and a curator's own words about it."""

from __future__ import annotations

from typing import ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from documents.domain_texts import describe
from documents.domains import with_counts
from documents.models import KnowledgeDomain
from documents.paging import page_of, paged
from documents.serializers import DomainPatch, DomainSerializer, PageQuery, read_body, read_query


class DomainList(APIView):
    required_scopes = "read"

    @extend_schema(
        summary="List the knowledge domains", parameters=[PageQuery], responses=page_of(DomainSerializer, "DomainPage")
    )
    def get(self, request: Request) -> Response:
        query = read_query(PageQuery, request.query_params)
        rows = with_counts().order_by("domain_id")
        return paged(request, rows, DomainSerializer, page=query["page"], page_size=query["page_size"])


class DomainDetail(APIView):
    required_scopes: ClassVar = {"PATCH": "write"}
    required_permissions: ClassVar = {"PATCH": "documents.change_knowledgedomain"}

    @extend_schema(
        summary="Write a domain's description",
        description="A curator's text is never overwritten; an empty one goes back to the summary made by itself.",
        parameters=[OpenApiParameter("domain_id", str, OpenApiParameter.PATH)],
        request=DomainPatch,
        responses=DomainSerializer,
    )
    def patch(self, request: Request, domain_id: str) -> Response:
        changes = read_body(DomainPatch, request.data)
        domain = KnowledgeDomain.objects.filter(domain_id=domain_id).first()
        if domain is None:
            raise NotFound(_("There is no such domain."))
        describe(domain, changes)
        return Response(DomainSerializer(with_counts().get(pk=domain.pk)).data)
