"""Where the header of a Markdown text begins and ends. Pure; no YAML is read here.

The shape decides whether a block between two ``---`` lines is a header at all. A text may just as well open with a
thematic break, and what is body must stay body (FM-4): between two breaks stands prose, and prose has a blank line
before the second one (without it, Markdown takes the line above for a heading).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KNOWN_FIELDS = ("title", "keywords", "summary", "covers", "when_to_retrieve", "category")
"""Fields that the product reads; any upper or lower case is understood."""

_OTHER_USUAL_FIELDS = (
    "aliases", "author", "categories", "date", "description", "draft", "id", "lang", "layout", "name", "order",
    "permalink", "slug", "tags", "version", "weight",
)  # fmt: skip
_FIELD = "|".join(KNOWN_FIELDS)
_OPENER = re.compile(r"(?:[ \t]*\n)*(?P<indent>[ \t]*)---[ \t]*(?:\n|\Z)")
_CLOSER = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_FIRST_LINE = re.compile(r"(?:[ \t]*\n)*(?P<line>[^\n]*)")
_FIRST_CONTENT = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*(?P<line>[^\n]*)")
# A word (or quoted words) and a colon with nothing or a space behind it; a field's name counts even when the space is
# forgotten or the colon is the full-width one.
_KEY = re.compile(
    r"[ \t]*(?:(?:[\w@$./+-]{1,100}|\"[^\"\n]{1,100}\"|'[^'\n]{1,100}')[ \t]*:(?=[ \t]|\Z)"
    rf"|(?:{_FIELD})[ \t]*[:：])",
    re.IGNORECASE,
)
_USUAL_KEY = re.compile(rf"^(?:{_FIELD}|{'|'.join(_OTHER_USUAL_FIELDS)})[ \t]*:", re.MULTILINE | re.IGNORECASE)
_BLANK_LINE = re.compile(r"^[ \t]*\n", re.MULTILINE)
_BLANK_AT_END = re.compile(r"(?:\A|\n)[ \t]*\n\Z")


@dataclass(frozen=True)
class Block:
    """A header as it stands in the text: offsets in characters, ``first_line`` (from 1) is the line behind the opener.

    ``inner`` is the YAML between the fences. ``closed`` is false for a header whose end is missing; then ``inner_end``
    and ``end`` are the end of the text.
    """

    inner: str
    first_line: int
    inner_start: int
    inner_end: int
    end: int
    closed: bool


def normalise_newlines(text: str) -> str:
    """The text without a byte-order mark, with ``\\n`` for CRLF and lone CR; other separators stay as they are."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def find_block(text: str) -> Block | None:
    """The header of a text with normalised newlines, or None where it has none. Linear, and cheap without a ``---``."""
    opener = _OPENER.match(text)
    if opener is None:
        return None
    start = opener.end()
    closer = _CLOSER.search(text, start)
    inner_end, end = (closer.start(), closer.end()) if closer else (len(text), len(text))
    block = Block(
        inner=text[start:inner_end],
        first_line=text.count("\n", 0, start) + 1,
        inner_start=start,
        inner_end=inner_end,
        end=end,
        closed=closer is not None,
    )
    if opener["indent"] and not (block.closed and _begins_with_key(block.inner)):
        return None
    return block if _is_header(block) else None


def _is_header(block: Block) -> bool:
    if not block.closed:
        first = _FIRST_LINE.match(block.inner)
        return first is not None and _KEY.match(first["line"]) is not None
    if not block.inner.strip():
        return True
    if _begins_with_key(block.inner):
        return _BLANK_AT_END.search(block.inner) is None or _USUAL_KEY.search(block.inner) is not None
    return _BLANK_LINE.search(block.inner) is None and not _is_comment(block.inner)


def _begins_with_key(inner: str) -> bool:
    first = _FIRST_CONTENT.match(inner)
    return first is not None and _KEY.match(first["line"]) is not None


def _is_comment(inner: str) -> bool:
    """Only ``#`` lines: a comment to YAML, a heading to Markdown. It holds no field, so it stays body."""
    return all(line.lstrip().startswith("#") for line in inner.splitlines() if line.strip())
