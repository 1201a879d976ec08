"""REST doors of documents: each view validates, calls one function, answers."""

from __future__ import annotations

import contextlib
import hashlib
from http import HTTPStatus
from typing import Any, ClassVar, cast

from django.core.files.uploadedfile import UploadedFile
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from documents import services
from documents.access import Principal, PrincipalThrottle, principal_of
from documents.errors import DocumentError
from documents.idempotency import HEADER, answer_once
from documents.models import ApiDocument
from documents.multipart import DocumentParser, bound_upload, raw_name
from documents.names import check_category, check_file_name, document_path
from documents.paging import page_of, paged
from documents.serializers import (
    ChunkSerializer,
    DocumentListQuery,
    DocumentPatch,
    DocumentSerializer,
    PageQuery,
    UploadForm,
    WaitQuery,
    read_body,
    read_query,
)
from documents.twins import document_at

WAIT_SECONDS = 60.0
_ID = OpenApiParameter("document_id", int, OpenApiParameter.PATH)


def visible_documents() -> QuerySet[ApiDocument]:
    """Every document that was not deleted: one whose vectors are still to go is gone for readers."""
    return ApiDocument.objects.exclude(status=ApiDocument.Status.DELETING).select_related("uploaded_by")


def get_document(document_id: int) -> ApiDocument:
    """A visible document; raises ``NotFound``."""
    found = visible_documents().filter(pk=document_id).first()
    if found is None:
        raise NotFound(_("There is no document %(id)s.") % {"id": document_id})
    return found


class DocumentList(APIView):
    required_scopes: ClassVar = {"GET": "read", "POST": "write"}
    required_permissions: ClassVar = {"POST": "documents.add_apidocument"}
    parser_classes = (DocumentParser,)
    throttle_classes = (PrincipalThrottle,)
    throttle_scope = "upload"
    throttle_methods: ClassVar = {"POST"}

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        if request.method == "POST":
            bound_upload(request)
        return super().initialize_request(request, *args, **kwargs)

    @extend_schema(
        summary="List documents",
        parameters=[DocumentListQuery],
        responses=page_of(DocumentSerializer, "DocumentPage"),
    )
    def get(self, request: Request) -> Response:
        query = read_query(DocumentListQuery, request.query_params)
        rows = _filtered(query).order_by(query["ordering"], "id")
        return paged(request, rows, DocumentSerializer, page=query["page"], page_size=query["page_size"])

    @extend_schema(
        summary="Upload or replace a document",
        description=(
            "202: saved, found by keyword at once, vectors on their way. 200: unchanged bytes, or a replacement "
            "indexed while waiting. 201: indexed while waiting."
        ),
        parameters=[
            WaitQuery,
            OpenApiParameter(
                HEADER, str, OpenApiParameter.HEADER, description="The same call again within a day is replayed."
            ),
        ],
        request={"multipart/form-data": UploadForm},
        responses={200: DocumentSerializer, 201: DocumentSerializer, 202: DocumentSerializer},
    )
    def post(self, request: Request) -> Response:
        wait = read_query(WaitQuery, request.query_params)["wait"]
        form = read_body(UploadForm, request.data)
        if len(request.FILES.getlist("file")) > 1:
            raise ValidationError({"file": [_("One file a call, please.")]}, code="too_many_files")
        file, category, principal = form["file"], form["category"], principal_of(request)
        _check_may_replace(principal, category, raw_name(file))
        return answer_once(
            key=request.headers.get(HEADER),
            principal=principal.id,
            fingerprint=_fingerprint(file, category),
            answer=lambda: _upload(file, category, principal, wait=wait),
        )


class DocumentDetail(APIView):
    required_scopes: ClassVar = {"GET": "read", "PATCH": "write", "DELETE": "write"}
    required_permissions: ClassVar = {
        "PATCH": "documents.change_apidocument",
        "DELETE": "documents.delete_apidocument",
    }

    @extend_schema(summary="One document", parameters=[_ID], responses=DocumentSerializer)
    def get(self, request: Request, document_id: int) -> Response:
        return Response(DocumentSerializer(get_document(document_id)).data)

    @extend_schema(
        summary="Enable, disable, edit the metadata",
        description="Metadata is merged by key and rewrites the file: a new revision.",
        parameters=[_ID],
        request=DocumentPatch,
        responses=DocumentSerializer,
    )
    def patch(self, request: Request, document_id: int) -> Response:
        changes = read_body(DocumentPatch, request.data)
        document = get_document(document_id)
        _check_revision(document, changes.get("revision"))
        if "metadata" in changes:
            services.edit_metadata(
                document_id=document_id,
                changes=changes["metadata"],
                revision=changes.get("revision"),
                user=principal_of(request).user,
            )
        if "enabled" in changes:
            services.set_enabled(document_id=document_id, enabled=changes["enabled"])
        return Response(DocumentSerializer(get_document(document_id)).data)

    @extend_schema(
        summary="Delete a document",
        parameters=[_ID],
        responses={
            204: OpenApiResponse(description="Gone everywhere."),
            202: OpenApiResponse(
                description="Gone for every lookup; its vectors are removed as soon as the store answers."
            ),
        },
    )
    def delete(self, request: Request, document_id: int) -> Response:
        gone = services.delete_document(document_id=document_id, user=principal_of(request).user)
        return Response(status=HTTPStatus.NO_CONTENT if gone else HTTPStatus.ACCEPTED)


class DocumentContent(APIView):
    required_scopes = "read"

    @extend_schema(
        summary="The file, byte for byte", parameters=[_ID], responses={(200, "text/markdown"): OpenApiTypes.BINARY}
    )
    def get(self, request: Request, document_id: int) -> HttpResponse:
        document = get_document(document_id)
        headers = {
            "Content-Disposition": content_disposition_header(True, document.file_name) or "attachment",
            "X-Content-Type-Options": "nosniff",
            # Whatever the file holds, a browser that is made to show it runs nothing of it.
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return HttpResponse(
            services.read_content(document_id=document_id), content_type="text/markdown", headers=headers
        )


class DocumentChunks(APIView):
    required_scopes = "read"

    @extend_schema(
        summary="What a document's vectors were made of",
        parameters=[_ID, PageQuery],
        responses=page_of(ChunkSerializer, "ChunkPage"),
    )
    def get(self, request: Request, document_id: int) -> Response:
        query = read_query(PageQuery, request.query_params)
        document = get_document(document_id)
        rows = document.chunks.filter(revision=document.indexed_revision).order_by("number")
        return paged(request, rows, ChunkSerializer, page=query["page"], page_size=query["page_size"])


class DocumentReindex(APIView):
    required_scopes: ClassVar = {"POST": "write"}
    required_permissions: ClassVar = {"POST": "documents.change_apidocument"}

    @extend_schema(
        summary="Make a document's vectors again", parameters=[_ID], request=None, responses={202: DocumentSerializer}
    )
    def post(self, request: Request, document_id: int) -> Response:
        get_document(document_id)
        services.request_reindex(document_id=document_id)
        return Response(DocumentSerializer(get_document(document_id)).data, status=HTTPStatus.ACCEPTED)


# ---- Behind the views ------------------------------------------------------------------------------------------------
def _filtered(query: dict[str, Any]) -> QuerySet[ApiDocument]:
    rows = visible_documents()
    if query.get("status") == ApiDocument.Status.DELETING:
        rows = ApiDocument.objects.select_related("uploaded_by")
    for name in ("category", "status", "enabled"):
        if name in query:
            rows = rows.filter(**{name: query[name]})
    if "updated_since" in query:
        rows = rows.filter(updated_at__gte=query["updated_since"])
    if "search" in query:
        rows = rows.filter(Q(title__icontains=query["search"]) | Q(file_path__icontains=query["search"]))
    return rows


def _upload(file: UploadedFile[Any], category: str, principal: Principal, *, wait: bool) -> Response:
    outcome = services.upload_document(
        file=cast(Any, file), file_name=raw_name(file), category=category, user=principal.user
    )
    if wait:
        with contextlib.suppress(DocumentError):  # deleted while it was waited for
            services.wait_until_indexed(outcome.document.pk, WAIT_SECONDS)
    # Saved is saved: somebody may have deleted it since, and the caller is still told what was taken.
    document = visible_documents().filter(pk=outcome.document.pk).first() or outcome.document
    return Response(
        DocumentSerializer(document).data,
        status=_upload_status(outcome, document, wait=wait),
        headers={"Location": reverse("document-detail", args=[document.pk])},
    )


def _upload_status(outcome: services.UploadOutcome, document: ApiDocument, *, wait: bool) -> HTTPStatus:
    """API.md's table for ``POST /documents/``."""
    indexed = wait and document.status == ApiDocument.Status.INDEXED
    if indexed and outcome.created:
        return HTTPStatus.CREATED
    failed = wait and document.status == ApiDocument.Status.FAILED
    return HTTPStatus.OK if (indexed or outcome.unchanged) and not failed else HTTPStatus.ACCEPTED


def _check_may_replace(principal: Principal, category: str, file_name: str) -> None:
    """A person who may add documents does not by that replace other people's."""
    if principal.allows("write", "documents.change_apidocument"):
        return
    path = document_path(check_category(category), check_file_name(file_name))
    if document_at(visible_documents(), path) is not None:
        raise PermissionDenied(_("You may add documents, but not replace this one."), code="missing_scope")


def _check_revision(document: ApiDocument, revision: int | None) -> None:
    if revision is not None and revision != document.revision:
        detail = _("The document is at revision %(now)s, the change was made for %(then)s: read it again.")
        raise DocumentError(
            detail=detail % {"now": document.revision, "then": revision},
            code="stale_revision",
            field="revision",
            status=HTTPStatus.CONFLICT,
        )


def _fingerprint(file: UploadedFile[Any], category: str) -> str:
    digest = hashlib.sha256(f"{category}\n{raw_name(file)}\n".encode("utf-8", "replace"))
    for part in file.chunks():
        digest.update(part)
    file.seek(0)
    return digest.hexdigest()
