"""Sections and chunks of a Markdown body (L1-1, DOC-11). Pure: text in, frozen values out; time linear in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.headings import Heading, find_headings
from retrieval.normalise import normalise
from retrieval.pieces import chunk_spans


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it.

    ``key`` is unique in its document: the title, with `` (2)`` and so on behind a repeated one; ``""`` is the text
    before the first heading. ``start`` is where the heading line begins, ``end`` where the section's own text ends (the
    next heading of any level), ``tree_end`` where its last subsection ends. Offsets are characters of the body.
    ``heading_path`` holds the titles from the outermost heading down to this one.
    """

    key: str
    title: str
    level: int
    heading_path: tuple[str, ...]
    start: int
    end: int
    tree_end: int


@dataclass(frozen=True)
class Chunk:
    """A piece of the body to embed; ``section`` is the key of the section that it lies in."""

    number: int
    section: str
    heading_path: tuple[str, ...]
    start: int
    end: int
    text: str


MAX_CHUNKS = 20_000
"""A 5 MiB text without headings gives about 6,600; more than this is a generated file, not a document to search."""

_NUMBERING = re.compile(
    r"(?:第\s*[\d〇零一二两三四五六七八九十百千]+\s*[章节節部分篇条條]"
    r"|(?:chapter|section|part|appendix)\s+\d+(?:\.\d+)*(?=\W)"
    r"|[(\[]?(?:\d+(?:\.\d+)*|[〇零一二两三四五六七八九十百]+(?=[\s、.．)\]:：])|[a-z](?=[.)]))[)\]]?)"
    r"[\s、.．:：)\]-]*"
)
_MARKUP = re.compile(r"[`*#]+|(?<!\w)_+|_+(?!\w)")


class TooManyChunks(ValueError):  # noqa: N818 (says what is too many)
    """The body would give more chunks than are embedded; the message says how many are taken and what to do."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the text would give more than {limit:,} chunks; split it into several documents")
        self.limit = limit


def split_sections(body: str, *, max_sections: int = MAX_CHUNKS) -> list[Section]:
    """The sections in order; the text before the first heading comes first (key "") when it is not blank.

    Headings beyond ``max_sections`` are not told apart: their text belongs to the last section.
    """
    headings = find_headings(body, limit=max_sections)
    first = headings[0].start if headings else len(body)
    opening = [Section("", "", 0, (), 0, first, first)] if body[:first].strip() else []
    ends = [heading.start for heading in headings[1:]] + [len(body)]
    tree_ends = _tree_ends(headings, len(body))
    keys: set[str] = {""}
    counts: dict[str, int] = {}
    path: list[Heading] = []
    sections = opening
    for heading, end, tree_end in zip(headings, ends, tree_ends, strict=False):
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
        sections.append(
            Section(
                key=_unique_key(heading.title, keys, counts),
                title=heading.title,
                level=heading.level,
                heading_path=tuple(step.title for step in path),
                start=heading.start,
                end=end,
                tree_end=tree_end,
            )
        )
    return sections


def chunk_body(body: str, *, max_chunks: int = MAX_CHUNKS) -> list[Chunk]:
    """The pieces to embed, in order: no chunk crosses a heading, ``text`` is ``body[start:end]``, blank ends cut off.

    Every character that is not white space lies in a chunk; in a long section neighbours overlap. A blank body gives
    none. Raises TooManyChunks as soon as the bound is passed.
    """
    sections = split_sections(body, max_sections=max_chunks + 2)
    if len(sections) > max_chunks:
        raise TooManyChunks(max_chunks)
    chunks: list[Chunk] = []
    for section in sections:
        for start, end in chunk_spans(body, section.start, section.end):
            if len(chunks) == max_chunks:
                raise TooManyChunks(max_chunks)
            chunks.append(Chunk(len(chunks), section.key, section.heading_path, start, end, body[start:end]))
    return chunks


def find_section(sections: Sequence[Section], title: str) -> Section | None:
    """The section that a reader means by ``title``; the closest spelling wins, the first of equals.

    Upper and lower case, width, spaces, Markdown marks and numbering in front (``3.2``, ``第二章``, ``（一）``) need
    not agree. ``Parent > Child`` names a section under a certain parent. None where no heading matches.
    """
    wanted = title.strip()
    if not wanted:
        return None
    for spelling in (_as_is, _folded, _bare):
        for section in sections:
            if section.key and spelling(wanted) in (spelling(section.key), spelling(section.title)):
                return section
    steps = [_bare(step) for step in re.split(r"\s*[>›/»]\s*", wanted) if step.strip()]
    if len(steps) > 1:
        for section in sections:
            if [_bare(step) for step in section.heading_path][-len(steps) :] == steps:
                return section
    return None


def first_heading(body: str) -> str:
    """The title of the first heading, "" where there is none."""
    found = find_headings(body, limit=1)
    return found[0].title if found else ""


def _tree_ends(headings: Sequence[Heading], length: int) -> list[int]:
    """For each heading, where the next one of its own or a higher level begins."""
    ends = [length] * len(headings)
    waiting: list[int] = []
    for number, heading in enumerate(headings):
        while waiting and headings[waiting[-1]].level >= heading.level:
            ends[waiting.pop()] = heading.start
        waiting.append(number)
    return ends


def _unique_key(title: str, keys: set[str], counts: dict[str, int]) -> str:
    key = title
    while key in keys:
        counts[title] = counts.get(title, 1) + 1
        key = f"{title} ({counts[title]})"
    keys.add(key)
    return key


def _as_is(title: str) -> str:
    return title


def _folded(title: str) -> str:
    return _MARKUP.sub("", normalise(title)).replace(" ", "")


def _bare(title: str) -> str:
    """Folded and without the numbering in front; a title that is only a number keeps it."""
    plain = _MARKUP.sub("", normalise(title)).strip()
    return (_NUMBERING.sub("", plain, count=1) if _NUMBERING.match(plain) else plain).replace(" ", "") or plain
