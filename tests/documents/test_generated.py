"""What a model proposed beside what an author wrote: the merge, what is wanted, and how a header settles drafts."""

from __future__ import annotations

from typing import Any

import pytest

from documents.generated import (
    drafts_in,
    header_field,
    in_use,
    lacking_fields,
    settle,
    wanted_fields,
    with_drafts,
)


def entry(value: Any, state: str = "draft", **more: Any) -> dict[str, Any]:
    return {"value": value, "state": state, "model": "m", "made_at": "2026-01-01T00:00:00+00:00", **more}


MODEL = {"covers": entry(["by the model"]), "when_to_retrieve": entry("As the model says.")}


def test_the_models_words_are_used_where_the_author_is_silent() -> None:
    assert in_use(None, MODEL) == (["by the model"], "As the model says.")
    assert in_use({}, {}) == ([], "")


def test_the_authors_words_win_field_by_field() -> None:
    assert in_use({"Covers": "mine; ours"}, MODEL) == (["mine", "ours"], "As the model says.")
    assert in_use({"when_to_retrieve": "Mine."}, MODEL) == (["by the model"], "Mine.")


@pytest.mark.parametrize("state", ["accepted", "edited", "rejected", "strange"])
def test_only_a_draft_is_used(state: str) -> None:
    assert in_use(None, {"covers": entry(["x"], state), "when_to_retrieve": entry("x", state)}) == ([], "")


@pytest.mark.parametrize("broken", [{"covers": "text"}, {"covers": None}, {"covers": entry("no list")}, {"covers": []}])
def test_an_entry_that_is_none_of_ours_is_no_draft_and_breaks_nothing(broken: Any) -> None:
    assert in_use(None, broken) == ([], "")
    assert "covers" not in settle({"covers": "text"}, {"covers": "x"})


def test_what_is_empty_and_undecided_is_wanted() -> None:
    generated = {"title": entry("t"), "summary": entry("s", "rejected"), "keywords": entry(["k"], "accepted")}
    assert wanted_fields(None, {}) == ["title", "summary", "keywords", "covers", "when_to_retrieve"]
    assert wanted_fields({"covers": ["mine"], "summary": " "}, generated) == ["title", "when_to_retrieve"]


def test_an_empty_field_of_the_header_counts_as_none() -> None:
    assert "summary" in wanted_fields({"summary": None}, {})
    assert "covers" in wanted_fields({"covers": []}, {})


def test_a_draft_is_not_lacking_until_another_is_asked_for() -> None:
    generated = {"title": entry("t"), "summary": entry("s", renew=True)}
    assert lacking_fields(None, generated) == ["summary", "keywords", "covers", "when_to_retrieve"]


def test_tags_that_are_keywords_leave_no_keywords_wanted(settings: Any) -> None:
    assert "keywords" in wanted_fields({"tags": ["a1"]}, {})
    settings.KEYWORD_FIELDS = ["tags"]
    assert "keywords" not in wanted_fields({"tags": ["a1"]}, {})
    assert (header_field("keywords"), header_field("title")) == ("tags", "title")


@pytest.mark.parametrize("state", ["draft", "rejected"])
def test_a_header_that_says_the_same_accepts(state: str) -> None:
    generated = {"keywords": entry(["ERR_1", "Bank"], state), "title": entry("A  title", state)}
    settled = settle(generated, {"keywords": "bank, err_1", "title": "A title"})
    assert [settled[field]["state"] for field in ("keywords", "title")] == ["accepted", "accepted"]
    assert settled["keywords"]["value"] == ["ERR_1", "Bank"]


def test_a_header_that_says_something_else_edits() -> None:
    settled = settle({"title": entry("Model"), "covers": entry(["a"])}, {"title": "Person", "covers": ["a", "b"]})
    assert (settled["title"]["state"], settled["covers"]["state"]) == ("edited", "edited")
    assert settled["title"]["value"] == "Model"


def test_a_later_edit_of_an_accepted_text_is_an_edit() -> None:
    assert settle({"title": entry("Model", "accepted")}, {"title": "Person"})["title"]["state"] == "edited"


@pytest.mark.parametrize("state", ["accepted", "edited"])
def test_a_text_that_left_the_header_is_a_draft_again(state: str) -> None:
    assert settle({"title": entry("Model", state)}, None)["title"]["state"] == "draft"


def test_what_a_person_rejected_stays_rejected_while_the_field_is_empty() -> None:
    assert settle({"title": entry("Model", "rejected")}, {})["title"]["state"] == "rejected"


def test_a_malformed_header_decides_nothing() -> None:
    generated = {"title": entry("Model", "accepted"), "summary": entry("s")}
    assert settle(generated, None, malformed=True) == generated


def test_a_settled_field_needs_no_other_text() -> None:
    assert "renew" not in settle({"title": entry("Model", renew=True)}, {"title": "x"})["title"]


def test_settling_leaves_what_it_was_given() -> None:
    generated = {"title": entry("Model")}
    settle(generated, {"title": "x"})
    assert generated["title"]["state"] == "draft"


def test_drafts_are_written_only_where_that_is_allowed() -> None:
    before = {"title": entry("old", "accepted"), "summary": entry("old", renew=True)}
    after = with_drafts(before, {"title": "new", "summary": "new"}, ["summary"], model="m2", made_at="now")
    assert after["title"] == before["title"]
    assert after["summary"] == {"value": "new", "state": "draft", "model": "m2", "made_at": "now"}
    assert drafts_in(after) == ["summary"]
