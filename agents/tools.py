"""The one door to tools: chat, API, MCP, the test page and commands call them here, and here each call is recorded."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from django.conf import settings

from agents.level_fit import present_fit
from agents.recording import MAX_QUERY, ToolContext, record_call
from agents.registry import ToolError, get_tool, registered_tools, tool
from clients.interfaces import Embedder
from clients.registry import get_embedder, get_session_memory, get_vector_store
from documents.source import get_keyword_index, get_source
from retrieval.action_memory import MemoryScope, RetrievedDocTracker
from retrieval.lookup import lookup_knowledge as look_up
from retrieval.lookup_types import DomainLimit, LookupOutcome, PrimaryContent, RetrievalSettings

__all__ = [
    "LOOKUP_TOOL",
    "ToolContext",
    "ToolReply",
    "call_tool",
    "registered_tools",
    "retrieval_settings",
    "text_for_model",
]

log = logging.getLogger(__name__)

LOOKUP_TOOL = "lookup_knowledge"
_MAX_SECTION_TITLE = 500


@dataclass(frozen=True)
class ToolReply:
    """``content`` is exactly what a model sees; with ``error_code`` it is ``{"error": {"code", "message"}}``.

    ``invocation_id`` is the row in ``tool_invocation``, ``None`` where it could not be written.
    """

    content: dict[str, Any]
    outcome: LookupOutcome | None = None
    invocation_id: int | None = None
    error_code: str = ""
    error: str = ""
    duration_ms: float = 0.0


@dataclass(frozen=True)
class ToolResult:
    """What a tool function gives back."""

    content: dict[str, Any]
    outcome: LookupOutcome | None = field(default=None)


def call_tool(name: str, arguments: object, context: ToolContext) -> ToolReply:
    """Call a tool and record the call, also one that fails.

    What the caller can mend (an unknown tool, arguments that do not fit) comes back as a reply with an ``error_code``:
    ``unknown_tool``, ``invalid_arguments``, ``invalid_session``. What nobody can mend by asking again differently (the
    database is gone) is recorded where that is possible, and raised.
    """
    started = time.perf_counter()
    try:
        result = _run(name, arguments, context)
    except ToolError as error:
        content = {"error": {"code": error.code, "message": str(error)}}
        log.info("a tool call was refused: %s", error.code)
        return _replied(name, arguments, context, started, ToolResult(content), error)
    except Exception as error:
        _record(name, arguments, context, started, ToolResult({}), error)
        raise
    return _replied(name, arguments, context, started, result, None)


def text_for_model(content: Mapping[str, Any]) -> str:
    """A reply's content as the text that a model is given, and that people are shown where they are to see the same."""
    return json.dumps(content, ensure_ascii=False, indent=2)


def retrieval_settings(embedder: Embedder | None = None) -> RetrievalSettings:
    """The operator's settings, as retrieval takes them; for an ``embedder`` with the level fit in force for it.

    Without one no table is read, and a lookup decides by the embedder's shipped fit.
    """
    return RetrievalSettings(
        highly_relevant_threshold=settings.RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD,
        reference_threshold=settings.RETRIEVAL_REFERENCE_THRESHOLD,
        max_l2_distance=settings.RETRIEVAL_MAX_L2_DISTANCE,
        precise_check=settings.RETRIEVAL_PRECISE_CHECK,
        primary_content=cast(PrimaryContent, settings.PRIMARY_CONTENT),  # one of the two, checked like the next
        fit=present_fit(embedder) if embedder is not None else None,
        domain_limit=cast(DomainLimit, settings.RETRIEVAL_DOMAIN_LIMIT),  # one of the three: the settings file checks
    )


@tool(
    name=LOOKUP_TOOL,
    description=(
        "Looks something up in the knowledge base. It matches exactly first (error codes, product names, terms) and"
        " adds search by meaning by itself, so one call covers both. The result carries relevanceLevel and"
        " completenessHint, the knowledge base's own word on whether anything better is to be found, and"
        " retrievedDomainsThisSession, the domains that were looked up already."
    ),
)
def lookup_knowledge(
    context: ToolContext,
    *,
    query: Annotated[str, "What to look up: an exact code or term, or a question in your own words."],
    section_title: Annotated[
        str | None, "One section of the document found, by a title of availableSections or of a message."
    ] = None,
) -> ToolResult:
    """The lookup of SPEC section 9, everything it needs taken from the settings and the shared clients."""
    _check_text("query", query, limit=MAX_QUERY)
    if not query.strip():
        raise ToolError('"query" is empty: say what to look up.', code="invalid_arguments")
    if section_title is not None:
        _check_text("section_title", section_title, limit=_MAX_SECTION_TITLE)
    embedder = get_embedder()
    outcome = look_up(
        query,
        section_title=section_title,
        source=get_source(),
        index=get_keyword_index(),
        embedder=embedder,
        store=get_vector_store(),
        tracker=RetrievedDocTracker(get_session_memory()),
        scope=_scope(context),
        settings=retrieval_settings(embedder),
        budget=context.budget,
        language="en" if (context.language or settings.LOOKUP_LANGUAGE) == "en" else "zh",
    )
    return ToolResult(outcome.result.as_dict(), outcome)


def _run(name: str, arguments: object, context: ToolContext) -> ToolResult:
    found = get_tool(name)
    result: ToolResult = found.function(context, **found.check(arguments))
    return result


def _scope(context: ToolContext) -> MemoryScope | None:
    if not context.scope:
        return None
    try:
        return MemoryScope(principal=context.principal, scope=context.scope)
    except ValueError as error:
        raise ToolError(str(error), code="invalid_session") from error


def _check_text(name: str, text: str, *, limit: int) -> None:
    if len(text) > limit:
        raise ToolError(f'"{name}" has {len(text)} characters; {limit} are the limit.', code="invalid_arguments")
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ToolError(
            f'"{name}" holds characters that are no text (NUL, half a character).', code="invalid_arguments"
        )


def _replied(
    name: str, arguments: object, context: ToolContext, started: float, result: ToolResult, error: ToolError | None
) -> ToolReply:
    invocation_id = _record(name, arguments, context, started, result, error)
    return ToolReply(
        content=result.content,
        outcome=result.outcome,
        invocation_id=invocation_id,
        error_code=error.code if error is not None else "",
        error=str(error) if error is not None else "",
        duration_ms=_milliseconds(started),
    )


def _record(
    name: str, arguments: object, context: ToolContext, started: float, result: ToolResult, error: Exception | None
) -> int | None:
    return record_call(
        tool_name=name,
        arguments=dict(arguments) if isinstance(arguments, Mapping) else arguments,
        context=context,
        content=result.content,
        outcome=result.outcome,
        error=error,
        duration_ms=_milliseconds(started),
    )


def _milliseconds(started: float) -> float:
    return (time.perf_counter() - started) * 1000.0
