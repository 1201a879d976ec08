from __future__ import annotations

import pytest

from clients.interfaces import LevelFit
from retrieval.lookup_types import RetrievalSettings
from retrieval.relevance import (
    RelevanceLevel,
    Thresholds,
    assess,
    completeness_hint,
    distance_of_cosine,
    precise_check,
    similarity_of,
    thresholds_for,
)

BGE_M3 = Thresholds(highly_relevant=0.75, reference=0.5)
PRECISE, HIGHLY_RELEVANT, REFERENCE = (
    RelevanceLevel.PRECISE,
    RelevanceLevel.HIGHLY_RELEVANT,
    RelevanceLevel.REFERENCE,
)


@pytest.mark.parametrize(
    ("l0_matches", "similarity", "expected"),
    [
        (1, None, PRECISE),
        (1, 0.1, PRECISE),
        (2, 0.75, HIGHLY_RELEVANT),
        (2, 1.0, HIGHLY_RELEVANT),
        (2, 0.7499, REFERENCE),
        (2, 0.5, REFERENCE),
        (2, 0.1, REFERENCE),
        (2, None, REFERENCE),
        (50_000, None, REFERENCE),
        (0, 0.75, HIGHLY_RELEVANT),
        (0, 1.0, HIGHLY_RELEVANT),
        (0, 0.7499, REFERENCE),
        (0, 0.5, REFERENCE),
        (0, 0.4999, None),
        (0, 0.0, None),
        (0, None, None),
    ],
)
def test_every_row_of_the_table_of_levels(
    l0_matches: int, similarity: float | None, expected: RelevanceLevel | None
) -> None:
    level = assess(l0_match_count=l0_matches, precise_served=l0_matches == 1, similarity=similarity, thresholds=BGE_M3)
    assert level == expected


def test_a_unique_match_that_is_not_itself_served_is_not_precise() -> None:
    def level(similarity: float | None) -> RelevanceLevel | None:
        return assess(l0_match_count=1, precise_served=False, similarity=similarity, thresholds=BGE_M3)

    assert level(0.8) == HIGHLY_RELEVANT
    assert level(0.6) == REFERENCE
    assert level(None) == REFERENCE


def test_several_matches_are_never_precise_even_when_one_of_them_is_served() -> None:
    level = assess(l0_match_count=3, precise_served=True, similarity=None, thresholds=BGE_M3)
    assert level == REFERENCE


@pytest.mark.parametrize(
    ("squared_distance", "similarity"),
    [(0.0, 1.0), (0.383, 0.8085), (0.5, 0.75), (0.6031, 0.69845), (1.0, 0.5), (2.0, 0.0), (3.1, 0.0), (4.0, 0.0)],
)
def test_similarity_follows_the_formula_of_the_design_documents(squared_distance: float, similarity: float) -> None:
    assert similarity_of(squared_distance) == pytest.approx(similarity, abs=1e-9)


def test_the_largest_distance_can_be_set() -> None:
    assert similarity_of(1.0, 4.0) == pytest.approx(0.75)
    assert similarity_of(1.0, 1.0) == 0.0


def test_a_distance_below_nought_by_rounding_is_no_similarity_above_one() -> None:
    assert similarity_of(-1e-7) == 1.0


@pytest.mark.parametrize(("cosine", "similarity"), [(1.0, 1.0), (0.4, 0.4), (0.0, 0.0), (-0.5, 0.0)])
def test_a_cosine_of_a_level_space_comes_out_as_itself_clipped_at_nought(cosine: float, similarity: float) -> None:
    assert similarity_of(distance_of_cosine(cosine)) == pytest.approx(similarity)


def test_thresholds_come_from_the_embedder_unless_the_operator_set_them() -> None:
    fit = LevelFit(highly_relevant=0.44, reference=0.36)
    assert thresholds_for(RetrievalSettings(), fit) == Thresholds(0.44, 0.36)
    assert thresholds_for(RetrievalSettings(reference_threshold=0.2), fit) == Thresholds(0.44, 0.2)
    assert thresholds_for(RetrievalSettings(highly_relevant_threshold=0.9), fit) == Thresholds(0.9, 0.36)


def test_a_threshold_of_nought_is_a_value_and_not_unset() -> None:
    settings = RetrievalSettings(highly_relevant_threshold=0.0, reference_threshold=0.0)
    thresholds = thresholds_for(settings, LevelFit(highly_relevant=0.75, reference=0.5))
    assert thresholds == Thresholds(0.0, 0.0)
    assert assess(l0_match_count=0, precise_served=False, similarity=0.0, thresholds=thresholds) == HIGHLY_RELEVANT


def test_the_hints_are_the_three_agreed_sentences() -> None:
    assert completeness_hint(PRECISE) == "知识库中不存在比上述结果更精准的文档"
    assert completeness_hint(HIGHLY_RELEVANT) == "当前结果已高度相关，继续检索不太可能找到更精准的文档"
    assert completeness_hint(REFERENCE) == "当前结果为相关参考，如需更精准信息请明确缺少的具体维度"
    assert completeness_hint(RelevanceLevel.DEDUPED) is None
    assert completeness_hint(None) is None


def test_the_precise_check_lets_every_unique_match_pass() -> None:
    assert precise_check("日志里有 ERR_TIMEOUT", ("ERR_TIMEOUT",))
    assert precise_check("日志", ("日志",))
