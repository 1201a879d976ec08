"""``POST /lookup/``, the action memory of a caller's session, and the same lookup for commands beside the server."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.tools import LOOKUP_TOOL, ToolContext, call_tool
from clients.registry import get_session_memory
from documents.access import PrincipalThrottle, principal_of
from documents.local_server import internal
from documents.models import ToolInvocation
from documents.serializers import StrictCharField, StrictSerializer, read_body
from retrieval.action_memory import MemoryScope, RetrievedDocTracker, is_valid_scope

MAX_QUERY = 2_000
MAX_SECTION = 500
# Commands on this machine share one principal: who may read the data folder is its owner.
LOCAL_PRINCIPAL = "cli:local"


class SessionIdField(StrictCharField):
    """1 to 128 letters, digits, or ``. _ : -``."""

    default_error_messages: ClassVar = {"session_id": _("A session id has 1 to 128 letters, digits, or . _ : -")}

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        if not is_valid_scope(value):
            self.fail("session_id")
        return value


class LookupRequest(StrictSerializer):
    query = StrictCharField(max_length=MAX_QUERY)
    session_id = SessionIdField(
        required=False,
        allow_null=True,
        trim_whitespace=False,
        help_text=_("Remembers what was served; without it nothing is remembered."),
    )
    section_title = StrictCharField(required=False, allow_null=True, allow_blank=True, max_length=MAX_SECTION)


_Primary = inline_serializer(
    name="LookupPrimary",
    fields={
        "content": serializers.CharField(),
        "source": serializers.CharField(),
        "matchType": serializers.CharField(),
        "confidence": serializers.ChoiceField(choices=["high", "low"]),
        "availableSections": serializers.ListField(child=serializers.CharField(), allow_null=True),
    },
    allow_null=True,
)
_Supplement = inline_serializer(
    name="LookupSupplement",
    fields={
        "content": serializers.CharField(),
        "source": serializers.CharField(),
        "matchType": serializers.CharField(),
    },
    allow_null=True,
)
LookupResult = inline_serializer(
    name="LookupResult",
    fields={
        "found": serializers.BooleanField(),
        "primary": _Primary,
        "supplement": _Supplement,
        "relevanceLevel": serializers.ChoiceField(
            choices=["PRECISE", "HIGHLY_RELEVANT", "REFERENCE", "DEDUPED"], allow_null=True
        ),
        "completenessHint": serializers.CharField(allow_null=True),
        "retrievedDomainsThisSession": serializers.ListField(child=serializers.CharField()),
        "message": serializers.CharField(allow_null=True),
    },
)


class Lookup(APIView):
    required_scopes: ClassVar = {"POST": "read"}
    throttle_classes = (PrincipalThrottle,)
    throttle_scope = "lookup"

    @extend_schema(summary="Look something up", request=LookupRequest, responses=LookupResult)
    def post(self, request: Request) -> Response:
        asked = read_body(LookupRequest, request.data)
        return Response(_look_up(asked, principal=principal_of(request).id, channel=ToolInvocation.Channel.API))


class SessionMemory(APIView):
    required_scopes: ClassVar = {"DELETE": "read"}

    @extend_schema(
        summary="Forget what was served to a session",
        parameters=[OpenApiParameter("session_id", str, OpenApiParameter.PATH)],
        responses={204: None},
    )
    def delete(self, request: Request, session_id: str) -> Response:
        try:
            scope = MemoryScope(principal_of(request).id, session_id)
        except ValueError as fault:
            raise ValidationError({"session_id": [str(fault)]}) from fault
        RetrievedDocTracker(get_session_memory()).clear_session(scope.key)
        return Response(status=HTTPStatus.NO_CONTENT)


@internal
def lookup_for_command(payload: dict[str, Any]) -> dict[str, Any]:
    """``POST /internal/lookup/``: ``query``, ``session_id``?, ``section_title``?; what a model sees."""
    asked = read_body(LookupRequest, payload)
    return _look_up(asked, principal=LOCAL_PRINCIPAL, channel=ToolInvocation.Channel.CLI)


def _look_up(asked: dict[str, Any], *, principal: str, channel: str) -> dict[str, Any]:
    """One lookup behind the tool registry, which records it."""
    session = asked.get("session_id") or None
    arguments = {"query": asked["query"]}
    if asked.get("section_title"):
        arguments["section_title"] = asked["section_title"]
    context = ToolContext(principal=principal, channel=channel, scope=session, session_id=session)
    reply = call_tool(LOOKUP_TOOL, arguments, context)
    if reply.error_code:
        raise ValidationError(reply.error, code=reply.error_code)
    return reply.content
