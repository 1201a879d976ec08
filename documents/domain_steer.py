"""The last sentence of a domain's ``when_to_retrieve``: search it once and not again (DOM-2). And in what language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from retrieval.lexical import is_cjk_text

Language = Literal["zh", "en"]
STEER: dict[Language, str] = {
    "zh": "同一问题在该领域检索一次即可，不要换个说法重复检索。",
    "en": "Search this domain once for a question, and not again in other words.",
}
_ENDS = ".。!！?？…；;"
_SENTENCE = re.compile(r"[^.。!！?？；;]+[.。!！?？；;]*\s*")
_SEARCH = re.compile(r"\b(?:search|retriev|quer|look|consult)|检索|搜索|查询|查找", re.I)
_ONCE = re.compile(r"\bonce\b|\bone time\b|\ba single\b|一次|一遍", re.I)
_NOT_AGAIN = re.compile(
    r"\b(?:not|never|no|don't|avoid|without)\b.*\b(?:again|repeat\w*|re-?search\w*|reword\w*|twice|second)\b"
    r"|[不勿别免无].{0,12}(?:重复|再次|再查|再检索|多次|反复)",
    re.I,
)


def has_steer(text: str) -> bool:
    """Whether the end (its last two sentences) says both: once, and not again."""
    return _steer_begins(text) is not None


def without_steer(text: str) -> str:
    """The text without a steer of its own at the end; unchanged where it is nothing else."""
    begins = _steer_begins(text)
    return text[:begins].rstrip() if begins else text


def _steer_begins(text: str) -> int | None:
    """Where the last sentence begins, or the last but one, whichever is enough to say it all."""
    for sentence in [*_SENTENCE.finditer(text)][:-3:-1]:
        said = text[sentence.start() :]
        if all(pattern.search(said) for pattern in (_SEARCH, _ONCE, _NOT_AGAIN)):
            return sentence.start()
    return None


def with_steer(text: str, language: Language, limit: int) -> str:
    """The text, cut where it is too long, ending in the steer: at most ``limit`` characters. "" stays ""."""
    text = text.strip()
    if not text or (len(text) <= limit and has_steer(text)):
        return text
    steer = STEER[language]
    between = "" if language == "zh" else " "
    text = shortened(text, limit - len(steer) - len(between) - 1)
    if text[-1] not in _ENDS:
        text += "。" if language == "zh" else "."
    return f"{text}{between}{steer}"


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters (1 or more): whole sentences where half of it are such, else cut, with ``…``."""
    if len(text) <= limit:
        return text
    cut = text[:limit]
    end = max(cut.rfind(mark) for mark in ("。", "；", ". ", "; ", "! ", "? ", "！", "？"))
    if end + 1 >= limit / 2:
        return cut[: end + 1].rstrip(" ;；")
    return f"{cut[: limit - 1].rstrip()}…"


def language_of(texts: Iterable[str]) -> Language:
    """The language of most of the texts: ``zh`` for Chinese script, ``en`` for any alphabet and for no text at all."""
    votes = [is_cjk_text(text) for text in texts if text.strip()]
    return "zh" if sum(votes) * 2 > len(votes) else "en"
