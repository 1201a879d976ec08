"""Trial lookups of staff: made as an agent makes them, recorded on the channel ``admin``, remembered where asked."""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from agents.explain import explain
from agents.explanation import Explanation
from agents.level_fit import saved_fit
from agents.tools import LOOKUP_TOOL, ToolContext, call_tool, retrieval_settings, text_for_model
from clients.registry import get_embedder, get_session_memory, get_vector_store
from documents.models import ToolInvocation
from retrieval.action_memory import MemoryScope, RetrievedDocTracker
from retrieval.lookup_types import LookupOutcome

RECENT = 8
_LOOKED_THROUGH = 50
_MEMORY_KEY = "lookup_test_memory"


@dataclass(frozen=True)
class Trial:
    """One lookup with its explanation. ``text`` is what the model gets, to the byte.

    ``lexical_embedder``: its vectors know letters, not meaning. ``invocation_id`` is None where it was not recorded.
    """

    text: str
    outcome: LookupOutcome
    explanation: Explanation
    invocation_id: int | None
    embedder: str
    lexical_embedder: bool
    metric: str


class TrialRefusedError(Exception):
    """The tool did not take the arguments; the message says what to do."""


def run_trial(*, query: str, section_title: str, principal: str, scope: str | None) -> Trial:
    """Look something up once, as an agent's tool does, and explain that lookup."""
    arguments = {"query": query} | ({"section_title": section_title} if section_title else {})
    context = ToolContext(
        principal=principal, channel=ToolInvocation.Channel.ADMIN, scope=scope, session_id=scope, budget=None
    )
    reply = call_tool(LOOKUP_TOOL, arguments, context)
    if reply.outcome is None:
        raise TrialRefusedError(reply.error)
    embedder = get_embedder()
    settings = retrieval_settings(embedder)
    explanation = explain(
        query,
        reply.outcome,
        section_title=section_title,
        settings=settings,
        fit=settings.fit or embedder.fit,
        calibrated=saved_fit(embedder) is not None,
    )
    return Trial(
        text=text_for_model(reply.content),
        outcome=reply.outcome,
        explanation=explanation,
        invocation_id=reply.invocation_id,
        embedder=embedder.name,
        lexical_embedder=embedder.lexical,
        metric=get_vector_store().metric,
    )


def recent_trials(*, principal: str) -> list[ToolInvocation]:
    """This person's latest lookups here, the last one first; what was tried several times stands there once."""
    latest: dict[tuple[str, str, bool], ToolInvocation] = {}
    for row in _trials(principal).order_by("-pk")[:_LOOKED_THROUGH]:
        latest.setdefault((row.query, str(row.arguments.get("section_title") or ""), bool(row.session_id)), row)
    return list(latest.values())[:RECENT]


def earlier_trial(*, principal: str, invocation_id: int) -> ToolInvocation | None:
    """One of this person's lookups here; None where there is none of this number."""
    return _trials(principal).filter(pk=invocation_id).first()


def _trials(principal: str) -> QuerySet[ToolInvocation]:
    rows = ToolInvocation.objects.filter(channel=ToolInvocation.Channel.ADMIN, tool_name=LOOKUP_TOOL)
    return rows.filter(principal=principal).exclude(found=None)


# ---- The memory of one person's trials -----------------------------------------------------------------------------
def trial_scope(session: MutableMapping[str, Any]) -> str:
    """The scope that this browser's remembered trials share; made on first use."""
    if not session.get(_MEMORY_KEY):
        session[_MEMORY_KEY] = f"lookup-test:{uuid.uuid4().hex}"
    return str(session[_MEMORY_KEY])


def has_memory(session: MutableMapping[str, Any]) -> bool:
    """Has a trial been remembered that was not forgotten since?"""
    return bool(session.get(_MEMORY_KEY))


def forget(session: MutableMapping[str, Any], *, principal: str) -> None:
    """Clear the memory of the trials. ``ClientError`` where it cannot be reached: the next trial starts anew still."""
    scope = session.pop(_MEMORY_KEY, None)
    if scope:
        RetrievedDocTracker(get_session_memory()).clear_session(MemoryScope(principal, scope).key)
