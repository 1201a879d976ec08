"""Frontmatter (FM-1 … FM-8): what the author says of a document above its body. Pure, but for one WARNING.

Every value stays the text that the author typed: ``404``, ``no``, ``12:30`` and ``2026-01-01`` are strings here and in
``fields``, wherever they stand; only ``null``, ``~`` and nothing become None. A key given twice counts with its last
value, and the curator is told. Whatever cannot be read stays in the body, word for word.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from documents.frontmatter_block import find_block, normalise_newlines
from documents.frontmatter_reader import Header, HeaderProblem, read_header
from documents.frontmatter_rewrite import FrontmatterMalformed, rewrite
from retrieval.chunking import first_heading
from retrieval.normalise import normalise

__all__ = [
    "Frontmatter",
    "FrontmatterMalformed",
    "ParsedDocument",
    "covers_from",
    "has_frontmatter",
    "keywords_from",
    "parse",
    "parse_document",
    "rewrite",
    "text_from",
    "title_of",
    "when_to_retrieve_from",
]

log = logging.getLogger(__name__)

MAX_KEYWORDS = 200
MAX_KEYWORD_LENGTH = 200
MAX_TITLE_LENGTH = 500
_MAX_PROBLEM_LENGTH = 500
_KEYWORD_SEPARATORS = re.compile(r"[,，、;；\n\r]")
_SCENARIO_SEPARATORS = re.compile(r"[;；\n\r]")
# A list in full-width brackets is one string to YAML.
_BRACKETS = re.compile(r"\s*[\[［【](?P<inner>[^\[\]［］【】]*)[\]］】]\s*")
_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")


@dataclass(frozen=True)
class Frontmatter:
    """The fields that the product reads, and ``fields``: all of the author's, JSON, exactly as typed.

    A missing field is "" or (). ``keywords`` are those of the field ``keywords``; with another ``KEYWORD_FIELDS``
    setting call :func:`keywords_from`. A ``category`` is in ``fields`` only: the folder decides.
    """

    title: str
    keywords: tuple[str, ...]
    summary: str
    covers: tuple[str, ...]
    when_to_retrieve: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class ParsedDocument:
    """A text in two parts, newlines normalised to ``\\n``.

    ``body`` is what follows the header (without the blank lines between), or the whole text where there is no header or
    it is malformed. ``problem`` is "" or an English sentence with line and reason, at most 500 characters;
    ``problem_code`` and ``problem_line`` say the same to programs. A problem with a ``frontmatter`` is a remark (a key
    given twice, keywords left out); without one it says why the header was not read.
    """

    frontmatter: Frontmatter | None
    body: str
    problem: str = ""
    problem_code: str = ""
    problem_line: int = 0

    @property
    def malformed(self) -> bool:
        return self.frontmatter is None and bool(self.problem)


def has_frontmatter(text: str) -> bool:
    """Whether the text opens with a header, be it broken. The cheap test: fences and the shape, no YAML."""
    return find_block(normalise_newlines(text)) is not None


def parse(text: str, *, file: str = "") -> Frontmatter | None:
    """The frontmatter, or None where there is none or it is malformed (one WARNING, naming ``file``)."""
    return parse_document(text, file=file).frontmatter


def parse_document(text: str, *, file: str = "") -> ParsedDocument:
    """Frontmatter and body of a decoded text. Raises nothing; a problem is returned and logged as one WARNING."""
    text = normalise_newlines(text)
    try:
        header = read_header(text)
    except HeaderProblem as problem:
        log.warning("%s: frontmatter is not read: line %d: %s", file or "text", problem.line, problem.reason)
        return ParsedDocument(None, text, str(problem)[:_MAX_PROBLEM_LENGTH], problem.code, problem.line)
    if header is None:
        return ParsedDocument(None, text)
    remarks = _remarks(header)
    for_log = " ".join(sentence for _, sentence, _ in remarks)
    if remarks:
        log.warning("%s: frontmatter is read, but: %s", file or "text", for_log)
    code, _, line = remarks[0] if remarks else ("", "", 0)
    body = text[header.block.end :]
    blank = _LEADING_BLANK_LINES.match(body)
    return ParsedDocument(
        frontmatter=_frontmatter(header.fields),
        body=body[blank.end() :] if blank else body,
        problem=for_log[:_MAX_PROBLEM_LENGTH],
        problem_code=code,
        problem_line=line,
    )


def keywords_from(metadata: Mapping[str, Any] | None, fields: Iterable[str]) -> tuple[str, ...]:
    """The keywords that the named fields give (FM-6), in order, without blanks and duplicates after normalisation.

    A list gives its texts and numbers, a string is split at ``, ， 、 ; ；`` and newlines. At most 200; one of more
    than 200 characters is left out.
    """
    found: dict[str, str] = {}
    for name in fields:
        for item in _items(field_value(metadata or {}, name), _KEYWORD_SEPARATORS):
            keyword = clean_line(item)
            key = normalise(keyword)
            if key and len(keyword) <= MAX_KEYWORD_LENGTH:
                found.setdefault(key, keyword)
            if len(found) == MAX_KEYWORDS:
                return tuple(found.values())
    return tuple(found.values())


def covers_from(metadata: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The author's scenarios: a list of short texts; a string is split at semicolons and newlines."""
    value = field_value(metadata or {}, "covers")
    cleaned = (clean_line(item) for item in _items(value, _SCENARIO_SEPARATORS))  # a scenario may hold a comma
    return tuple(dict.fromkeys(item for item in cleaned if item))


def when_to_retrieve_from(metadata: Mapping[str, Any] | None) -> str:
    """The author's own sentence in one line, "" where there is none."""
    return clean_line("; ".join(_items(field_value(metadata or {}, "when_to_retrieve"), None)))


def text_from(metadata: Mapping[str, Any] | None, name: str) -> str:
    """A field that is one text (or a number) as text, "" where it is missing or is none."""
    return _text(field_value(metadata or {}, name)).strip()


def title_of(parsed: ParsedDocument, file_name: str) -> str:
    """The title to show: the frontmatter's, else the first heading, else the file name without ``.md``."""
    title = parsed.frontmatter.title if parsed.frontmatter else ""
    return title or clean_line(first_heading(parsed.body))[:MAX_TITLE_LENGTH] or PurePosixPath(file_name).stem


def field_value(metadata: Mapping[str, Any], name: str) -> Any:
    """A field by its name; where it is not there as spelled, in any upper or lower case (``Title``)."""
    if name in metadata:
        return metadata[name]
    folded = name.casefold()
    return next((value for key, value in metadata.items() if key.casefold() == folded), None)


def clean_line(text: str) -> str:
    """One line without control, zero-width, bidirectional and tag characters, white space runs as one space."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    spaced = " ".join(text.split())
    return " ".join("".join(mark for mark in spaced if unicodedata.category(mark) not in _UNSEEN).split())


_UNSEEN = frozenset(["Cc", "Cf", "Cs"])


def _frontmatter(fields: dict[str, Any]) -> Frontmatter:
    return Frontmatter(
        title=clean_line(_text(field_value(fields, "title")))[:MAX_TITLE_LENGTH],
        keywords=keywords_from(fields, ("keywords",)),
        summary=text_from(fields, "summary"),
        covers=covers_from(fields),
        when_to_retrieve=when_to_retrieve_from(fields),
        fields=fields,
    )


def _items(value: Any, separators: re.Pattern[str] | None) -> list[str]:
    """The texts in a value: of a list its texts and numbers, else the text itself, split at the separators."""
    if isinstance(value, list | tuple):
        return [_text(item) for item in value if _text(item)]
    text = _text(value)
    if not text or separators is None:
        return [text] if text else []
    bracketed = _BRACKETS.fullmatch(text)
    return separators.split(bracketed["inner"] if bracketed else text)


def _text(value: Any) -> str:
    """A text or number as text; anything else (None, a list, a mapping) is no text: ""."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else ""


def _remarks(header: Header) -> list[tuple[str, str, int]]:
    """What the curator should know of a header that was read: ``(code, sentence, line)`` each."""
    remarks = [
        ("duplicate_key", f"Line {line}: “{clean_line(key)[:60]}” is given twice; the last one counts.", line)
        for key, line in header.duplicates[:3]
    ]
    lost = _lost_keywords(field_value(header.fields, "keywords"))
    if lost:
        first = header.block.first_line
        remarks.append(("keywords", f"Line {first}: {lost} of the keywords cannot be used and are left out.", first))
    return remarks


def _lost_keywords(value: Any) -> int:
    """How many keywords are no text, too long or too many (blanks and duplicates are nothing to tell of)."""
    if isinstance(value, dict):
        return len(value)
    nested = sum(1 for item in value if isinstance(item, list | dict)) if isinstance(value, list) else 0
    usable = {key: item for item in _items(value, _KEYWORD_SEPARATORS) if (key := normalise(clean_line(item)))}
    fitting = sum(1 for item in usable.values() if len(clean_line(item)) <= MAX_KEYWORD_LENGTH)
    return nested + len(usable) - min(fitting, MAX_KEYWORDS)
