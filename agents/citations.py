"""Citations: the numbers in an answer, and the passages that they stand for (AG-5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from agents.excerpts import focus
from retrieval.chunking import split_sections

EXCERPT_CHARS = 800
# ```fences```, `spans`: what stands there is code, never a citation.
_CODE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)[^\n]*$|`[^`\n]+`)", re.M | re.S)
# [1]  [1, 2]  [1-3]  【1】  [^1]  [来源 1]  [Source 1]; a link's [1](…) is none.
_GROUP = re.compile(
    r"([ \t]*)[\[【]\s*\^?(?:sources?|passage|来源|资料)?\s*"
    r"([1-9]\d{0,2}(?:\s*[,，、;\-–]\s*\^?\d{1,3})*)\s*[\]】](?![(\[:])",
    re.I,
)
_GROUP_BEFORE_GROUP = re.compile(r"(?<=[\]】])(?=[\[【])")


@dataclass(frozen=True)
class Passage:
    """A text that a lookup served in this run. ``number`` is what an answer cites it by, from 1."""

    number: int
    source: str
    title: str
    section: str
    content: str
    level: str | None

    def nearest(self, near: str) -> tuple[str, str]:
        """The part of the passage nearest to the words of ``near``, and the section that it stands in.

        A passage may be a whole document: the section that was found by meaning is then not always the one quoted.
        """
        excerpt = focus(self.content, near, limit=EXCERPT_CHARS)
        at = self.content.find(excerpt)
        holding = (one for one in split_sections(self.content) if one.start <= at < one.end)
        return excerpt, next((one.key for one in holding if one.key), self.section)

    def citation(self, near: str) -> dict[str, Any]:
        """As stored and as in API.md: ``excerpt`` is the part of the passage nearest to the words of ``near``."""
        excerpt, section = self.nearest(near)
        return {
            "index": self.number,
            "source": self.source,
            "title": self.title,
            "section": section,
            "excerpt": excerpt,
            "level": self.level,
        }


def clean_citations(answer: str, known: Collection[int]) -> tuple[str, list[int]]:
    """The answer with every citation as ``[n]``, made-up numbers removed, and the numbers used, in order of first use.

    Code is left alone.
    """
    used: list[int] = []

    def rewrite(match: re.Match[str]) -> str:
        numbers = [number for number in _numbers(match[2]) if number in known]
        used.extend(number for number in numbers if number not in used)
        # What is removed takes the space before it along.
        return match[1] + "".join(f"[{number}]" for number in numbers) if numbers else ""

    return _outside_code(answer, lambda text: _rewrite_groups(text, rewrite)), used


def escape_citations(text: str) -> str:
    """A document's own ``[1]`` is no citation of ours: escaped, it is shown as it stands."""
    return _outside_code(text, lambda part: re.sub(r"\[(\d{1,2})\](?![(\[:])", r"\\[\1\\]", part))


def without_citations(answer: str) -> str:
    """An earlier answer as a model is shown it: its numbers meant that run's passages."""
    return clean_citations(answer, ())[0]


def sentences_citing(answer: str, number: int) -> str:
    """The lines of the answer that cite ``number``: what its excerpt should be near to."""
    return "\n".join(line for line in answer.splitlines() if f"[{number}]" in line)


def _numbers(inner: str) -> list[int]:
    numbers: list[int] = []
    for part in re.split(r"\s*[,，、;]\s*", inner):
        ends = [int(end) for end in re.findall(r"\d+", part)]
        # A range is spelled out; an absurd one is its two ends.
        numbers += range(ends[0], ends[-1] + 1) if 0 <= ends[-1] - ends[0] <= 20 else ends
    return numbers


def _rewrite_groups(text: str, rewrite: Callable[[re.Match[str]], str]) -> str:
    # [1][2] would read as a Markdown link reference: the groups are looked at one by one.
    parts: Sequence[str] = _GROUP_BEFORE_GROUP.split(text)
    return "".join(_GROUP.sub(rewrite, part) for part in parts)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    # re.split with one group: code stands at the odd places.
    return "".join(part if place % 2 else change(part) for place, part in enumerate(_CODE.split(text)))
