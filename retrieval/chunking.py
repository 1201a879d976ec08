"""Sections and chunks of a Markdown body (L1-1, DOC-11). Pure: text in, frozen values out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it.

    ``key`` is unique in its document: the title, with `` (2)`` and so on behind a repeated one; ``""`` is the text before
    the first heading. ``start`` is where the heading line begins, ``end`` where the section's own text ends (the next
    heading of any level), ``tree_end`` where its last subsection ends. Offsets are characters of the body.
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
