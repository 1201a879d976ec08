"""The action memory on the whole lookup (SPEC section 8)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.action_memory import MemoryScope, RetrievedDocTracker
from retrieval.lookup_types import LookupOutcome, RetrievalSettings
from tests.retrieval.fakes import Document, World

HARD = RetrievalSettings(domain_limit="hard")


def code(document_id: int, *, keyword: str = "ERR_1", domain: str = "api", body: str | None = None) -> Document:
    path = f"knowledge_base/{domain}/code-{document_id}.md"
    text = body if body is not None else f"# 说明 {document_id}\n\n正文 {document_id}。\n"
    return Document(document_id, path, f"文档 {document_id}", text, domain, keywords=(keyword,))


def long_document(document_id: int = 1, *, keyword: str = "大手册", near: float = 0.8, sections: int = 6) -> Document:
    """A document of several sections of 900 characters each, the first of which lie within the first 2,000."""
    parts = [f"## 第{name}节\n\n{name}" + "字" * 900 for name in "甲乙丙丁戊己"[:sections]]
    body = "# 大手册\n\n总述。\n\n" + "\n\n".join(parts) + "\n"
    marks = {f"{name}字": near - 0.01 * place for place, name in enumerate("甲乙丙丁戊己"[:sections])}
    return Document(document_id, "knowledge_base/api/long.md", "大手册", body, "api", (keyword,), marks)


def sources(outcome: LookupOutcome) -> list[str]:
    return [document.file_path for document in outcome.served]


# ---- AM-2 ------------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(callers=st.integers(min_value=2, max_value=12))
def test_exactly_one_of_parallel_lookups_in_one_session_is_served(callers: int) -> None:
    world = World(code(1))
    # Every caller has read what the session holds (nothing), and the text, before any of them claims it.
    everybody_is_here = Barrier(callers, timeout=30)
    read = world.body

    def read_together(document_id: int, revision: int) -> str | None:
        everybody_is_here.wait()
        return read(document_id, revision)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(callers) as pool:
        patch.setattr(world, "body", read_together)
        outcomes = list(pool.map(lambda _: world.look_up("ERR_1", session="s"), range(callers)))
    assert [outcome.case for outcome in outcomes].count("served") == 1
    assert {outcome.dedup_reason for outcome in outcomes if outcome.case != "served"} == {"doc_retrieved"}


def test_parallel_lookups_share_several_documents_out_each_of_them_once() -> None:
    world = World(*(code(number) for number in range(1, 5)))
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: world.look_up("ERR_1", session="s"), range(12)))
    given_out = [path for outcome in outcomes for path in sources(outcome)]
    assert len(given_out) == len(set(given_out))


def test_without_a_session_nothing_is_remembered() -> None:
    world = World(code(1))
    for _ in range(5):
        outcome = world.look_up("ERR_1")
        assert outcome.case == "served"
        assert outcome.result.retrieved_domains == ("api",)


def test_a_hit_whose_text_cannot_be_read_is_given_back_and_the_next_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(code(1), code(2))
    lost = world.bodies[1, 1]
    world.lose_text(1)
    outcome = world.look_up("ERR_1", session="s")
    assert sources(outcome) == ["knowledge_base/api/code-2.md"]
    assert outcome.degraded == "document_text"
    assert outcome.result.relevance_level == "REFERENCE"
    assert any(record.levelname == "ERROR" and "code-1.md" in record.message for record in caplog.records)
    world.bodies[1, 1] = lost
    assert sources(world.look_up("ERR_1", session="s")) == ["knowledge_base/api/code-1.md"]


def test_a_unique_match_without_a_text_gives_way_to_what_is_near_in_meaning() -> None:
    near = Document(2, "knowledge_base/api/near.md", "近", "# 近\n\n相近的内容\n", near={"相近": 0.6})
    world = World(code(1), near)
    world.lose_text(1)
    outcome = world.look_up("ERR_1", session="s")
    assert sources(outcome) == ["knowledge_base/api/near.md"]
    assert outcome.result.relevance_level == "REFERENCE"
    assert outcome.l0_match_count == 1


def test_nothing_readable_at_all_is_a_miss_that_says_so() -> None:
    world = World(code(1))
    world.lose_text(1)
    outcome = world.look_up("ERR_1", session="s")
    assert outcome.result.found is False
    assert outcome.result.message is not None
    assert "无法读取" in outcome.result.message
    assert outcome.degraded == "document_text"


def test_a_call_that_breaks_off_gives_its_claims_back(monkeypatch: pytest.MonkeyPatch) -> None:
    near = Document(3, "knowledge_base/api/near.md", "近", "# 近\n\n相近的内容\n", near={"相近": 0.6})
    world = World(code(1), code(2), near)
    read = world.body

    def break_on_the_second_document(document_id: int, revision: int) -> str | None:
        if document_id == 3:
            raise ConnectionError("the database went away")
        return read(document_id, revision)

    monkeypatch.setattr(world, "body", break_on_the_second_document)
    with pytest.raises(ConnectionError):
        world.look_up("ERR_1", session="s")
    monkeypatch.setattr(world, "body", read)
    assert sources(world.look_up("ERR_1", session="s"))[0] == "knowledge_base/api/code-1.md"


# ---- AM-3 ------------------------------------------------------------------------------------------------------------


def test_what_is_left_of_several_exact_matches_is_served_in_their_order() -> None:
    world = World(code(1), code(2), code(3))
    served = [sources(world.look_up("ERR_1", session="s")) for _ in range(3)]
    assert served == [[f"knowledge_base/api/code-{number}.md"] for number in (1, 2, 3)]


def test_filtering_never_makes_three_hits_a_unique_one() -> None:
    world = World(code(1), code(2))
    world.look_up("ERR_1", session="s")
    outcome = world.look_up("ERR_1", session="s")
    assert outcome.l0_match_count == 2
    assert outcome.result.relevance_level == "REFERENCE"
    assert outcome.result.primary is not None
    assert outcome.result.primary.confidence == "low"


def test_a_leftover_is_labelled_by_its_own_similarity() -> None:
    best = Document(1, "knowledge_base/api/best.md", "最好", "# 最好\n\n最好的内容\n", near={"最好": 0.9})
    second = Document(2, "knowledge_base/api/second.md", "其次", "# 其次\n\n其次的内容\n", near={"其次": 0.6})
    world = World(best, second)
    assert world.look_up("怎么办", session="s").result.relevance_level == "HIGHLY_RELEVANT"
    outcome = world.look_up("怎么办", session="s")
    assert sources(outcome) == ["knowledge_base/api/second.md"]
    assert outcome.result.relevance_level == "REFERENCE"
    assert outcome.l1_top_similarity == pytest.approx(0.9, abs=1e-5)


def test_a_section_given_by_meaning_is_not_given_by_meaning_again_and_the_next_best_is() -> None:
    world = World(long_document(keyword="无关词"))
    first = world.look_up("怎么办", session="s")
    assert first.served[0].section == "第甲节"
    second = world.look_up("怎么办", session="s")
    assert second.dedup_reason == "doc_retrieved", "one document has one best chunk, and that was given"


def test_an_opening_given_exactly_leaves_the_sections_that_it_did_not_show() -> None:
    document = long_document()
    shown = replace(document, near={"己字": 0.8})
    world = World(shown)
    world.look_up("大手册", session="s")
    outcome = world.look_up("怎么办", session="s")
    assert [(one.role, one.section) for one in outcome.served] == [("supplement", "第己节")]


def test_an_opening_given_exactly_covers_the_sections_that_it_showed_whole() -> None:
    world = World(replace(long_document(), near={"甲字": 0.8}))
    world.look_up("大手册", session="s")
    assert world.look_up("怎么办", session="s").dedup_reason == "doc_retrieved"


def test_a_document_read_section_by_section_is_not_given_exactly_again() -> None:
    body = "# 手册\n\n引言\n\n## 甲\n\n" + "甲" * 1200 + "\n\n## 乙\n\n" + "乙" * 1200 + "\n"
    world = World(Document(1, "knowledge_base/api/m.md", "手册", body, keywords=("手册",)))
    for title in ("甲", "乙"):
        assert world.look_up("手册", section_title=title, session="s").case == "served"
    outcome = world.look_up("手册", session="s")
    assert outcome.case == "served", "the introduction was not shown yet"
    assert world.look_up("手册", session="s").dedup_reason == "doc_retrieved"


def test_sections_given_by_meaning_make_up_the_whole_document_in_the_end() -> None:
    body = "# 甲\n\n甲的内容\n"
    world = World(Document(1, "knowledge_base/api/m.md", "手册", body, keywords=("手册",), near={"甲的": 0.8}))
    assert world.look_up("怎么办", session="s").case == "served"
    assert world.look_up("手册", session="s").dedup_reason == "doc_retrieved"


def test_an_older_text_is_not_served_after_the_whole_new_one() -> None:
    world = World(replace(code(1), near={"正文": 0.8}))
    world.put(code(1, body="# 说明\n\n新的正文。\n"), index_vectors=False)
    assert "新的正文" in world.look_up("ERR_1", session="s").result.as_dict()["primary"]["content"]
    assert world.look_up("怎么办", session="s").dedup_reason == "doc_retrieved"


# ---- AM-4 ------------------------------------------------------------------------------------------------------------


def leftovers() -> World:
    """A best document, and many worse ones that rewordings could harvest one by one."""
    best = Document(1, "knowledge_base/api/best.md", "最好", "# 最好\n\n最好的内容\n", near={"最好": 0.9})
    others = [
        Document(number, f"knowledge_base/api/{number}.md", f"其他 {number}", f"# 其他\n\n其他内容 {number}\n", "api",
                 ("甲", "乙", "丙", "丁", "戊")[number - 2 : number - 1], {"其他": 0.6})
        for number in range(2, 7)
    ]  # fmt: skip
    return World(best, *others)


def test_rewordings_that_lead_to_the_same_best_document_are_given_new_text_three_times_at_most() -> None:
    world = leftovers()
    outcomes = [world.look_up(f"换个说法 {number}", session="run") for number in range(20)]
    assert [outcome.case for outcome in outcomes].count("served") == 3
    assert [outcome.case for outcome in outcomes[:3]] == ["served"] * 3
    assert {outcome.dedup_reason for outcome in outcomes[3:]} == {"doc_retrieved"}


def test_exact_matches_are_not_harvested_without_end_either() -> None:
    world = World(*(code(number) for number in range(1, 20)))
    outcomes = [world.look_up("ERR_1", session="run") for _ in range(20)]
    assert [outcome.case for outcome in outcomes].count("served") == 3


def test_a_lookup_that_leads_elsewhere_is_served_after_the_harvest_ended() -> None:
    world = World(*(code(number) for number in range(1, 6)), code(9, keyword="ERR_9"))
    for _ in range(6):
        world.look_up("ERR_1", session="run")
    assert sources(world.look_up("ERR_9", session="run")) == ["knowledge_base/api/code-9.md"]


def test_lookups_by_section_do_not_count_as_rewordings() -> None:
    world = World(long_document())
    world.look_up("大手册", session="run")
    titles = ["第丙节", "第丁节", "第戊节", "第己节"]
    assert [world.look_up("大手册", section_title=title, session="run").case for title in titles] == ["served"] * 4


def test_the_message_names_the_sections_still_unread_and_how_to_get_them() -> None:
    world = World(long_document())
    world.look_up("大手册", session="run")
    message = world.look_up("大手册", session="run").result.message or ""
    assert "《大手册》（knowledge_base/api/long.md）" in message
    assert "section_title" in message
    assert "“第己节”" in message
    assert "“第甲节”" not in message


def test_a_section_that_was_shown_whole_is_deduped_and_the_others_are_not() -> None:
    world = World(long_document())
    world.look_up("大手册", session="run")
    assert world.look_up("大手册", section_title="第甲节", session="run").dedup_reason == "doc_retrieved"
    assert world.look_up("大手册", section_title="第己节", session="run").case == "served"
    assert world.look_up("大手册", section_title="第己节", session="run").dedup_reason == "doc_retrieved"


# ---- AM-5 ------------------------------------------------------------------------------------------------------------


def test_the_hard_limit_lets_an_exact_match_on_an_unseen_document_pass() -> None:
    world = World(code(1), code(2, keyword="ERR_2"))
    world.settings = HARD
    world.look_up("ERR_1", session="s")
    assert sources(world.look_up("ERR_2", session="s")) == ["knowledge_base/api/code-2.md"]


def test_the_hard_limit_lets_a_section_pass() -> None:
    world = World(long_document())
    world.settings = HARD
    world.look_up("大手册", session="s")
    assert world.look_up("大手册", section_title="第己节", session="s").case == "served"


def test_the_hard_limit_withholds_leftovers_of_a_document_already_seen() -> None:
    world = World(replace(long_document(), near={"己字": 0.8}))
    world.settings = HARD
    world.look_up("大手册", session="s")
    assert world.look_up("怎么办", session="s").dedup_reason == "domain_retrieved"


def test_the_hard_limit_serves_a_lookup_with_a_hit_in_another_domain() -> None:
    near = Document(2, "knowledge_base/payment/near.md", "近", "# 近\n\n相近的内容\n", "payment", near={"相近": 0.6})
    world = World(code(1), near)
    world.settings = HARD
    world.look_up("ERR_1", session="s")
    assert sources(world.look_up("怎么办", session="s")) == ["knowledge_base/payment/near.md"]


def test_under_the_hard_limit_the_same_document_again_is_still_called_that() -> None:
    world = World(code(1))
    world.settings = HARD
    world.look_up("ERR_1", session="s")
    assert world.look_up("ERR_1", session="s").dedup_reason == "doc_retrieved"


def test_the_hard_limit_withholds_nothing_where_nothing_is_remembered() -> None:
    world = World(replace(code(1), near={"正文": 0.8}))
    world.settings = HARD
    for _ in range(3):
        assert world.look_up("怎么办").case == "served"


# ---- AM-6, AM-7, AM-8 ------------------------------------------------------------------------------------------------


def test_an_edited_document_is_served_again() -> None:
    world = World(code(1))
    world.look_up("ERR_1", session="s")
    assert world.look_up("ERR_1", session="s").dedup_reason == "doc_retrieved"
    world.put(code(1, body="# 说明\n\n改过的正文。\n"))
    outcome = world.look_up("ERR_1", session="s")
    assert outcome.result.relevance_level == "PRECISE"
    assert outcome.result.primary is not None
    assert "改过的正文" in outcome.result.primary.content


def test_an_edited_document_is_served_again_after_many_rewordings_too() -> None:
    world = World(code(1), code(2), code(3), code(4), code(5))
    for _ in range(6):
        world.look_up("ERR_1", session="s")
    world.put(code(1, body="# 说明\n\n改过的正文。\n"))
    assert sources(world.look_up("ERR_1", session="s")) == ["knowledge_base/api/code-1.md"]


def test_two_principals_with_the_same_session_id_never_meet() -> None:
    world = World(code(1))
    assert world.look_up("ERR_1", session="s", principal="user:1").case == "served"
    assert world.look_up("ERR_1", session="s", principal="user:2").case == "served"
    assert world.look_up("ERR_1", session="s", principal="key:1").case == "served"
    assert world.look_up("ERR_1", session="s", principal="user:1").case == "deduped"


def test_a_new_run_is_given_everything_again() -> None:
    world = World(code(1))
    assert world.look_up("ERR_1", session="run-1").case == "served"
    assert world.look_up("ERR_1", session="run-2").case == "served"


def test_clearing_a_session_lets_it_be_given_everything_again() -> None:
    world = World(code(1))
    world.look_up("ERR_1", session="s")
    RetrievedDocTracker(world.memory).clear_session(MemoryScope("user:1", "s").key)
    assert world.look_up("ERR_1", session="s").case == "served"


def test_a_budget_is_kept_by_parallel_lookups_too() -> None:
    world = World(*(code(number, keyword=f"ERR_{number}") for number in range(1, 13)))
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda number: world.look_up(f"ERR_{number}", session="run", budget=6), range(1, 13)))
    assert [outcome.case for outcome in outcomes].count("served") == 6
    assert [outcome.dedup_reason for outcome in outcomes].count("budget_exhausted") == 6


def test_deduped_lookups_count_against_the_budget() -> None:
    world = World(code(1))
    reasons = [world.look_up("ERR_1", session="run", budget=3).dedup_reason for _ in range(5)]
    assert reasons == [None, "doc_retrieved", "doc_retrieved", "budget_exhausted", "budget_exhausted"]
