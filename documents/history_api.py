"""REST doors of earlier revisions: what is kept of a document, its bytes, and its return.

They are for those who may write: what was deleted is gone for everybody else.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from documents import services
from documents.access import Principal, principal_of
from documents.api import visible_documents
from documents.models import DocumentHistory
from documents.paging import page_of, paged
from documents.serializers import (
    DocumentSerializer,
    PageQuery,
    StrictBooleanField,
    StrictCharField,
    StrictSerializer,
    read_body,
    read_query,
)

_READ = "documents.view_documenthistory"
_DOCUMENT_ID = OpenApiParameter("document_id", int, OpenApiParameter.PATH)
_HISTORY_ID = OpenApiParameter("history_id", int, OpenApiParameter.PATH)


class HistorySerializer(serializers.ModelSerializer[DocumentHistory]):
    class Meta:
        model = DocumentHistory
        fields: ClassVar = [
            "id",
            "document_id",
            "file_path",
            "revision",
            "content_hash",
            "size",
            "reason",
            "created_at",
            "created_by",
        ]
        read_only_fields: ClassVar = fields


class HistoryListQuery(PageQuery):
    reason = serializers.ChoiceField(
        required=False, default=DocumentHistory.Reason.DELETED, choices=DocumentHistory.Reason.choices
    )
    search = StrictCharField(required=False, max_length=200, help_text="Part of the path.")


class RestoreForm(StrictSerializer):
    replace = StrictBooleanField(
        required=False,
        default=False,
        help_text="Where another document has the place of a deleted one: make the text a new revision of that one.",
    )


class DocumentHistoryList(APIView):
    required_scopes = "write"
    required_permissions: ClassVar = {"GET": _READ}

    @extend_schema(
        summary="Earlier revisions of one document",
        description="Newest first, also of a deleted one while its bytes are kept (`TRASH_DAYS`).",
        parameters=[_DOCUMENT_ID, PageQuery],
        responses=page_of(HistorySerializer, "DocumentHistoryPage"),
    )
    def get(self, request: Request, document_id: int) -> Response:
        query = read_query(PageQuery, request.query_params)
        rows = DocumentHistory.objects.filter(document_id=document_id).order_by("-id")
        if not rows.exists() and not visible_documents().filter(pk=document_id).exists():
            raise NotFound(_("There is no document %(id)s.") % {"id": document_id})
        return paged(request, rows, HistorySerializer, page=query["page"], page_size=query["page_size"])


class HistoryList(APIView):
    required_scopes = "write"
    required_permissions: ClassVar = {"GET": _READ}

    @extend_schema(
        summary="Deleted documents (or replaced revisions) that can be brought back",
        parameters=[HistoryListQuery],
        responses=page_of(HistorySerializer, "HistoryPage"),
    )
    def get(self, request: Request) -> Response:
        query = read_query(HistoryListQuery, request.query_params)
        rows = DocumentHistory.objects.filter(reason=query["reason"]).order_by("-id")
        if "search" in query:
            rows = rows.filter(file_path__icontains=query["search"])
        return paged(request, rows, HistorySerializer, page=query["page"], page_size=query["page_size"])


class HistoryContent(APIView):
    required_scopes = "write"
    required_permissions: ClassVar = {"GET": _READ}

    @extend_schema(
        summary="The bytes of an earlier revision",
        parameters=[_HISTORY_ID],
        responses={(200, "text/markdown"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, history_id: int) -> HttpResponse:
        return kept_file(services.require_kept(history_id))


class HistoryRestore(APIView):
    required_scopes: ClassVar = {"POST": "write"}
    required_permissions: ClassVar = {"POST": "documents.add_apidocument"}

    @extend_schema(
        summary="Undo: bring an earlier revision back",
        description=(
            "A replaced revision becomes a new revision of its document; a deleted document comes back under its path, "
            "with its id. What is present now is kept as an earlier revision. 202: saved, found by keyword at once, "
            "vectors on their way. 200: these bytes are the present ones already."
        ),
        parameters=[_HISTORY_ID],
        request=RestoreForm,
        responses={200: DocumentSerializer, 202: DocumentSerializer},
    )
    def post(self, request: Request, history_id: int) -> Response:
        replace = read_body(RestoreForm, request.data)["replace"]
        principal = principal_of(request)
        check_may_restore(principal, services.require_kept(history_id), replace=replace)
        outcome = services.restore_revision(history_id=history_id, user=principal.user, replace=replace)
        document = visible_documents().filter(pk=outcome.document.pk).first() or outcome.document
        return Response(
            DocumentSerializer(document).data,
            status=HTTPStatus.OK if outcome.unchanged else HTTPStatus.ACCEPTED,
            headers={"Location": reverse("document-detail", args=[document.pk])},
        )


def kept_file(row: DocumentHistory) -> HttpResponse:
    """The bytes of a kept revision as a download that runs nothing. Raises ``revision_gone`` (DocumentError)."""
    headers = {
        "Content-Disposition": content_disposition_header(True, row.file_path.rpartition("/")[2]) or "attachment",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return HttpResponse(services.kept_bytes(row), content_type="text/markdown", headers=headers)


def check_may_restore(principal: Principal, row: DocumentHistory, *, replace: bool) -> None:
    """A person who may add documents does not by that replace what is there. Raises ``PermissionDenied``."""
    replaces = services.living_document(row) is not None or (replace and services.in_its_place(row) is not None)
    if replaces and not principal.allows("write", "documents.change_apidocument"):
        raise PermissionDenied(_("You may add documents, but not replace this one."), code="missing_scope")
