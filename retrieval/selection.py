"""Which parts of a long document are shown for a question, and how they are put together (SPEC L1-6). Pure.

The best parts are taken while they fit, and stand in the document's order under their headings; ``...`` marks what is
left out. Parts are paragraphs and blocks, so no code block or table is torn that fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.chunking import Section

LEFT_OUT = "..."
BETWEEN = "\n\n"
LONGEST_HEADING = 200
"""Characters of a heading that is repeated above a part; a paragraph marked as a heading must not take all the room."""
HEADINGS_SHARE = 4
"""All repeated headings together take at most one character in so many."""
_FAILED_TRIES = 25
"""After so many parts in a row that did not fit, the room that is left is not worth the search."""
Span = tuple[int, int]
"""Start and end, in characters of the body."""


@dataclass(frozen=True)
class ScoredSpan:
    """A part of the body and how much it bears on the question; more is better."""

    start: int
    end: int
    score: float


class Selection:
    """The choice from one body. ``limit`` counts the characters of the text that comes out, marks and headings too."""

    def __init__(self, body: str, sections: Sequence[Section], limit: int) -> None:
        self._body = body
        self._limit = limit
        self._headed = [section for section in sections if section.level]
        self._starts = [section.start for section in self._headed]
        self._parents = _parents(self._headed)

    def best_spans(self, parts: Sequence[ScoredSpan], *, first: Span | None = None) -> list[Span]:
        """The parts to show, in order, neighbours joined: as many of the best as fit.

        ``first`` goes before all others. Of equals the one nearest to the best comes first, so that what fills the room
        is what stands around it. A part that is too long by itself is cut.
        """
        chosen: list[Span] = []
        room, failed = self._limit, 0
        for span in _in_order(parts, first):
            if chosen and _new_characters(span, chosen) + len(BETWEEN) > room:
                continue
            tried = self._joined([*chosen, span])
            length = len(self.put_together(tried))
            if length <= self._limit:
                chosen, room, failed = tried, self._limit - length, 0
            elif not chosen:
                return [self._cut(span)]
            else:
                failed += 1
                if failed == _FAILED_TRIES:
                    break
        return chosen

    def put_together(self, spans: Sequence[Span]) -> str:
        """The spans as one text. A span that begins inside a section has the headings above it in front."""
        pieces: list[str] = []
        reached = 0
        for start, end in spans:
            if self._body[reached:start].strip():
                pieces.append(LEFT_OUT)
            pieces.extend(self._headings_above(start, since=reached))
            pieces.append(self._body[start:end].strip("\n"))
            reached = end
        if self._body[reached:].strip():
            pieces.append(LEFT_OUT)
        return BETWEEN.join(pieces)

    def _headings_above(self, start: int, *, since: int) -> list[str]:
        """The headings that ``start`` stands under and that did not stand above the last span already, outermost first.

        A heading that begins just there is none of them. The outermost go first where there is no room for all.
        """
        lines: list[str] = []
        room = self._limit // HEADINGS_SHARE
        place = bisect_left(self._starts, start) - 1
        while place >= 0:
            section = self._headed[place]
            if section.tree_end > start:
                if section.start < since:
                    break
                line = self._heading_line(section)
                room -= len(line) + len(BETWEEN)
                if room < 0:
                    break
                lines.append(line)
            place = self._parents[place]
        return lines[::-1]

    def _heading_line(self, section: Section) -> str:
        line_end = self._body.find("\n", section.start, section.end)
        line = self._body[section.start : section.end if line_end < 0 else line_end].strip()
        if not line.startswith("#" * section.level):  # underlined, or the text itself begins with a mark
            line = f"{'#' * section.level} {section.title}"
        return line if len(line) <= LONGEST_HEADING else line[: LONGEST_HEADING - len(LEFT_OUT)] + LEFT_OUT

    def _joined(self, spans: Sequence[Span]) -> list[Span]:
        """In order; what overlaps, or has only white space between, is one."""
        joined: list[Span] = []
        for start, end in sorted(spans):
            if joined and not self._body[joined[-1][1] : start].strip():
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((start, end))
        return joined

    def _cut(self, span: Span) -> Span:
        """The beginning of a span that does not fit as a whole."""
        start, end = span
        overhead = len(self.put_together([span])) - (end - start)
        return start, start + max(self._limit - overhead - len(BETWEEN) - len(LEFT_OUT), 1)


def shows_whole(body: str, section: Section, spans: Sequence[Span]) -> bool:
    """Whether all of a section's own text lies in the spans; white space is no text."""
    reached = section.start
    for start, end in spans:
        if end <= reached:
            continue
        if start >= section.end:
            break
        if body[reached : max(reached, start)].strip():
            return False
        reached = end
    return not body[reached : section.end].strip()


def _in_order(parts: Sequence[ScoredSpan], first: Span | None) -> list[Span]:
    """Best first; of equals the nearest to the best."""
    if not parts:
        return [] if first is None else [first]
    centre = first[0] if first is not None else max(parts, key=lambda part: (part.score, -part.start)).start
    ordered = sorted(parts, key=lambda part: (-part.score, abs(part.start - centre), part.start))
    spans = [(part.start, part.end) for part in ordered]
    return spans if first is None else [first, *(span for span in spans if span != first)]


def _parents(headed: Sequence[Section]) -> list[int]:
    """For each section the place of the one that it stands under, -1 for none."""
    parents: list[int] = []
    path: list[int] = []
    for place, section in enumerate(headed):
        while path and headed[path[-1]].level >= section.level:
            path.pop()
        parents.append(path[-1] if path else -1)
        path.append(place)
    return parents


def _new_characters(span: Span, chosen: Sequence[Span]) -> int:
    start, end = span
    return end - start - sum(max(0, min(end, high) - max(start, low)) for low, high in chosen)
