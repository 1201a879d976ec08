"""Why a lookup got its level, as plain values: what ``agents/explain.py`` finds out and the lookup test page shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from retrieval.lookup_types import DocumentRef, TracedCandidate

_NOISE = 1e-3

CheckReason = Literal["identifier", "share", "off", "failed"]
ThresholdName = Literal["highly_relevant", "agreement", "reference", "covered_reference", "nearly_all"]
Origin = Literal["environment", "calibration", "embedder"]


def rounded_down(share: float) -> float:
    """Two decimals, so that what is just below a bound does not read as the bound."""
    return math.floor(share * 100 + _NOISE) / 100


def rounded_up(gap: float) -> float:
    """Two decimals, so that a gap never reads as none."""
    return math.ceil(gap * 100 - _NOISE) / 100


@dataclass(frozen=True)
class Reason:
    """One step on the way to a level, or one thing that would change it. ``agents/explain_words.py`` has its words.

    ``values`` are texts, whole numbers, similarities (0 to 1), percentages (whole), or tuples of keywords.
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreciseCheck:
    """What the PRECISE check said of a unique exact match. ``codes`` are its identifier-like keywords that count.

    ``share`` of the query's content characters lie in matched keywords; ``needed`` is enough (0 to 1).
    """

    passed: bool
    reason: CheckReason
    codes: tuple[str, ...]
    share: float
    needed: float


@dataclass(frozen=True)
class Threshold:
    """A bound on similarity, inclusive, and where it comes from; ``setting`` is the variable that overrides it.

    ``coverage``: the share of the query that a text must hold besides. ``agreed``: the document must be first in both
    lists besides, and similarity and coverage must add up to ``support``.
    """

    name: ThresholdName
    value: float
    origin: Origin
    setting: str
    coverage: float | None = None
    agreed: bool = False
    support: float = 0.0


@dataclass(frozen=True)
class Hit:
    """A document found. ``role`` is ``primary``, ``supplement``, or "" for what was not served."""

    document: DocumentRef
    role: str = ""
    section: str = ""
    keywords: tuple[str, ...] = ()
    candidate: TracedCandidate | None = None

    @property
    def similarity(self) -> str:
        """As it is shown; "" where it is not known."""
        one = self.candidate
        return f"{rounded_down(one.similarity):.2f}" if one is not None and one.similarity is not None else ""

    @property
    def covers(self) -> str:
        """The covered share of the query as it is shown, rounded as in the sentences; "" where it is not known."""
        one = self.candidate
        return f"{rounded_down(one.coverage):.2f}" if one is not None and one.coverage is not None else ""


@dataclass(frozen=True)
class KeywordOwners:
    """A matched keyword (any of its spellings) and the documents that were found by it."""

    keyword: str
    documents: tuple[DocumentRef, ...]

    @property
    def shared(self) -> bool:
        return len(self.documents) > 1


@dataclass(frozen=True)
class Explanation:
    """One lookup explained.

    ``check`` is None unless exactly one document matched. ``ranked`` is how many documents semantic search compared,
    more than ``hits`` shows. ``fitted_on`` and ``fitted_at`` are of the level fit in force.
    """

    level: str | None
    check: PreciseCheck | None
    asked_meaning: bool
    has_lexical: bool
    reasons: tuple[Reason, ...]
    changes: tuple[Reason, ...]
    thresholds: tuple[Threshold, ...]
    hits: tuple[Hit, ...]
    keywords: tuple[KeywordOwners, ...]
    ranked: int
    fitted_on: str
    fitted_at: str
