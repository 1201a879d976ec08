"""One question as the store answered it, and its level under any rule. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.relevance import Evidence, LevelRule, RelevanceLevel, assess

NOT_FOUND = "NOT_FOUND"
LEVELS = (*(level.value for level in RelevanceLevel if level is not RelevanceLevel.DEDUPED), NOT_FOUND)
"""A level mix has these keys, in this order."""


class CalibrationError(Exception):
    """Nothing can be proposed; the message is one line with what to do."""


@dataclass(frozen=True)
class Candidate:
    """A document that semantic search came up with, and what speaks for it."""

    path: str
    evidence: Evidence


@dataclass(frozen=True)
class Asked:
    """What one question met: documents that match exactly, and the best candidates in the order of the ranking.

    ``matches`` counts as a lookup does, ``precise``: there is one, and it passes the PRECISE check; ``primary`` is the
    path of the first of them, "" without one.
    """

    query: str
    matches: int = 0
    precise: bool = False
    primary: str = ""
    candidates: tuple[Candidate, ...] = ()

    @property
    def best_similarity(self) -> float:
        """Of the nearest candidate; 0 without any."""
        return max((one.evidence.similarity for one in self.candidates), default=0.0)

    def finds(self, rule: LevelRule) -> bool:
        """Does meaning find anything by this rule?"""
        return any(rule.finds(one.evidence) for one in self.candidates)

    def level(self, rule: LevelRule) -> str:
        """The level of a first lookup by this rule (SPEC section 7), or ``NOT_FOUND``."""
        if self.precise:
            return RelevanceLevel.PRECISE.value
        others = (one for one in self.candidates if one.path != self.primary and rule.finds(one.evidence))
        supplement = next(others, None)
        served = [one.evidence for one in self.candidates if one.path == self.primary or one is supplement]
        level = assess(l0_match_count=self.matches, precise_served=False, evidence=served, rule=rule)
        return level.value if level is not None else NOT_FOUND

    def as_dict(self) -> dict[str, Any]:
        """As it goes from the running server to the command."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Asked:
        """The reverse of :meth:`as_dict`."""
        candidates = tuple(Candidate(one["path"], Evidence(**one["evidence"])) for one in stored["candidates"])
        return cls(**{**stored, "candidates": candidates})


def level_mix(asked: Iterable[Asked], rule: LevelRule) -> dict[str, int]:
    """How many questions get each level by this rule."""
    counts = Counter(one.level(rule) for one in asked)
    return {level: counts[level] for level in LEVELS}
