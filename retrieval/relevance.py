"""Relevance levels, pure (SPEC section 7): numbers in, one honest word out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from clients.interfaces import LevelFit
from retrieval.lookup_types import RetrievalSettings


class RelevanceLevel(StrEnum):
    """The only quality signal that a model sees."""

    PRECISE = "PRECISE"
    HIGHLY_RELEVANT = "HIGHLY_RELEVANT"
    REFERENCE = "REFERENCE"
    DEDUPED = "DEDUPED"


_HINTS = {
    RelevanceLevel.PRECISE: "知识库中不存在比上述结果更精准的文档",
    RelevanceLevel.HIGHLY_RELEVANT: "当前结果已高度相关，继续检索不太可能找到更精准的文档",
    RelevanceLevel.REFERENCE: "当前结果为相关参考，如需更精准信息请明确缺少的具体维度",
}


NEARLY_ALL = 0.6
LESS_WHERE_NEARLY_ALL = 0.11
"""A text that holds so much of the question (one word, a name) is found at so much less than ``covered_reference``:
short queries lie near nothing. Of 509 questions without an answer not one more finds something by it."""


@dataclass(frozen=True)
class Evidence:
    """What speaks for one document found by meaning: all that a level may be decided on.

    ``similarity`` and ``coverage`` (the share of the question's idf that the text holds) are 0 to 1. ``agreed``: the
    document is first in the dense and in the lexical list; None where there is no lexical list to agree with.
    """

    similarity: float
    coverage: float = 0.0
    agreed: bool | None = None

    @property
    def support(self) -> float:
        """Similarity and coverage together: a text near the subject is one of the two, the right one mostly both."""
        return self.similarity + self.coverage


@dataclass(frozen=True)
class LevelRule:
    """When a document counts as found, and when as highly relevant. Lower bounds on similarity, inclusive.

    Found: :func:`found_from` is reached, ``reference`` or less by a text that covers at least ``min_coverage``. Highly
    relevant: ``highly_relevant`` is reached; where ``agreement`` is set and both searches ran: found, ``agreement`` is
    reached, they agree on the document, and similarity and coverage add up to ``min_support``.
    """

    highly_relevant: float
    reference: float
    covered_reference: float | None = None
    min_coverage: float = 0.0
    agreement: float | None = None
    min_support: float = 0.0

    def finds(self, evidence: Evidence) -> bool:
        """Is the document good enough to be shown at all?"""
        return evidence.similarity >= found_from(self, evidence.coverage)

    def is_highly_relevant(self, evidence: Evidence) -> bool:
        """Is it, very likely, the right document?"""
        if self.agreement is None or evidence.agreed is None:
            return evidence.similarity >= self.highly_relevant
        supported = evidence.agreed and evidence.support >= self.min_support
        return supported and evidence.similarity >= self.agreement and self.finds(evidence)


def found_from(rule: LevelRule | LevelFit, coverage: float) -> float:
    """The similarity from which a text that covers so much of the question is found."""
    covered = rule.covered_reference
    if covered is None or coverage < rule.min_coverage:
        return rule.reference
    nearly_all = round(covered - LESS_WHERE_NEARLY_ALL, 4)  # a bound of two digits stays one
    return min(rule.reference, nearly_all if coverage >= NEARLY_ALL else covered)


def rule_for(settings: RetrievalSettings, fit: LevelFit) -> LevelRule:
    """The operator's thresholds where set (0 is set), else those of ``settings.fit``, else of ``fit`` (the embedder's).

    A threshold that was set holds as it is: texts that cover the question get no lower one.
    """
    fit = settings.fit or fit
    highly_relevant, reference = settings.highly_relevant_threshold, settings.reference_threshold
    agreement = fit.agreement
    if agreement is not None and highly_relevant is not None:
        agreement = highly_relevant
    return LevelRule(
        highly_relevant=fit.highly_relevant if highly_relevant is None else highly_relevant,
        reference=fit.reference if reference is None else reference,
        covered_reference=fit.covered_reference if reference is None else None,
        min_coverage=fit.min_coverage,
        agreement=agreement,
        min_support=fit.min_support,
    )


def similarity_of(squared_distance: float, max_l2_distance: float = 2.0) -> float:
    """``1 - min(l2, max) / max``: from 1 (equal) to 0; on squared distances of unit vectors max(0, cosine)."""
    bounded = min(max(squared_distance, 0.0), max_l2_distance)
    return 1.0 - bounded / max_l2_distance


def distance_of_cosine(cosine: float) -> float:
    """The squared distance of two unit vectors with this cosine: 2 - 2c, from 0 (equal) to 4 (opposite)."""
    return 2.0 - 2.0 * cosine


def assess(
    *, l0_match_count: int, precise_served: bool, evidence: Sequence[Evidence], rule: LevelRule
) -> RelevanceLevel | None:
    """The level of what is served; ``None`` where nothing is good enough to be found.

    ``l0_match_count`` is taken after the row check and before the action memory. ``precise_served``: the one exact
    match, having passed the PRECISE check, is itself served. ``evidence`` is that of the documents served, as far as
    semantic search found them: empty where it was not asked, found none of them, or is down.
    """
    if precise_served and l0_match_count == 1:
        return RelevanceLevel.PRECISE
    if any(rule.is_highly_relevant(one) for one in evidence):
        return RelevanceLevel.HIGHLY_RELEVANT
    if l0_match_count > 0 or any(rule.finds(one) for one in evidence):
        return RelevanceLevel.REFERENCE
    return None


def completeness_hint(level: RelevanceLevel | None) -> str | None:
    """The exact sentence that goes with a level; DEDUPED and a miss have none."""
    return None if level is None else _HINTS.get(level)
