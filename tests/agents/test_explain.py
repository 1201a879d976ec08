"""Why a lookup got its level: each row of the specification's table, each reason, and what would change it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from agents.explain import explain
from agents.explain_words import sentence
from agents.explanation import Explanation, Reason
from agents.scale import scale_of
from clients.interfaces import ClientError, LevelFit
from retrieval.lookup_types import LookupOutcome, RetrievalSettings
from tests.retrieval.fakes import BrokenStore, Document, FixedEmbedder, World

Q = "网关超时怎么处理"


def document(number: int, *keywords: str, near: float = 0.0, title: str = "", body: str = "") -> Document:
    """One document whose whole body is as near to every query as ``near`` says."""
    text = body or f"# 文{number}\n\n正文{number}\n"
    return Document(
        number, f"knowledge_base/api/{number}.md", title or f"文{number}", text, keywords=keywords, near={"正文": near}
    )


def explained(world: World, query: str = Q, **more: Any) -> tuple[Explanation, LookupOutcome]:
    """One lookup and its explanation; every reason and change has words."""
    settings = more.pop("settings", RetrievalSettings())
    calibrated = more.pop("calibrated", False)
    outcome = world.look_up(query, settings=settings, **more)
    found = explain(
        query,
        outcome,
        section_title=more.get("section_title", ""),
        settings=settings,
        fit=world.embedder.fit,
        calibrated=calibrated,
    )
    for reason in (*found.reasons, *found.changes):
        assert sentence(reason)
    assert found.level == outcome.result.relevance_level
    return found, outcome


def codes(reasons: tuple[Reason, ...]) -> list[str]:
    return [reason.code for reason in reasons]


def value(reasons: tuple[Reason, ...], code: str) -> dict[str, Any]:
    return dict(next(reason.values for reason in reasons if reason.code == code))


class Demanding(FixedEmbedder):
    """Asks for agreement, and takes less similarity where the text covers the query."""

    fit = LevelFit(
        highly_relevant=0.75,
        reference=0.5,
        covered_reference=0.3,
        min_coverage=0.6,
        agreement=0.55,
        fitted_on="tests",
        date="2026-11-30",
    )


# ---- The table of SPEC section 7 -------------------------------------------------------------------------------------
def test_one_match_is_precise_and_meaning_is_not_asked() -> None:
    found, _ = explained(World(document(1, "网关超时")))
    assert found.level == "PRECISE"
    assert codes(found.reasons) == ["one_match", "check_share", "meaning_not_asked", "level"]
    assert codes(found.changes) == ["second_owner"]
    assert found.asked_meaning is False


def test_several_matches_and_a_near_one_are_highly_relevant() -> None:
    found, _ = explained(World(document(1, "超时"), document(2, "超时", near=0.8)))
    # The similarity counts among the documents served: the second is the supplement.
    assert found.level == "HIGHLY_RELEVANT"
    assert codes(found.reasons) == [
        "several_matches",
        "meaning_and_words_asked",
        "similar_enough",
        "high_by_similarity",
        "level",
    ]


def test_several_matches_and_none_near_are_reference() -> None:
    found, _ = explained(World(document(1, "超时", near=0.4), document(2, "超时")))
    assert found.level == "REFERENCE"
    assert codes(found.reasons)[:2] == ["several_matches", "meaning_and_words_asked"]
    assert codes(found.reasons)[-2:] == ["keyword_suffices", "level"]
    assert "short_of_found" not in codes(found.changes), "a match by keyword is found already"


def test_several_matches_without_vectors_are_reference() -> None:
    world = World()
    for number in (1, 2):
        world.put(document(number, "超时"), index_vectors=False)
    found, _ = explained(world)
    assert found.level == "REFERENCE"
    assert codes(found.reasons) == ["several_matches", "nothing_ranked", "keyword_suffices", "level"]


@pytest.mark.parametrize(("part", "code"), [("store", "vector_store"), ("embedder", "embedder")])
def test_several_matches_with_a_search_that_is_down_are_reference(part: str, code: str) -> None:
    world = World(document(1, "超时", near=0.9), document(2, "超时"))
    if part == "store":
        world.store = BrokenStore()
    else:
        world.embedder.fails = ClientError("no model", code="refused")
    found, outcome = explained(world)
    assert found.level == "REFERENCE"
    assert codes(found.reasons) == ["several_matches", f"{code}_down", "keyword_suffices", "level"]
    assert value(found.reasons, f"{code}_down")["error"] == outcome.error
    assert f"{code}_back" in codes(found.changes)


def test_no_match_and_a_near_one_is_highly_relevant() -> None:
    found, _ = explained(World(document(1, near=0.81)))
    assert found.level == "HIGHLY_RELEVANT"
    assert codes(found.reasons) == [
        "no_match",
        "meaning_and_words_asked",
        "similar_enough",
        "high_by_similarity",
        "level",
    ]
    assert value(found.reasons, "similar_enough")["similarity"] == pytest.approx(0.81)
    assert codes(found.changes) == ["keyword_missing"]


def test_no_match_and_one_between_the_bounds_is_reference() -> None:
    found, _ = explained(World(document(1, near=0.62)))
    assert found.level == "REFERENCE"
    assert codes(found.reasons)[2:] == ["similar_enough", "not_high_by_similarity", "level"]
    assert value(found.changes, "high_needs")["short"] == pytest.approx(0.13)


def test_no_match_and_nothing_near_is_a_miss_and_says_how_far_it_was() -> None:
    found, _ = explained(World(document(1, near=0.45)))
    assert found.level is None
    assert codes(found.reasons) == ["no_match", "meaning_and_words_asked", "not_similar_enough", "level"]
    assert value(found.reasons, "not_similar_enough")["short"] == pytest.approx(0.05)
    assert "0.45 is 0.05 below 0.50" in sentence(found.reasons[2])
    assert codes(found.changes) == ["keyword_would_find", "short_of_found"]


def test_just_below_a_bound_does_not_read_as_the_bound() -> None:
    found, _ = explained(World(document(1, near=0.498)))
    assert "0.49 is 0.01 below 0.50" in sentence(found.reasons[2])
    assert found.hits[0].similarity == "0.49"


def test_no_match_in_an_empty_knowledge_base_is_a_miss() -> None:
    found, _ = explained(World())
    assert found.level is None
    assert codes(found.reasons) == ["no_match", "nothing_ranked", "level"]


def test_no_match_with_a_search_that_is_down_is_a_miss() -> None:
    world = World(document(1, near=0.9))
    world.store = BrokenStore()
    found, _ = explained(world)
    assert found.level is None
    assert codes(found.reasons) == ["no_match", "vector_store_down", "level"]


# ---- The PRECISE check -----------------------------------------------------------------------------------------------
def test_a_code_passes_the_check_in_a_long_query() -> None:
    found, _ = explained(World(document(1, "ERR_9")), "what on earth could it be that ERR_9 wants to tell us all here")
    assert found.check is not None
    assert (found.check.passed, found.check.reason, found.check.codes) == (True, "identifier", ("ERR_9",))
    assert found.check.share < found.check.needed
    assert "check_identifier" in codes(found.reasons)


def test_an_everyday_word_in_a_long_query_does_not_pass() -> None:
    query = "网关的日志应该如何定期清理并且备份到别的机器"
    found, _ = explained(World(document(1, "日志", near=0.6)), query)
    assert found.level == "REFERENCE"
    assert found.check is not None
    assert (found.check.passed, found.check.reason) == (False, "failed")
    assert codes(found.reasons)[:3] == ["one_match", "check_failed", "meaning_and_words_asked"]
    needed = value(found.changes, "share_needed")
    assert needed["share"] < needed["needed"] == 40


def test_a_bare_year_is_no_code() -> None:
    found, _ = explained(World(document(1, "2024")), "which holidays did the bank keep in 2024 when it was closed")
    assert found.check is not None
    assert (found.check.codes, found.check.reason) == ((), "failed")


def test_with_the_check_off_one_match_is_enough() -> None:
    settings = RetrievalSettings(precise_check=False)
    query = "网关的日志应该如何定期清理并且备份到别的机器"
    found, _ = explained(World(document(1, "日志")), query, settings=settings)
    assert found.level == "PRECISE"
    assert codes(found.reasons) == ["one_match", "check_off", "meaning_not_asked", "level"]


def test_a_precise_match_without_a_text_is_said() -> None:
    world = World(document(1, "网关超时"), document(2, near=0.8))
    world.lose_text(1)
    found, _ = explained(world)
    assert found.level != "PRECISE"
    assert "match_unreadable" in codes(found.reasons)
    assert "best_unreadable" in codes(found.reasons)
    assert "text_needed" in codes(found.changes)


def test_where_no_text_can_be_read_that_is_the_reason() -> None:
    world = World(document(1, "超时"), document(2, "超时"))
    for number in (1, 2):
        world.lose_text(number)
    found, outcome = explained(world)
    assert outcome.degraded == "document_text"
    assert codes(found.reasons)[-2:] == ["nothing_readable", "level"]


def test_an_index_that_could_not_be_loaded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(document(1, "超时", near=0.8))

    def fail(*_: Any) -> Any:
        raise RuntimeError("no such table")

    monkeypatch.setattr(world, "entries_since", fail)
    found, _ = explained(world)
    assert codes(found.reasons)[:2] == ["index_outdated", "no_match"]


# ---- Collisions ------------------------------------------------------------------------------------------------------
def test_a_shared_keyword_is_named_with_its_documents_and_the_fix() -> None:
    found, _ = explained(World(document(1, "网关", "超时"), document(2, "超时")))
    owners = {one.keyword: [document.document_id for document in one.documents] for one in found.keywords}
    assert owners == {"超时": [1, 2], "网关": [1]}
    assert [one.shared for one in found.keywords] == [True, False]
    fix = value(found.changes, "one_owner")
    assert (fix["keywords"], fix["title"]) == (("超时",), "文1")


def test_that_fix_is_true() -> None:
    explained(World(document(1, "网关", "超时"), document(2, "超时")))
    found, _ = explained(World(document(1, "网关", "超时"), document(2)))
    assert found.level == "PRECISE"


def test_no_fix_is_named_where_each_document_has_a_keyword_of_its_own() -> None:
    found, _ = explained(World(document(1, "网关"), document(2, "超时")))
    assert "one_owner" not in codes(found.changes)


def test_no_fix_is_named_that_the_check_would_refuse() -> None:
    query = "网关的日志应该如何定期清理并且备份到别的机器"
    found, _ = explained(World(document(1, "日志"), document(2, "日志")), query)
    assert "one_owner" not in codes(found.changes)


def test_spellings_that_read_the_same_are_one_keyword() -> None:
    found, _ = explained(World(document(1, "Time-Out"), document(2, "time-out")), "time-out")
    assert [len(one.documents) for one in found.keywords] == [2]


# ---- Rules that ask for more than similarity ------------------------------------------------------------------------
def demanding(*documents: Document) -> World:
    return World(*documents, embedder=Demanding(), lexical=True)


def test_agreement_and_its_lower_bound_make_it_highly_relevant() -> None:
    both = document(1, near=0.6, body="# 文1\n\n正文 gateway retries\n")
    found, _ = explained(demanding(both, document(2, near=0.1)), "gateway retries")
    assert found.level == "HIGHLY_RELEVANT"
    assert codes(found.reasons) == [
        "no_match",
        "meaning_and_words_asked",
        "similar_enough",
        "high_by_agreement",
        "level",
    ]
    assert found.has_lexical is True


def test_without_agreement_however_near_it_is_reference() -> None:
    near, worded = document(1, near=0.9), document(2, near=0.2, body="# 文2\n\n正文 gateway retries\n")
    found, _ = explained(demanding(near, worded), "gateway retries")
    assert found.level == "REFERENCE"
    assert value(found.reasons, "not_agreed") == {"dense": 1, "lexical": 0}
    assert "not by words" in sentence(next(one for one in found.reasons if one.code == "not_agreed"))
    needs = next(one for one in found.changes if one.code == "high_needs")
    assert sentence(needs) == (
        "It would be Highly relevant with the first place in both lists (now 1 by meaning, not by words)."
    )


def test_everything_that_is_missing_is_named_at_once() -> None:
    near, worded = document(1, near=0.52), document(2, near=0.2, body="# 文2\n\n正文 gateway retries\n")
    found, _ = explained(demanding(near, worded), "gateway retries")
    assert codes(found.reasons)[-3:] == ["not_high_by_similarity", "not_agreed", "level"]
    assert "0.03 more similarity and the first place" in sentence(found.changes[-1])


def test_support_that_is_asked_for_is_named_where_it_is_there_and_where_not() -> None:
    first, second = document(1, near=0.6, body="# 文1\n\n正文 gateway retries\n"), document(2, near=0.1)
    for needed, level, code in ((0.9, "HIGHLY_RELEVANT", "high_by_support"), (2.0, "REFERENCE", "not_supported")):
        world = demanding(first, second)
        world.embedder.fit = dataclasses.replace(Demanding.fit, min_support=needed)
        found, _ = explained(world, "gateway retries")
        assert found.level == level
        assert code in codes(found.reasons)
        assert {one.name: one.support for one in found.thresholds}["agreement"] == needed
        assert ("high_needs" in codes(found.changes)) == (level == "REFERENCE")


def test_a_text_that_covers_the_query_is_found_with_less_similarity() -> None:
    found, _ = explained(demanding(document(1, near=0.35, body="# 文1\n\n正文 gateway retries\n")), "gateway retries")
    assert found.level == "REFERENCE"
    assert value(found.reasons, "covered_enough")["share"] == 100
    assert value(found.reasons, "covered_enough")["bound"] == 0.19
    assert value(found.changes, "high_needs")["short"] == pytest.approx(0.2)


def test_a_text_that_covers_too_little_is_told_how_much_it_would_take() -> None:
    world = demanding(
        document(1, near=0.35, body="# 文1\n\n正文 gateway\n"),
        document(2, near=0.1, body="# 文2\n\n正文 retries certificates\n"),
    )
    found, _ = explained(world, "gateway retries certificates")
    assert found.level is None
    needed = value(found.changes, "coverage_needed")
    assert needed["share"] < needed["needed"] == 60


# ---- Memory, sections, budget ----------------------------------------------------------------------------------------
def test_what_was_given_before_is_the_reason_and_forgetting_the_change() -> None:
    world = World(document(1, "网关超时"))
    world.look_up(Q, session="s")
    found, _ = explained(world, session="s")
    assert found.level == "DEDUPED"
    assert codes(found.reasons)[-2:] == ["doc_retrieved", "level"]
    assert codes(found.changes) == ["forget"]


def test_a_leftover_is_labelled_by_its_own() -> None:
    world = World(document(1, "超时", near=0.9), document(2, "超时"), document(3, near=0.6))
    world.look_up(Q, session="s")
    found, _ = explained(world, session="s")
    assert value(found.reasons, "best_given_before")["title"] == "文1"


def test_a_domain_given_before_is_a_reason() -> None:
    world = World(document(1, near=0.9), document(2, near=0.8))
    settings = RetrievalSettings(domain_limit="hard")
    world.look_up(Q, session="s", settings=settings)
    found, _ = explained(world, session="s", settings=settings)
    assert "domain_retrieved" in codes(found.reasons)


def test_a_budget_that_is_used_up_is_the_only_reason() -> None:
    world = World(document(1, "网关超时"))
    world.look_up(Q, session="s", budget=1)
    found, _ = explained(world, session="s", budget=1)
    assert codes(found.reasons) == ["budget_exhausted"]
    assert found.hits == ()


def test_an_unknown_section_is_said_with_the_level_without_it() -> None:
    found, _ = explained(World(document(1, near=0.8)), section_title="没有这节")
    assert found.level == "HIGHLY_RELEVANT"
    assert value(found.reasons, "unknown_section") == {"section": "没有这节"}
    assert "high_by_similarity" in codes(found.reasons)


def test_a_section_of_the_second_hit_is_said_to_be_of_the_second() -> None:
    second = document(2, near=0.7, body="# 文2\n\n正文2\n\n## 回滚\n\n步骤\n")
    found, _ = explained(World(document(1, near=0.9), second), section_title="回滚")
    assert value(found.reasons, "best_without_section")["title"] == "文1"


def test_what_the_search_by_meaning_does_not_hold_is_carried_by_its_keyword() -> None:
    world = World(*(document(number, near=0.4 + number / 100) for number in (3, 4, 5)))
    world.put(document(1, "超时"), index_vectors=False)
    world.put(document(2, "超时"), index_vectors=False)
    found, _ = explained(world)
    assert codes(found.reasons)[-3:] == ["match_not_near", "keyword_suffices", "level"]


# ---- Hits, thresholds, picture ---------------------------------------------------------------------------------------
def test_hits_have_their_ranks_scores_and_roles() -> None:
    world = demanding(
        document(1, "gateway", near=0.2, body="# 文1\n\n正文 gateway retries\n"),
        document(2, "retries", near=0.6),
    )
    found, outcome = explained(world, "gateway retries")
    first, second = found.hits
    assert (first.document.document_id, first.role, first.keywords) == (1, "primary", ("gateway",))
    assert first.candidate is not None
    assert second.candidate is not None
    assert (first.candidate.dense_rank, first.candidate.lexical_rank) == (2, 1)
    assert (second.candidate.dense_rank, second.candidate.lexical_rank) == (1, None)
    assert second.candidate.distance == pytest.approx(2 - 2 * 0.6)
    assert second.candidate.similarity == pytest.approx(0.6)
    assert {one.document_id for one in outcome.served} == {hit.document.document_id for hit in found.hits if hit.role}


def test_beyond_the_first_three_nothing_is_known_but_the_place() -> None:
    found, _ = explained(World(*(document(number, near=number / 10) for number in range(1, 9))))
    known = [hit.candidate.similarity is not None for hit in found.hits if hit.candidate is not None]
    assert known == [True, True, True, False, False, False]
    assert found.ranked == 8


@pytest.mark.parametrize(
    ("set_here", "calibrated", "expected"),
    [
        ({}, False, {"highly_relevant": (0.75, "embedder"), "reference": (0.5, "embedder")}),
        ({}, True, {"highly_relevant": (0.75, "calibration"), "reference": (0.5, "calibration")}),
        (
            {"reference_threshold": 0.0},
            True,
            {"highly_relevant": (0.75, "calibration"), "reference": (0.0, "environment")},
        ),
        (
            {"highly_relevant_threshold": 0.9, "reference_threshold": 0.2},
            False,
            {"highly_relevant": (0.9, "environment"), "reference": (0.2, "environment")},
        ),
    ],
)
def test_each_threshold_says_where_it_comes_from(
    set_here: dict[str, float], calibrated: bool, expected: dict[str, tuple[float, str]]
) -> None:
    world = World(document(1, near=0.6))
    found, _ = explained(world, settings=RetrievalSettings(**set_here), calibrated=calibrated)  # type: ignore[arg-type]
    assert {one.name: (one.value, one.origin) for one in found.thresholds} == expected


def test_a_rule_that_asks_for_agreement_shows_that_bound_and_the_fit_its_date() -> None:
    found, _ = explained(demanding(document(1, near=0.6)), "gateway retries")
    assert {one.name: (one.value, one.agreed, one.coverage) for one in found.thresholds} == {
        "agreement": (0.55, True, None),
        "reference": (0.5, False, None),
        "covered_reference": (0.3, False, 0.6),
        "nearly_all": (0.19, False, 0.6),
    }
    assert (found.fitted_on, found.fitted_at) == ("tests", "2026-11-30")


def test_without_a_list_of_words_the_plain_bound_decides() -> None:
    world = World(document(1, near=0.8), embedder=Demanding())
    world.store.has_lexical = False
    found, _ = explained(world)
    assert "meaning_asked" in codes(found.reasons)
    assert "highly_relevant" in {one.name for one in found.thresholds}
    assert found.level == "HIGHLY_RELEVANT"


def test_the_scale_has_each_known_similarity_in_its_zone() -> None:
    found, _ = explained(World(document(1, near=0.81), document(2, near=0.68), document(3, near=0.46)))
    scale = scale_of(found.hits, found.thresholds)
    assert [(dot.label, dot.tone) for dot in scale.dots] == [("0.81", "blue"), ("0.68", "ochre"), ("0.46", "none")]
    assert [(zone.name, zone.x, zone.width) for zone in scale.zones] == [
        ("miss", "0.0%", "50.0%"),
        ("reference", "50.0%", "25.0%"),
        ("high", "75.0%", "25.0%"),
    ]
    assert [cut.label for cut in scale.cuts] == ["0.50", "0.75"]


def test_labels_of_near_bounds_stand_apart_and_a_conditional_zone_is_marked() -> None:
    found, _ = explained(demanding(document(1, near=0.6)), "gateway retries")
    scale = scale_of(found.hits, found.thresholds)
    assert [(zone.name, zone.soft) for zone in scale.zones] == [
        ("miss", False),
        ("covered", True),
        ("reference", False),
        ("high", True),
    ]
    assert [cut.side for cut in scale.cuts] == ["e", "s", "e", "s"]
    close = [dataclasses.replace(one, value=0.3 + place / 20) for place, one in enumerate(found.thresholds[:3])]
    assert [(cut.side, cut.low) for cut in scale_of(found.hits, close).cuts] == [("e", False), ("", True), ("s", False)]
    assert scale_of(found.hits, close).tall


def test_where_agreement_takes_no_more_similarity_the_upper_levels_share_their_zone() -> None:
    world = demanding(document(1, near=0.6))
    world.embedder.fit = dataclasses.replace(Demanding.fit, agreement=0.3)
    found, _ = explained(world, "gateway retries")
    zones = scale_of(found.hits, found.thresholds).zones
    assert [(zone.name, zone.x, zone.soft) for zone in zones] == [
        ("miss", "0.0%", False),
        ("covered", "19.0%", True),
        ("high", "50.0%", True),
    ]


def test_thresholds_of_nought_and_one_leave_no_empty_zone() -> None:
    settings = RetrievalSettings(highly_relevant_threshold=1.0, reference_threshold=0.0)
    found, _ = explained(World(document(1, near=0.6)), settings=settings)
    scale = scale_of(found.hits, found.thresholds)
    assert [zone.name for zone in scale.zones] == ["reference"]


def test_an_outcome_without_a_trace_is_explained_by_what_it_has() -> None:
    world = World(document(1, near=0.8))
    outcome = dataclasses.replace(world.look_up(Q), trace=None)
    found = explain(Q, outcome, settings=RetrievalSettings(), fit=world.embedder.fit)
    assert codes(found.reasons)[-1] == "level"
