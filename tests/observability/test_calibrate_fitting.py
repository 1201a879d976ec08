"""The proposal and the levels under a rule, by hand: no store, no database."""

from __future__ import annotations

import json

import pytest

from clients.interfaces import LevelFit
from observability.calibration.asked import NOT_FOUND, Asked, Candidate, level_mix
from observability.calibration.fitting import Labelled, propose
from retrieval.lookup_types import RetrievalSettings
from retrieval.relevance import Evidence, LevelRule, rule_for

PLAIN = LevelFit(highly_relevant=0.75, reference=0.5)
COVERED = LevelFit(0.44, 0.36, covered_reference=0.26, min_coverage=0.2, agreement=0.28)


def candidate(similarity: float, coverage: float = 0.0, *, agreed: bool | None = None, path: str = "a") -> Candidate:
    return Candidate(path, Evidence(similarity, coverage, agreed))


def met(*candidates: Candidate) -> Asked:
    return Asked("?", candidates=candidates)


def at(*similarities: float) -> list[Asked]:
    return [met(candidate(one)) for one in similarities]


def labelled(*similarities: float, coverage: float = 0.0) -> list[Labelled]:
    return [Labelled(met(candidate(0.99), candidate(one, coverage, path="b")), "b") for one in similarities]


def fitted(
    shipped: LevelFit, unanswerable: list[Asked], labels: list[Labelled] | None = None, chunks: int = 1000
) -> LevelFit:
    return propose(shipped, unanswerable, labels or [], chunks=chunks, date="2026-12-01")


def rule(fit: LevelFit) -> LevelRule:
    return rule_for(RetrievalSettings(), fit)


# ---- Plain fits ------------------------------------------------------------------------------------------------------
def test_a_plain_fit_takes_the_90th_and_99th_percentile_of_the_best_similarity() -> None:
    fit = fitted(PLAIN, at(*(number / 100 for number in range(101))))
    assert (fit.reference, fit.highly_relevant) == (0.9, 0.99)
    assert (fit.covered_reference, fit.agreement, fit.min_coverage) == (None, None, 0.0)
    assert (fit.chunks, fit.date) == (1000, "2026-12-01")
    assert "101 questions without an answer over 1000 chunks" in fit.fitted_on


def test_percentiles_are_rounded_up_so_that_not_more_is_found() -> None:
    asked = at(*[0.1] * 89, *[0.3333] * 11)
    assert fitted(PLAIN, asked).reference == 0.34


def test_the_best_candidate_counts_and_a_question_without_any_counts_as_0() -> None:
    asked = [met(candidate(0.2), candidate(0.4, path="b"))] * 20
    assert fitted(PLAIN, asked).reference == 0.4
    assert fitted(PLAIN, [met()] * 20).reference == 0.0


def test_labels_lower_a_plain_fit_until_95_of_100_are_kept() -> None:
    unanswerable = at(*[0.1] * 80, *[0.5] * 20)
    labels = labelled(*[0.45] * 95, *[0.2] * 5)
    without, fit = fitted(PLAIN, unanswerable), fitted(PLAIN, unanswerable, labels)
    assert (without.reference, fit.reference) == (0.5, 0.45)
    assert sum(one.kept(rule(fit)) for one in labels) == 95
    assert fit.highly_relevant == without.highly_relevant


def test_labels_never_raise_a_threshold() -> None:
    unanswerable = at(*[0.3] * 100)
    assert fitted(PLAIN, unanswerable, labelled(*[0.9] * 10)).reference == 0.3


def test_labels_stop_where_a_quarter_of_the_unanswerable_is_found() -> None:
    unanswerable = at(*(number / 100 for number in range(100)))
    fit = fitted(PLAIN, unanswerable, labelled(*[0.05] * 10))
    assert sum(one.finds(rule(fit)) for one in unanswerable) == 25


def test_a_label_whose_document_is_not_ranked_asks_for_nothing() -> None:
    unanswerable = at(*[0.3] * 100)
    lost = Labelled(met(candidate(0.1)), "elsewhere")
    assert fitted(PLAIN, unanswerable, [lost]).reference == 0.3
    assert not lost.kept(rule(PLAIN))


# ---- Fits that ask for more ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("coverage", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(10))
def test_at_most_5_of_100_are_found_and_one_step_lower_there_would_be_more(coverage: float, seed: int) -> None:
    asked = at(*((number * 37 + seed) % 101 / 100 for number in range(220)))
    asked += [met(candidate((number * 13 + seed) % 60 / 100, coverage)) for number in range(40)]
    fit = fitted(COVERED, asked)
    assert sum(one.finds(rule(fit)) for one in asked) <= 13

    def lower(bound: float | None) -> float:
        assert bound is not None
        return bound - 0.01

    down = LevelFit(
        fit.highly_relevant, lower(fit.reference), covered_reference=lower(fit.covered_reference), min_coverage=0.2
    )
    assert sum(one.finds(rule(down)) for one in asked) > 13


def test_the_shape_is_kept_and_all_bounds_move_by_the_same() -> None:
    asked = [met(candidate(0.3, 0.5))] * 6 + at(*[0.1] * 94)
    fit = fitted(COVERED, asked)
    # 6 of 100 are found at .30 where covered; five would do, so .31 it is, .05 above the shipped .26.
    assert (fit.covered_reference, fit.reference, fit.agreement, fit.highly_relevant) == (0.31, 0.41, 0.33, 0.49)
    assert fit.min_coverage == 0.2


def test_bounds_go_down_too_and_stay_within_0_and_1() -> None:
    quiet = fitted(COVERED, at(*[0.0] * 100))
    assert (quiet.covered_reference, quiet.reference) == (0.0, 0.01)
    loud = fitted(COVERED, at(*[1.0] * 100))
    assert (loud.reference, loud.highly_relevant) == (1.0, 1.0)


def test_labels_lower_the_shift() -> None:
    unanswerable = [met(candidate(0.4, 0.5))] * 20 + at(*[0.1] * 80)
    labels = labelled(*[0.35] * 20, coverage=0.5)
    assert fitted(COVERED, unanswerable).covered_reference == 0.41
    fit = fitted(COVERED, unanswerable, labels)
    assert fit.covered_reference == 0.35
    assert all(one.kept(rule(fit)) for one in labels)
    assert sum(one.finds(rule(fit)) for one in unanswerable) == 20


# ---- Levels ----------------------------------------------------------------------------------------------------------
def test_a_level_mix_by_hand() -> None:
    asked = [
        Asked("one exact match", matches=1, precise=True, primary="a", candidates=(candidate(0.9),)),
        Asked("one that fails its check, near", matches=1, primary="a", candidates=(candidate(0.8),)),
        Asked("one that fails its check, far", matches=1, primary="a", candidates=(candidate(0.1),)),
        Asked("two exact ones", matches=2, primary="a", candidates=(candidate(0.1), candidate(0.6, path="b"))),
        Asked("near", candidates=(candidate(0.75),)),
        Asked("half near", candidates=(candidate(0.74), candidate(0.5, path="b"))),
        Asked("far", candidates=(candidate(0.49),)),
        Asked("nothing"),
    ]
    assert level_mix(asked, rule(PLAIN)) == {"PRECISE": 1, "HIGHLY_RELEVANT": 2, "REFERENCE": 3, NOT_FOUND: 2}
    assert level_mix(asked, rule(LevelFit(0.95, 0.76))) == {
        "PRECISE": 1,
        "HIGHLY_RELEVANT": 0,
        "REFERENCE": 3,
        NOT_FOUND: 4,
    }


def test_the_level_is_of_what_is_served_not_of_the_nearest() -> None:
    served_first = Asked("?", candidates=(candidate(0.6), candidate(0.9, path="b")))
    assert served_first.level(rule(PLAIN)) == "REFERENCE"


def test_agreement_is_asked_for_where_the_rule_does() -> None:
    for agreed, level in ((True, "HIGHLY_RELEVANT"), (False, "REFERENCE")):
        assert met(candidate(0.4, agreed=agreed)).level(rule(COVERED)) == level


def test_an_answer_survives_its_way_through_the_server() -> None:
    one = Asked("?", 2, False, "a", (candidate(0.3, 0.5, agreed=True), candidate(0.2, path="b")))
    assert Asked.of(json.loads(json.dumps(one.as_dict()))) == one
