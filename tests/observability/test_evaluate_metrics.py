"""The figures themselves, by literal examples."""

from __future__ import annotations

import math

import pytest

from observability.evaluation.baselines import PlainBM25, plain_terms, rank_fusion
from observability.evaluation.data import EvaluatedDocument
from observability.evaluation.intervals import bootstrap_interval, share_of
from observability.evaluation.metrics import (
    Judged,
    QuestionFigures,
    is_within,
    ndcg,
    of_groups,
    place,
    question_figures,
    reciprocal_rank,
)
from observability.evaluation.ranking_figures import compare, ranking_figures, system_figures
from observability.evaluation.tables import share, table


class TestPlaces:
    def test_best_wanted_name_counts(self) -> None:
        assert place({"a": 3.0, "b": 2.0, "c": 1.0}, {"b", "c"}) == 2

    def test_equal_scores_stand_before_the_wanted_one(self) -> None:
        assert place({"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.5}, {"a"}) == 3

    def test_two_wanted_names_of_one_score_do_not_stand_in_each_others_way(self) -> None:
        assert place({"a": 1.0, "b": 1.0, "c": 0.5}, {"a", "b"}) == 1

    def test_what_is_not_in_the_list_has_no_place(self) -> None:
        assert place({"a": 1.0}, {"x"}) is None
        assert not is_within(None, 10)
        assert reciprocal_rank(None) == 0.0

    def test_reciprocal_rank(self) -> None:
        assert reciprocal_rank(4) == 0.25


class TestNdcg:
    def test_by_the_formula(self) -> None:
        scores = {"wrong": 0.9, "right": 0.8, "helpful": 0.7}
        expected = (2 / math.log2(3) + 1 / math.log2(4)) / (2 / math.log2(2) + 1 / math.log2(3))
        assert ndcg(scores, {"right": 2, "helpful": 1}) == pytest.approx(expected)

    def test_of_equal_scores_the_lowest_grade_comes_first(self) -> None:
        assert ndcg({"right": 0.9, "wrong": 0.9}, {"right": 2}) == pytest.approx(1 / math.log2(3))

    def test_only_the_first_ten_gain(self) -> None:
        scores = {str(number): float(-number) for number in range(11)}
        assert ndcg(scores, {"10": 2}) == 0.0
        assert ndcg(scores, {"9": 2}) == pytest.approx(1 / math.log2(11))

    def test_nothing_graded_is_nothing_gained(self) -> None:
        assert ndcg({"a": 1.0}, {}) == 0.0


GROUPS = {"a1": "a", "a2": "a", "b1": "b", "t": "t"}


class TestOneQuestion:
    def test_document_is_right_where_another_passage_of_it_leads(self) -> None:
        judged = Judged(grades={"a1": 2}, right=frozenset({"a1"}), groups=frozenset({"a"}))
        figures = question_figures({"a2": 3.0, "b1": 2.0, "a1": 1.0}, judged, GROUPS)
        assert (figures.recall_at_1, figures.recall_at_3, figures.document_at_1) == (False, True, True)
        assert figures.reciprocal_rank == pytest.approx(1 / 3)
        assert figures.twin_within_10 is None

    def test_twin_behind_ten_others_is_not_within_ten(self) -> None:
        names = {f"o{number}": float(number) for number in range(1, 11)}
        groups = GROUPS | {name: name for name in names}
        judged = Judged({"a1": 2, "t": 1}, frozenset({"a1"}), frozenset({"a"}), twins=frozenset({"t"}))
        assert question_figures({**names, "t": 1.0}, judged, groups).twin_within_10 is False
        assert question_figures({**names, "t": 1.5}, judged, groups).twin_within_10 is True

    def test_score_of_a_group_is_its_best_members(self) -> None:
        assert of_groups({"a1": 1.0, "a2": 2.0, "b1": 1.5}, GROUPS) == {"a": 2.0, "b": 1.5}


def figures_of(*places: int | None) -> list[QuestionFigures]:
    judged = Judged({"a1": 2}, frozenset({"a1"}), frozenset({"a"}))
    lists = []
    for found in places:
        scores = {f"o{number}": 10.0 - number for number in range((found or 1) - 1)}
        lists.append(scores | ({"a1": 0.0} if found else {}))
    groups = {"a1": "a"} | {f"o{number}": f"o{number}" for number in range(20)}
    return [question_figures(scores, judged, groups) for scores in lists]


class TestManyQuestions:
    def test_means(self) -> None:
        overall = ranking_figures(figures_of(1, 2, 4, None))
        assert (overall.count, overall.recall_at_1, overall.recall_at_3, overall.recall_at_10) == (4, 0.25, 0.5, 0.75)
        assert overall.mrr == pytest.approx((1 + 0.5 + 0.25) / 4)
        assert (overall.twins, overall.twin_within_10) == (0, None)

    def test_groups(self) -> None:
        system = system_figures("x", figures_of(1, 2, 1), ["zh", "en", "en"], ["faq", "faq", "reading"])
        assert {label: one.recall_at_1 for label, one in system.by_language.items()} == {"en": 0.5, "zh": 1.0}
        assert {label: one.count for label, one in system.by_kind.items()} == {"faq": 2, "reading": 1}

    def test_comparison_is_question_by_question(self) -> None:
        against = compare("b", figures_of(1, 1, 2, 1), figures_of(2, 1, 1, 4))
        assert (against.won, against.lost, against.recall_at_1) == (2, 1, 0.25)
        assert against.mrr == pytest.approx((0.5 + 0.0 - 0.5 + 0.75) / 4)
        assert against.recall_at_1_interval is not None
        assert against.recall_at_1_interval[0] <= 0.25 <= against.recall_at_1_interval[1]


class TestIntervals:
    def test_wilson_by_its_published_example(self) -> None:
        """Newcombe (Statistics in Medicine, 1998), table I: 81 of 263, and 0 of 20."""
        found = share_of(81, 263)
        assert (round(found.low or 0, 4), round(found.high or 0, 4)) == (0.2553, 0.3662)
        none = share_of(0, 20)
        assert (none.low, round(none.high or 0, 4)) == (0.0, 0.1611)

    def test_share_of_nothing_has_no_value(self) -> None:
        assert share_of(0, 0).share is None
        assert share(share_of(0, 0)) == "–"

    def test_bootstrap_is_seeded_and_holds_the_mean(self) -> None:
        values = [1.0] * 60 + [0.0] * 40
        low, high = bootstrap_interval(values) or (0.0, 0.0)
        assert (low, high) == bootstrap_interval(values)
        assert (low, high) == pytest.approx((0.6 - 1.96 * 0.049, 0.6 + 1.96 * 0.049), abs=0.02)
        assert bootstrap_interval([1.0, 1.0]) == (1.0, 1.0)
        assert bootstrap_interval([]) is None


class TestBaselines:
    def test_plain_terms_are_words_and_pairs(self) -> None:
        assert list(plain_terms("The Backups 备份任务 of 表")) == ["the", "backups", "备份", "份任", "任务", "of", "表"]

    def test_bm25_by_its_formula(self) -> None:
        documents = [
            EvaluatedDocument("a", "", "", "disk full", "d"),
            EvaluatedDocument("b", "", "disk", "other words here", "d"),
        ]
        scores = PlainBM25(documents).search("Disk disk")
        idf = math.log1p(0.5 / 2.5)
        average = (2 + 5) / 2
        for name, count, length in (("a", 1, 2), ("b", 2, 5)):
            norm = 1.2 * (0.25 + 0.75 * length / average)
            assert scores[name] == pytest.approx(idf * count * 2.2 / (count + norm))

    def test_rank_fusion(self) -> None:
        fused = rank_fusion({"a": 9.0, "b": 8.0}, {"b": 1.0, "c": 0.5})
        assert fused == {"a": 1 / 61, "b": pytest.approx(1 / 62 + 1 / 61), "c": 1 / 62}

    def test_equal_scores_share_the_last_rank(self) -> None:
        assert rank_fusion({"a": 1.0, "b": 1.0, "c": 0.0}) == {"a": 1 / 62, "b": 1 / 62, "c": 1 / 63}


def test_table_is_aligned_also_with_chinese() -> None:
    lines = table(("", "n"), [("备份", "1"), ("ab", "10")]).split("\n")
    assert lines == ["         n", "  备份   1", "  ab    10"]
