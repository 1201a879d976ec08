"""The headings of a Markdown text: ``#`` and underlined ones, none inside fenced code. Pure, one linear pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TITLE = 300
"""Characters of a title that are kept; the heading line itself stays whole in the text."""

# Only these lines can open or end anything; all others are passed over at the speed of the regular expression.
_FENCE = r"(?P<fence>`{3,}|~{3,})(?P<rest>[^\n]*)"
# In a list a fence stands as far in as the item's text does.
_CODE_FENCE = re.compile(rf"^[ \t]*{_FENCE}", re.MULTILINE)
_MARKED_LINE = re.compile(
    rf"^ {{0,3}}(?:(?P<marks>#{{1,6}})[ \t](?P<title>[^\n]*)|{_FENCE}|(?P<under>==+|--+)[ \t]*$)", re.MULTILINE
)
_BROKEN_HEADER = re.compile(r"\s*^---[ \t]*\n", re.MULTILINE)
_RULE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_BLANK_LINE = re.compile(r"^[^\S\n]*$", re.MULTILINE)
# What stands over an underline without being a paragraph: lists, quotes, tables, rules, indented code, HTML.
_NO_PARAGRAPH = re.compile(r" {4,}|\t| {0,3}(?:[-*+][ \t]|\d{1,9}[.)][ \t]|>|\||<|[-*_=][-*_= \t]*\Z)")
_LINK = re.compile(r"!?\[(?P<text>[^\[\]]{0,300})\](?:\([^()\s]{0,1000}(?:\s[^()]{0,300})?\)|\[[^\[\]]{0,300}\])")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
_ANCHOR = re.compile(r"[ \t]*\{[#.:][^{}]{0,300}\}[ \t]*\Z")
_MARKS = re.compile(r"(?<!\\)(?:`+|\*{1,3}|~~|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w))")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # the others are white space


@dataclass(frozen=True)
class Heading:
    """``start`` is where its first line begins (character of the text); ``title`` is without Markdown marks."""

    title: str
    level: int
    start: int


def find_headings(text: str, *, limit: int) -> list[Heading]:
    """The first ``limit`` headings in order. A heading without a title is none."""
    found: list[Heading] = []
    if limit < 1:
        return found
    for heading in _headings(text):
        found.append(heading)
        if len(found) == limit:
            break
    return found


def code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The fenced code blocks in ``text[start:end]``, fences included; one that is never closed runs to the end."""
    opened, fence = start, ""
    for match in _CODE_FENCE.finditer(text, start, end):
        if not fence and _opens(match):
            opened, fence = match.start(), match["fence"]
        elif fence and _closes(match, fence):
            yield opened, match.end()
            fence = ""
    if fence:
        yield opened, end


def plain_title(raw: str) -> str:
    """A heading's text without links, emphasis, code marks, HTML tags, ``{#anchor}`` and control characters.

    At most 300 characters.
    """
    raw = _ANCHOR.sub("", _CONTROL.sub("", raw[: 4 * MAX_TITLE]))
    raw = _LINK.sub(lambda match: match["text"], raw)
    raw = _ESCAPE.sub(r"\1", _MARKS.sub("", _TAG.sub("", raw)))
    return " ".join(raw.split())[:MAX_TITLE].rstrip()


def _headings(text: str) -> Iterator[Heading]:
    fence = ""
    # Before this offset nothing can be an underlined heading: a broken header, or what the last mark already took.
    taken = _broken_header_end(text)
    for match in _MARKED_LINE.finditer(text):
        if match["fence"]:
            if not fence and _opens(match):
                fence = match["fence"]
            elif fence and _closes(match, fence):
                fence = ""
            taken = match.end() + 1
            continue
        if fence:
            continue
        heading = _underlined(text, match, taken) if match["under"] else _marked(match)
        if heading is not None:
            taken = match.end() + 1
            yield heading


def _opens(match: re.Match[str]) -> bool:
    return match["fence"][0] == "~" or "`" not in match["rest"]


def _closes(match: re.Match[str], fence: str) -> bool:
    return match["fence"].startswith(fence) and not match["rest"].strip()


def _marked(match: re.Match[str]) -> Heading | None:
    """``## Title``, with or without marks behind it."""
    raw = match["title"].strip()
    if raw.endswith("#"):
        bare = raw.rstrip("#")
        raw = bare.rstrip() if not bare or bare[-1] in " \t" else raw
    title = plain_title(raw)
    return Heading(title, len(match["marks"]), match.start()) if title else None


def _underlined(text: str, match: re.Match[str], taken: int) -> Heading | None:
    """A one-line paragraph with a line of ``=`` or ``-`` under it."""
    start = text.rfind("\n", 0, max(match.start() - 1, 0)) + 1
    line = text[start : match.start()].rstrip()
    if start < taken or not line or _NO_PARAGRAPH.match(line):
        return None
    before = text[text.rfind("\n", 0, max(start - 1, 0)) + 1 : start]
    if start > taken and before.strip():
        return None
    title = plain_title(line.strip())
    return Heading(title, 1 if match["under"][0] == "=" else 2, start) if title else None


def _broken_header_end(text: str) -> int:
    """Behind the ``---`` that ends a header which could not be read (its last line is no heading); 0 without one."""
    opener = _BROKEN_HEADER.match(text)
    rule = _RULE.search(text, opener.end()) if opener else None
    if opener is None or rule is None:
        return 0
    blank = _BLANK_LINE.search(text, opener.end(), rule.start())
    return 0 if blank and blank.start() < rule.start() else rule.end() + 1
