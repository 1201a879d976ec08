"""Relevance levels, pure (SPEC section 7): numbers in, one honest word out."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Thresholds:
    """Lower bounds on similarity, inclusive."""

    highly_relevant: float
    reference: float


def thresholds_for(settings: RetrievalSettings, fit: LevelFit) -> Thresholds:
    """The operator's thresholds where set (0 is set), else the embedder's own."""
    highly_relevant, reference = settings.highly_relevant_threshold, settings.reference_threshold
    return Thresholds(
        highly_relevant=fit.highly_relevant if highly_relevant is None else highly_relevant,
        reference=fit.reference if reference is None else reference,
    )


def similarity_of(squared_distance: float, max_l2_distance: float = 2.0) -> float:
    """``1 - min(l2, max) / max``: from 1 (equal) to 0; on squared distances of unit vectors max(0, cosine)."""
    bounded = min(max(squared_distance, 0.0), max_l2_distance)
    return 1.0 - bounded / max_l2_distance


def distance_of_cosine(cosine: float) -> float:
    """The squared distance of two unit vectors with this cosine: 2 - 2c, from 0 (equal) to 4 (opposite)."""
    return 2.0 - 2.0 * cosine


def precise_check(query: str, keywords: tuple[str, ...]) -> bool:
    """May this unique match, found by these keywords, be called PRECISE?

    This is the place of the PRECISE check. It says yes to every unique match, which is the literal rule of the design
    documents; where it says no, semantic search is asked and the match counts as one of several.
    """
    return bool(query) and bool(keywords)


def assess(
    *, l0_match_count: int, precise_served: bool, similarity: float | None, thresholds: Thresholds
) -> RelevanceLevel | None:
    """The level of what is served; ``None`` where nothing is good enough to be found.

    ``l0_match_count`` is taken after the row check and before the action memory. ``precise_served``: the one exact
    match, having passed the PRECISE check, is itself served. ``similarity`` is the best among the documents served,
    ``None`` where semantic search was not asked, found none of them, or is down.
    """
    if precise_served and l0_match_count == 1:
        return RelevanceLevel.PRECISE
    if similarity is not None and similarity >= thresholds.highly_relevant:
        return RelevanceLevel.HIGHLY_RELEVANT
    if l0_match_count > 0 or (similarity is not None and similarity >= thresholds.reference):
        return RelevanceLevel.REFERENCE
    return None


def completeness_hint(level: RelevanceLevel | None) -> str | None:
    """The exact sentence that goes with a level; DEDUPED and a miss have none."""
    return None if level is None else _HINTS.get(level)
