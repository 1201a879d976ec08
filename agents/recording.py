"""One row a tool call, and one a document served (LK-3): what dashboards and reviewers read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, transaction

from agents.registry import ToolError
from documents.models import ToolInvocation, ToolInvocationDocument
from retrieval.lookup_types import LookupOutcome, ServedDocument

log = logging.getLogger(__name__)

MAX_QUERY = 2000
_MAX_TEXT = 2000
_MAX_ARGUMENTS = 20


@dataclass(frozen=True)
class ToolContext:
    """Who calls a tool, on what occasion.

    ``principal`` is ``user:{id}`` or ``key:{prefix}``; ``scope`` is what the action memory is kept under: a run's id,
    or a caller's ``session_id`` (``None``: nothing is remembered). ``budget`` bounds the lookups of the scope
    (``None``: no bound), ``language`` chooses the messages (``None``: the setting). The rest is recorded as it is.
    """

    principal: str
    channel: str
    scope: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    model: str | None = None
    budget: int | None = None
    language: str | None = None


def record_call(
    *,
    tool_name: str,
    arguments: object,
    context: ToolContext,
    content: Mapping[str, Any],
    outcome: LookupOutcome | None,
    error: BaseException | None,
    duration_ms: float,
) -> int | None:
    """Write the rows of one call and give its id; ``None`` where that failed."""
    try:
        with transaction.atomic():
            row = ToolInvocation(
                run_id=_text(context.run_id, 64),
                session_id=_text(context.session_id, 128),
                principal=_text(context.principal, 100),
                channel=_text(context.channel, 10),
                model=_text(context.model, 128),
                tool_name=_text(tool_name, 64),
                arguments=_arguments(arguments),
                query=_query(arguments),
                error=_error(error, outcome),
                duration_ms=duration_ms,
            )
            if outcome is not None:
                _fill(row, content, outcome)
            row.save()
            served = outcome.served if outcome is not None else ()
            ToolInvocationDocument.objects.bulk_create(_served(row, document) for document in served)
    except DatabaseError as fault:  # degradation point "recording": a database that is away is said in one line
        log.error("the call of %s was not recorded, the database does not answer: %s", _text(tool_name, 64), fault)
        return None
    except Exception:  # degradation point "recording": it never breaks a lookup
        log.exception("the call of %s was not recorded", _text(tool_name, 64))
        return None
    return int(row.pk)


def _fill(row: ToolInvocation, content: Mapping[str, Any], outcome: LookupOutcome) -> None:
    result, timings = outcome.result, outcome.timings
    row.outline = _outline(content, outcome)
    row.found = result.found
    row.relevance_level = result.relevance_level
    row.dedup_reason = outcome.dedup_reason
    if outcome.best is not None:
        row.domain = _text(outcome.best.domain, 64)
        row.document_id = outcome.best.document_id
        row.document_path = _text(outcome.best.file_path, 700)
    row.l0_match_count = outcome.l0_match_count
    row.l1_top_similarity = outcome.l1_top_similarity
    row.duration_ms = timings.total_ms
    row.l0_ms, row.embed_ms = timings.l0_ms, timings.embed_ms
    row.l1_ms, row.memory_ms = timings.l1_ms, timings.memory_ms
    row.degraded = _text(outcome.degraded, 200)
    row.retrieval_details = _json(dict(outcome.details))


def _served(row: ToolInvocation, document: ServedDocument) -> ToolInvocationDocument:
    return ToolInvocationDocument(
        invocation=row,
        document_id=document.document_id,
        file_path=_text(document.file_path, 700),
        domain=_text(document.domain, 64),
        role=document.role,
        section=_text(document.section, 500),
        match_type=document.match_type,
        similarity=document.similarity,
    )


def _outline(content: Mapping[str, Any], outcome: LookupOutcome) -> dict[str, Any]:
    """The answer without its texts: how long they were, and what of the document they were."""
    outline: dict[str, Any] = {
        "found": content.get("found"),
        "case": outcome.case,
        "relevanceLevel": content.get("relevanceLevel"),
        "message": content.get("message"),
        "retrievedDomainsThisSession": content.get("retrievedDomainsThisSession"),
    }
    sections = {document.role: document.section for document in outcome.served}
    for role in ("primary", "supplement"):
        passage = content.get(role)
        if passage is not None:
            kept = {name: passage[name] for name in ("source", "matchType", "confidence") if name in passage}
            passage = kept | {"characters": len(passage["content"]), "section": sections.get(role)}
        outline[role] = passage
    cleaned: dict[str, Any] = _json(outline)
    return cleaned


def _arguments(arguments: object) -> dict[str, Any]:
    """As sent, bounded: whatever a model made up must fit into a row."""
    if not isinstance(arguments, Mapping):
        return {"": _text(arguments, _MAX_TEXT)}
    first = list(arguments.items())[:_MAX_ARGUMENTS]
    return {_text(name, 100): _argument(value) for name, value in first}


def _argument(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int) else _text(value, _MAX_TEXT)


def _query(arguments: object) -> str:
    query = arguments.get("query") if isinstance(arguments, Mapping) else None
    return _text(query, MAX_QUERY) if isinstance(query, str) else ""


def _error(error: BaseException | None, outcome: LookupOutcome | None) -> str:
    if isinstance(error, ToolError):
        return f"{error.code}: {_text(error, _MAX_TEXT)}"
    if error is not None:
        return f"{type(error).__name__}: {_text(error, _MAX_TEXT)}"
    return _text(outcome.error, _MAX_TEXT) if outcome is not None else ""


def _json(value: Any) -> Any:
    """Plain JSON whose strings every database can hold."""
    if isinstance(value, Mapping):
        return {str(name): _json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return _storable(str(value)) if isinstance(value, str) else value


def _text(value: object, limit: int) -> str:
    return "" if value is None else _storable(str(value))[:limit]


def _storable(text: str) -> str:
    """No NUL and no half of a surrogate pair: databases refuse both."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
