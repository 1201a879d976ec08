"""What a model wrote for a header, checked field by field. Pure. Nothing of it is trusted.

``covers`` and ``when_to_retrieve`` reach the Planner's prompt before a person has seen them, and a document may tell
the model what to write there. What gets through is one short line of plain text in the document's language, without
addresses, fence marks or roles, that neither speaks to its reader nor claims to be good for everything. No list of such
phrases is complete: a document can at worst describe itself wrongly, which its author could do in the header as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clients.prompt_fence import one_line
from clients.structured import Checked, Shape
from documents.enrichment_keywords import usable_keywords
from documents.enrichment_orders import is_order
from documents.enrichment_text import IN_WORDS, Language
from documents.frontmatter import clean_line
from documents.generated import FIELDS
from retrieval.lexical import is_cjk_text
from retrieval.normalise import has_cjk, normalise

LONGEST: Mapping[str, int] = {"title": 200, "summary": 500, "covers": 120, "when_to_retrieve": 300}
MOST_COVERS = 8
_LOOKED_AT = 50
_ECHO = 40
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,20}://|\bwww\.\w|\]\(|!\[|\b(?:mailto|javascript|data):\S", re.I)
_MARKUP = re.compile(r"</?[a-z!][^<>]*>|&(?:#\w{1,8}|[a-z]{2,10});", re.I)
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "title": _TEXT,
        "summary": _TEXT,
        "keywords": _TEXTS,
        "covers": _TEXTS,
        "when_to_retrieve": _TEXT,
    },
    "required": list(FIELDS),
    "additionalProperties": False,
}


class _RefusedError(ValueError):
    """What is wrong with a text, in an English sentence without its subject."""


@dataclass(frozen=True)
class _Rules:
    """What the answer is held against: the document's language and text, and the prompt that it must not repeat."""

    language: Language
    document: str
    prompt: str


def shape_for(wanted: Sequence[str], *, language: Language, document: str, prompt: str) -> Shape:
    """The shape of one document's answer. All five fields are asked for; only the ``wanted`` ones are looked at."""
    against = _Rules(language, normalise(document), " ".join(prompt.split()))

    def check(found: Mapping[str, Any]) -> Checked:
        values: dict[str, Any] = {}
        problems: list[str] = []
        for field in wanted:
            try:
                values[field] = _checked(field, found.get(field), against)
            except _RefusedError as fault:
                problems.append(f"{field} {fault}.")
        return Checked(values, tuple(problems))

    return Shape("frontmatter", SCHEMA, check)


def _checked(field: str, value: object, against: _Rules) -> str | list[str]:
    if value is None:
        raise _RefusedError("is missing")
    if field == "keywords":
        return _keywords(_texts(value), against)
    if field == "covers":
        return _covers(_texts(value), against)
    return _text(field, value, against)


def _text(field: str, value: object, against: _Rules) -> str:
    if not isinstance(value, str):
        raise _RefusedError("is no text")
    text = _plain(value, LONGEST[field], against)
    _require_language(field, text, against)
    return text


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise _RefusedError("is no list of texts")
    return [one for one in value[:_LOOKED_AT] if isinstance(one, str)]


def _covers(texts: Sequence[str], against: _Rules) -> list[str]:
    """The usable ones, each once; of more than eight the first."""
    found: dict[str, str] = {}
    reason = "has no text"
    for text in texts:
        try:
            plain = _plain(text, LONGEST["covers"], against)
        except _RefusedError as fault:
            reason = f"has nothing that can be used: a text {fault}"
            continue
        found.setdefault(normalise(plain), plain)
    if not found:
        raise _RefusedError(reason)
    kept = list(found.values())[:MOST_COVERS]
    _require_language("covers", " ".join(kept), against)
    return kept


def _keywords(texts: Sequence[str], against: _Rules) -> list[str]:
    plain = []
    for text in texts:
        line = clean_line(one_line(text[:1_000]))
        if not (_has_address(line) or is_order(line)):
            plain.append(line)
    usable = usable_keywords(plain, document=against.document)
    if not usable:
        raise _RefusedError("has no term that could be looked up: only everyday words, or codes that the text has not")
    return usable


def _plain(value: str, longest: int, against: _Rules) -> str:
    """One clean line. Raises ``_RefusedError``."""
    if len(value) > 20 * longest:
        raise _RefusedError(f"is longer than {longest} characters by far")
    text = clean_line(one_line(value))
    if not any(character.isalnum() for character in text):
        raise _RefusedError("is empty")
    if len(text) > longest:
        raise _RefusedError(f"has {len(text)} characters; at most {longest} are taken")
    if _has_address(text):
        raise _RefusedError("has a link, an image or markup; plain text is wanted")
    if is_order(text):
        raise _RefusedError("speaks to its reader or claims everything; it may only describe the document")
    if any(text[at : at + _ECHO] in against.prompt for at in range(len(text) - _ECHO + 1)):
        raise _RefusedError("repeats the instructions instead of describing the document")
    return text


def _has_address(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text)  # full-width letters make an address too
    return bool(_ADDRESS.search(plain) or _MARKUP.search(plain))


def _require_language(field: str, text: str, against: _Rules) -> None:
    """A title may be a name in whatever script; Chinese texts hold Latin names, English ones are not mostly CJK."""
    chinese = against.language == "zh"
    wrong = (not has_cjk(text) and field != "title") if chinese else is_cjk_text(text)
    if wrong:
        raise _RefusedError(f"must be in {IN_WORDS[against.language]}")
