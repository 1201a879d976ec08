"""``POST /chat/`` and the caller's own conversations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.chat import (
    QuestionRefusedError,
    answer_question,
    public_citations,
    public_lookups,
    whole_text,
)
from agents.history import SessionNotFoundError, delete_session, own_session
from agents.models import ChatSession, Message, Run
from documents.access import PrincipalThrottle, principal_of
from documents.paging import page_of, paged
from documents.serializers import (
    PageQuery,
    StrictBooleanField,
    StrictCharField,
    StrictSerializer,
    read_body,
    read_query,
)


class ChatRequest(StrictSerializer):
    message = StrictCharField(allow_blank=True, help_text=_("The question, at most 8,000 characters."))
    session_id = serializers.UUIDField(
        required=False, allow_null=True, help_text=_("An own conversation to go on with; a new one without it.")
    )
    stream = StrictBooleanField(required=False, default=False, help_text=_("Only false is served here."))

    def validate_stream(self, value: bool) -> bool:
        if value:
            raise ValidationError(
                gettext("Answers are not streamed here: send false, or leave it out."), code="not_streamed"
            )
        return value


Citation = inline_serializer(
    name="Citation",
    fields={
        "index": serializers.IntegerField(),
        "source": serializers.CharField(),
        "title": serializers.CharField(),
        "section": serializers.CharField(allow_blank=True),
        "excerpt": serializers.CharField(),
    },
    many=True,
)
LookupSummary = inline_serializer(
    name="LookupSummary",
    fields={
        "query": serializers.CharField(),
        "found": serializers.BooleanField(),
        "relevanceLevel": serializers.ChoiceField(
            choices=["PRECISE", "HIGHLY_RELEVANT", "REFERENCE", "DEDUPED"], allow_null=True
        ),
        "dedup_reason": serializers.CharField(allow_null=True),
        "sources": serializers.ListField(child=serializers.CharField()),
    },
    many=True,
)
ChatReply = inline_serializer(
    name="ChatReply",
    fields={
        "session_id": serializers.UUIDField(),
        "run_id": serializers.UUIDField(),
        "message_id": serializers.UUIDField(),
        "answer": serializers.CharField(),
        "citations": Citation,
        "lookups": LookupSummary,
        "status": serializers.ChoiceField(choices=Run.Status.choices),
    },
)


class SessionSerializer(serializers.ModelSerializer[ChatSession]):
    class Meta:
        model = ChatSession
        fields: ClassVar = ["id", "title", "created_at", "updated_at"]
        read_only_fields: ClassVar = fields


class MessageSerializer(serializers.ModelSerializer[Message]):
    run_id = serializers.UUIDField(read_only=True)
    text = serializers.SerializerMethodField()
    status = serializers.CharField(source="run.status", read_only=True)
    citations = serializers.SerializerMethodField()
    lookups = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields: ClassVar = ["id", "run_id", "role", "text", "citations", "lookups", "status", "created_at"]
        read_only_fields: ClassVar = fields

    def get_text(self, message: Message) -> str:
        return whole_text(message.run, message)

    @extend_schema_field(Citation)
    def get_citations(self, message: Message) -> list[dict[str, Any]]:
        return public_citations(message)

    @extend_schema_field(LookupSummary)
    def get_lookups(self, message: Message) -> list[dict[str, Any]]:
        return public_lookups(message)


class SessionTitle(StrictSerializer):
    title = StrictCharField(max_length=200)


class SessionWithMessages(SessionSerializer):
    messages = serializers.SerializerMethodField()

    class Meta(SessionSerializer.Meta):
        fields: ClassVar = [*SessionSerializer.Meta.fields, "messages"]
        read_only_fields: ClassVar = fields

    @extend_schema_field(MessageSerializer(many=True))
    def get_messages(self, session: ChatSession) -> Any:
        rows = Message.objects.filter(session=session).select_related("run").order_by("created_at", "id")
        return MessageSerializer(rows, many=True).data


class Chat(APIView):
    required_scopes: ClassVar = {"POST": "chat"}
    throttle_classes = (PrincipalThrottle,)
    throttle_scope = "chat"

    @extend_schema(summary="Ask a question", request=ChatRequest, responses=ChatReply)
    def post(self, request: Request) -> Response:
        asked = read_body(ChatRequest, request.data)
        session = asked.get("session_id")
        try:
            answer = answer_question(
                message=asked["message"],
                principal=principal_of(request),
                session_id=str(session) if session else None,
                channel="api",
            )
        except QuestionRefusedError as refusal:
            raise ValidationError({"message": [ErrorDetail(str(refusal), code=refusal.code)]}) from refusal
        except SessionNotFoundError as unknown:
            raise _no_such_session() from unknown
        return Response(answer.as_dict())


class SessionList(APIView):
    required_scopes = "chat"

    @extend_schema(
        summary="List the own conversations",
        parameters=[PageQuery],
        responses=page_of(SessionSerializer, "SessionPage"),
    )
    def get(self, request: Request) -> Response:
        query = read_query(PageQuery, request.query_params)
        rows = ChatSession.objects.filter(principal=principal_of(request).id).order_by("-updated_at", "-id")
        return paged(request, rows, SessionSerializer, page=query["page"], page_size=query["page_size"])


class SessionDetail(APIView):
    required_scopes: ClassVar = {"GET": "chat", "PATCH": "chat", "DELETE": "chat"}

    @extend_schema(summary="One own conversation with its messages", responses=SessionWithMessages)
    def get(self, request: Request, session_id: UUID) -> Response:
        return Response(SessionWithMessages(_own(request, session_id)).data)

    @extend_schema(summary="Rename an own conversation", request=SessionTitle, responses=SessionSerializer)
    def patch(self, request: Request, session_id: UUID) -> Response:
        session = _own(request, session_id)
        session.title = read_body(SessionTitle, request.data)["title"]
        session.save(update_fields=["title"])
        return Response(SessionSerializer(session).data)

    @extend_schema(summary="Delete an own conversation and its memory", responses={204: None})
    def delete(self, request: Request, session_id: UUID) -> Response:
        try:
            delete_session(session_id=session_id, principal=principal_of(request).id)
        except SessionNotFoundError as unknown:
            raise _no_such_session() from unknown
        return Response(status=HTTPStatus.NO_CONTENT)


def _own(request: Request, session_id: UUID) -> ChatSession:
    try:
        return own_session(session_id=session_id, principal=principal_of(request).id)
    except SessionNotFoundError as unknown:
        raise _no_such_session() from unknown


def _no_such_session() -> NotFound:
    return NotFound(gettext("There is no such conversation."), code="session_not_found")
