"""Which parts of a long document are shown for a question, and how they are put together (SPEC L1-6). Pure.

The best parts are taken while they fit, and stand in the document's order under their headings; ``...`` marks what is
left out. Parts are chunks, so no code block or table is torn that fits into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.chunking import Section

LEFT_OUT = "..."
Span = tuple[int, int]
"""Start and end, in characters of the body."""


@dataclass(frozen=True)
class ScoredSpan:
    """A part of the body and how much it bears on the question; more is better."""

    start: int
    end: int
    score: float


def best_spans(
    body: str, sections: Sequence[Section], parts: Sequence[ScoredSpan], limit: int, *, first: Span | None = None
) -> list[Span]:
    """The parts to show, in order, neighbours joined: as many of the best as :func:`put_together` fits into ``limit``.

    ``first`` goes before all others. Of equals the earlier one is better. A part that is too long by itself is cut.
    """
    wanted = [(part.start, part.end) for part in sorted(parts, key=lambda part: (-part.score, part.start))]
    if first is not None:
        wanted = [first, *(span for span in wanted if span != first)]
    chosen: list[Span] = []
    room = limit
    for span in wanted:
        if chosen and _new_characters(span, chosen) > room:
            continue
        tried = _joined(body, [*chosen, span])
        length = len(put_together(body, sections, tried))
        if length <= limit:
            chosen, room = tried, limit - length
        elif not chosen:
            chosen = [_cut(body, sections, span, limit)]
            break
    return chosen


def put_together(body: str, sections: Sequence[Section], spans: Sequence[Span]) -> str:
    """The spans as one text. A span that begins inside a section has the headings above it in front."""
    pieces: list[str] = []
    shown: set[int] = set()
    reached = 0
    for start, end in spans:
        if body[reached:start].strip():
            pieces.append(LEFT_OUT)
        above = (section for section in _headings_above(sections, start) if section.start not in shown)
        pieces.extend(_heading_line(body, section) for section in above)
        shown.update(section.start for section in sections if section.start < end and section.level)
        pieces.append(body[start:end].strip("\n"))
        reached = end
    if body[reached:].strip():
        pieces.append(LEFT_OUT)
    return "\n\n".join(pieces)


def shows_whole(body: str, section: Section, spans: Sequence[Span]) -> bool:
    """Whether all of a section's own text lies in the spans; white space is no text."""
    reached = section.start
    for start, end in spans:
        if body[reached : max(reached, min(start, section.end))].strip():
            return False
        reached = max(reached, end)
    return not body[reached : section.end].strip()


def _new_characters(span: Span, chosen: Sequence[Span]) -> int:
    start, end = span
    return end - start - sum(max(0, min(end, high) - max(start, low)) for low, high in chosen)


def _joined(body: str, spans: Sequence[Span]) -> list[Span]:
    """In order; what overlaps, or has only white space between, is one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and not body[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _headings_above(sections: Sequence[Section], start: int) -> list[Section]:
    """The headings that ``start`` stands under, outermost first; not one that begins just there."""
    above: list[Section] = []
    for section in sections:
        if section.start >= start:
            break
        if section.level and section.tree_end > start:
            above.append(section)
    return above


def _heading_line(body: str, section: Section) -> str:
    line_end = body.find("\n", section.start, section.end)
    line = body[section.start : section.end if line_end < 0 else line_end].strip()
    return line if line.startswith("#") else f"{'#' * section.level} {section.title}"


def _cut(body: str, sections: Sequence[Section], span: Span, limit: int) -> Span:
    """The beginning of a span that does not fit as a whole."""
    start, end = span
    overhead = len(put_together(body, sections, [span])) - (end - start)
    return start, start + max(limit - overhead - 2 * len(LEFT_OUT) - 4, 1)
