"""The text that a lookup shows, and what of the document it shows whole (SPEC LK-1, DOC-10, DOC-11). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from retrieval.chunking import Section
from retrieval.interfaces import ChunkText
from retrieval.selection import ScoredSpan, Selection, Span, shows_whole

ELLIPSIS = "..."
MAX_SECTIONS_NAMED = 200
"""A generated file may have thousands of headings: their list must not outweigh the text."""


@dataclass(frozen=True)
class Passage:
    """A text and what it stands for.

    ``section`` is the key of the part that was asked for, ``shown_whole`` the keys of the sections whose own text it
    shows completely, ``all_sections`` those of every section of the body that has text, in order.
    """

    content: str
    section: str
    shown_whole: tuple[str, ...]
    all_sections: tuple[str, ...]
    whole_document: bool

    @property
    def available_sections(self) -> tuple[str, ...] | None:
        """Titles to ask for, where there is more than this text; ``None`` where it is all (DOC-11)."""
        return None if self.whole_document else section_titles(self.all_sections)[:MAX_SECTIONS_NAMED]


def section_titles(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys that ``section_title`` can name: all but the text before the first heading."""
    return tuple(key for key in keys if key)


def sections_with_text(body: str, sections: Sequence[Section]) -> list[Section]:
    """Blank lines before the first heading are no section of their own."""
    return [one for one in sections if body[one.start : one.end].strip()]


def opening(body: str, sections: Sequence[Section], limit: int) -> Passage:
    """The first ``limit`` characters, with ``...`` behind them only where the body was cut."""
    end = min(len(body), limit)
    content = _dotted(body[:end], cut_before=False, cut_behind=end < len(body))
    return _passage(body, sections, section="", start=0, end=end, content=content)


def chosen(
    body: str,
    sections: Sequence[Section],
    parts: Sequence[ScoredSpan],
    limit: int,
    *,
    section: str,
    first: Span | None = None,
) -> Passage | None:
    """The parts of a long body that bear on the question, in its order; None where there are no parts.

    ``section`` is the key of what was asked for, ``first`` a part that must be among them.
    """
    selection = Selection(body, sections, limit)
    spans = selection.best_spans(parts, first=first) if parts else []
    if not spans:
        return None
    with_text = sections_with_text(body, sections)
    return Passage(
        content=selection.put_together(spans),
        section=section,
        shown_whole=tuple(one.key for one in with_text if shows_whole(body, one, spans)),
        all_sections=tuple(one.key for one in with_text),
        whole_document=False,
    )


def section_text(body: str, sections: Sequence[Section], section: Section, limit: int) -> Passage:
    """A section with its subsections, at most ``limit`` characters of it, ``...`` where cut."""
    full_end = _text_end(body, section.start, section.tree_end)
    end = min(full_end, section.start + limit)
    content = _dotted(body[section.start : end], cut_before=False, cut_behind=end < full_end)
    return _passage(body, sections, section=section.key, start=section.start, end=end, content=content)


def around_chunk(body: str, sections: Sequence[Section], chunk: ChunkText, limit: int) -> Passage:
    """The section that the chunk lies in, or at most ``limit`` characters of it that hold the chunk."""
    home = next((section for section in sections if section.start <= chunk.start < section.end), None)
    low, high = (home.start, home.end) if home is not None else (chunk.start, chunk.end)
    high = _text_end(body, low, high)
    start, end = _window(low, high, chunk.start, min(chunk.end, high), limit)
    content = _dotted(body[start:end], cut_before=start > low, cut_behind=end < high)
    return _passage(body, sections, section=chunk.section, start=start, end=end, content=content)


def from_chunks(chunks: Sequence[ChunkText], chunk: ChunkText, limit: int) -> Passage:
    """The same from the stored chunks of an older revision, whose body is no longer there."""
    text, offset = _joined([one for one in chunks if one.section == chunk.section], chunk)
    start, end = _window(0, len(text), offset, offset + len(chunk.text), limit)
    whole = (start, end) == (0, len(text))
    keys = tuple(dict.fromkeys(one.section for one in chunks))
    return Passage(
        content=_dotted(text[start:end], cut_before=start > 0, cut_behind=end < len(text)),
        section=chunk.section,
        shown_whole=(chunk.section,) if whole else (),
        all_sections=keys,
        whole_document=whole and keys == (chunk.section,),
    )


def _passage(body: str, sections: Sequence[Section], *, section: str, start: int, end: int, content: str) -> Passage:
    """What ``body[start:end]`` shows. White space at a section's edge is no text."""
    with_text = sections_with_text(body, sections)
    shown = tuple(one.key for one in with_text if not _unseen(body, one, start, end))
    return Passage(
        content=content,
        section=section,
        shown_whole=shown,
        all_sections=tuple(one.key for one in with_text),
        whole_document=not body[:start].strip() and not body[end:].strip(),
    )


def _unseen(body: str, section: Section, start: int, end: int) -> bool:
    before = body[section.start : min(section.end, max(section.start, start))]
    behind = body[max(section.start, min(end, section.end)) : section.end]
    return bool(before.strip() or behind.strip())


def _text_end(body: str, start: int, end: int) -> int:
    """Where the text of ``start..end`` ends, blank lines behind it left out."""
    return start + len(body[start:end].rstrip())


def _window(low: int, high: int, inner_start: int, inner_end: int, limit: int) -> tuple[int, int]:
    """At most ``limit`` characters of ``low..high``, dots counted, that hold ``inner_start..inner_end``.

    All where it fits; else from the beginning where that holds the inner text, or with the room shared by both sides.
    """
    if high - low <= limit:
        return low, high
    room = max(limit - 2 * len(ELLIPSIS), 1)
    if inner_end - low <= room:
        return low, low + room
    spare = max(room - (inner_end - inner_start), 0)
    start = min(max(low, inner_start - spare // 2), max(low, high - room))
    return start, min(high, start + room)


def _dotted(text: str, *, cut_before: bool, cut_behind: bool) -> str:
    return (ELLIPSIS if cut_before else "") + text + (ELLIPSIS if cut_behind else "")


def _joined(chunks: Sequence[ChunkText], wanted: ChunkText) -> tuple[str, int]:
    """The chunks of one section as one text, overlaps once, and where ``wanted`` begins in it."""
    text, reached, offset = "", 0, 0
    for chunk in sorted(chunks, key=lambda one: one.number):
        overlap = max(reached - chunk.start, 0) if text else 0
        if text and chunk.start > reached:
            text += "\n\n"
        if chunk.number == wanted.number:
            offset = max(len(text) - overlap, 0)
        text += chunk.text[overlap:]
        reached = max(reached, chunk.end)
    return text, offset
