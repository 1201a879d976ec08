"""What a calibration asks: our questions without an answer, labelled ones of a file, what people asked lately."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.recording import MAX_QUERY
from agents.tools import LOOKUP_TOOL
from clients.embedding_data import UNANSWERABLE_QUESTIONS
from documents.models import ApiDocument, ToolInvocation
from documents.twins import document_at
from observability.calibration.asked import CalibrationError
from observability.evaluation.records import is_text

RECENT = 500
_ROWS_LOOKED_AT = 20_000
_NOT_PEOPLE = (ToolInvocation.Channel.ADMIN, ToolInvocation.Channel.DEMO)
"""As on the dashboards: trials of the staff and the demonstration are nobody's questions."""


@dataclass(frozen=True)
class Label:
    """A question, and the path (``knowledge_base/…``) of the document that answers it."""

    query: str
    document: str


def unanswerable_questions() -> dict[str, list[str]]:
    """The shipped questions without an answer, by how far from a site's subjects they are (``far``, ``near``)."""
    found: dict[str, list[str]] = {}
    for line in UNANSWERABLE_QUESTIONS.read_text(encoding="utf-8").splitlines():
        if line.strip():
            question = json.loads(line)
            found.setdefault(question.get("subject", "far"), []).append(question["text"])
    return found


def read_labels(path: Path) -> list[Label]:
    """JSON lines ``{"query", "document"}``; each document must be one of the site's."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as fault:
        raise CalibrationError(f"{path} cannot be read: {fault}") from fault
    labels = [_label(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not labels:
        raise CalibrationError(f"{path} has no label.")
    return labels


def _label(where: str, line: str) -> Label:
    try:
        stored = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise CalibrationError(f"{where}: not JSON.") from fault
    query, document = (_text(stored, name) for name in ("query", "document"))
    if not can_be_asked(query) or not can_be_asked(document):
        raise CalibrationError(
            f'{where}: "query" is a text of 1 to {MAX_QUERY} characters without NUL or half a character, "document" '
            "the path of what answers it."
        )
    known = document_at(ApiDocument.objects.all(), document)
    if known is None:
        raise CalibrationError(f"{where}: there is no document {document}.")
    return Label(query, known.file_path)


def _text(stored: Any, name: str) -> str:
    value = stored.get(name) if isinstance(stored, dict) else None
    return value if isinstance(value, str) else ""


def recent_queries(limit: int = RECENT) -> list[str]:
    """The last distinct queries of people and their agents, the latest first."""
    return sorted_out(_recorded(), limit)


def can_be_asked(query: str) -> bool:
    """Whether a lookup would take it: not blank, not too long, nothing in it that is no text."""
    return bool(query.strip()) and len(query) <= MAX_QUERY and is_text(query)


def sorted_out(queries: Iterator[str], limit: int) -> list[str]:
    """The first ``limit`` different ones that can be asked."""
    found: dict[str, None] = {}
    for query in queries:
        if len(found) >= limit:
            break
        if can_be_asked(query):
            found[query] = None
    return list(found)


def _recorded() -> Iterator[str]:
    rows = ToolInvocation.objects.filter(tool_name=LOOKUP_TOOL).exclude(channel__in=_NOT_PEOPLE).order_by("-pk")
    yield from rows.values_list("query", flat=True)[:_ROWS_LOOKED_AT].iterator(chunk_size=2_000)
