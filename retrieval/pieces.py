"""Where a section is cut into chunks (L1-1). Pure: offsets in, offsets out, linear in the section's length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from retrieval.headings import code_spans

WHOLE = 1800
"""A section, table or code block up to this many characters is never cut."""

TARGET = 800
OVERLAP = 100
_LEAD = 300
"""A shorter text before a code block or table stays with it where both fit."""

_SENTENCE_END = re.compile(r"[。！？；!?;…]+[”’」』）)\"']*\s*|\.[”’)\"']*\s+|\n\s*")
_SPACE = re.compile(r"\s+")
_RULE_LINE = re.compile(r"^[|: \t-]+$", re.MULTILINE)
_LINE_END = re.compile(r"\n")
_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class _Piece:
    """A part of a section that is not cut any further. ``whole``: a code block or table."""

    start: int
    end: int
    whole: bool


def chunk_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The chunks of the section ``text[start:end]`` as ``(start, end)``, blank ends cut off; none for a blank one."""
    start, end = trimmed(text, start, end)
    if start >= end:
        return
    if end - start <= WHOLE:
        yield start, end
        return
    for low, high in _packed(text, start, end):
        low, high = trimmed(text, low, high)
        if low < high:
            yield low, high


def _packed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Pieces put together to about TARGET characters; a chunk begins with the end of the one before."""
    low = -1
    last: _Piece | None = None
    for piece in _pieces(text, start, end):
        if last is None:
            low = piece.start
        elif not _fits(low, last, piece):
            yield low, last.end
            low = piece.start if piece.whole or last.whole else _overlap_start(text, low, last.end)
        last = piece
    if last is not None:
        yield low, last.end


def _fits(low: int, last: _Piece, piece: _Piece) -> bool:
    size = piece.end - low
    if piece.whole and not last.whole and last.end - low <= _LEAD:
        return size <= WHOLE
    return size <= TARGET + OVERLAP


def _overlap_start(text: str, low: int, end: int) -> int:
    """Where the next chunk begins: at a sentence, else a word, within the last OVERLAP characters."""
    earliest = max(low + 1, end - OVERLAP)
    sentence = next((match.end() for match in _SENTENCE_END.finditer(text, earliest, end) if match.end() < end), None)
    if sentence is not None:
        return sentence
    space = _SPACE.search(text, earliest, end)
    return space.end() if space and space.end() < end else earliest


def _pieces(text: str, start: int, end: int) -> Iterator[_Piece]:
    """The section in pieces of at most TARGET characters; code blocks and tables whole where they fit."""
    for block in _blocks(text, start, end):
        size = block.end - block.start
        if size <= TARGET or (block.whole and size <= WHOLE):
            yield block
        else:
            yield from _cut(text, block, _LINE_END if block.whole else _SENTENCE_END)


def _blocks(text: str, start: int, end: int) -> Iterator[_Piece]:
    """Paragraphs, fenced code blocks and tables, in order."""
    position = start
    for low, high in code_spans(text, start, end):
        yield from _paragraphs(text, position, low)
        yield _Piece(low, high, whole=True)
        position = high
    yield from _paragraphs(text, position, end)


def _paragraphs(text: str, start: int, end: int) -> Iterator[_Piece]:
    """What stands between blank lines."""
    position = start
    for gap in _BLANK_LINES.finditer(text, start, end):
        yield from _paragraph(text, position, gap.start())
        position = gap.end()
    yield from _paragraph(text, position, end)


def _paragraph(text: str, start: int, end: int) -> Iterator[_Piece]:
    start, end = trimmed(text, start, end)
    if start < end:
        yield _Piece(start, end, whole=_is_table(text, start, end))


def _is_table(text: str, start: int, end: int) -> bool:
    """Whether a line behind the first is the rule of a table: ``| --- | :-: |``, with or without the outer bars."""
    rules = _RULE_LINE.finditer(text, start, end)
    return any(rule.start() > start and "|" in rule[0] and "-" in rule[0] for rule in rules)


def _cut(text: str, block: _Piece, borders: re.Pattern[str]) -> Iterator[_Piece]:
    """A long block in pieces of at most TARGET characters, cut behind the last border that fits, else at a space."""
    low = block.start
    while block.end - low > TARGET:
        limit = low + TARGET
        cut = limit
        for border in borders.finditer(text, low + TARGET // 2, limit):
            cut = border.end()
        if cut == limit:
            cut = _space_before(text, low, limit)
        yield _Piece(low, cut, whole=False)
        low = cut
    if low < block.end:
        yield _Piece(low, block.end, whole=False)


def _space_before(text: str, low: int, limit: int) -> int:
    """The last space in the second half of ``text[low:limit]``, to cut behind it; ``limit`` where there is none."""
    space = text.rfind(" ", low + (limit - low) // 2, limit)
    return space + 1 if space >= 0 else limit


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without blank ends; leading blanks of the first line stay (an indented code block is one)."""
    content = text[start:end]
    stripped = content.rstrip()
    if not stripped:
        return start, start
    lead = len(stripped) - len(stripped.lstrip())
    newline = stripped.rfind("\n", 0, lead)
    return start + newline + 1, start + len(stripped)
