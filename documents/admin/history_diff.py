"""What would change if an earlier revision came back: the lines of a unified diff, with what each of them is."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from documents import services
from documents.encoding import UnreadableText, decode
from documents.errors import DocumentError
from documents.models import ApiDocument, DocumentHistory

MAX_LINES = 3000
"""Of each side; more is left out of the comparison, and said so."""


@dataclass(frozen=True)
class Line:
    """``kind``: add, remove, same, or place (where in the file the next lines are)."""

    kind: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """``lines`` is empty where both are the same; ``problem`` says why there is nothing to show."""

    lines: tuple[Line, ...] = ()
    alone: bool = False
    cut: bool = False
    problem: str = ""


_KINDS = {"+": "add", "-": "remove", "@": "place"}


def compared(row: DocumentHistory, document: ApiDocument | None) -> Comparison:
    """The present file against the earlier one; the earlier one ``alone`` where there is no document."""
    try:
        then = decode(services.kept_bytes(row)).text.splitlines()
        now = [] if document is None else decode(services.read_content(document_id=document.pk)).text.splitlines()
    except DocumentError as refusal:
        return Comparison(problem=refusal.detail)
    except (UnreadableText, OSError) as fault:
        return Comparison(problem=str(fault))
    cut = max(len(then), len(now)) > MAX_LINES
    if document is None:
        return Comparison(tuple(Line("same", text) for text in then[:MAX_LINES]), alone=True, cut=cut)
    steps = list(difflib.unified_diff(now[:MAX_LINES], then[:MAX_LINES], lineterm="", n=3))[2:]
    return Comparison(tuple(_line(step) for step in steps), cut=cut)


def _line(step: str) -> Line:
    kind = _KINDS.get(step[:1], "same")
    return Line(kind, step if kind == "place" else step[1:])
