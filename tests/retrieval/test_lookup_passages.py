"""The text that is served: how much of a document, and what counts as shown whole (DOC-10, DOC-11)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.chunking import chunk_body, split_sections
from retrieval.interfaces import ChunkText
from retrieval.lookup_types import RetrievalSettings
from retrieval.passages import Passage, around_chunk, from_chunks, opening, section_text
from tests.retrieval.fakes import Document, World

LIMIT = 2000


def chunk_rows(body: str) -> list[ChunkText]:
    return [
        ChunkText(1, 1, chunk.number, chunk.section, chunk.heading_path, chunk.start, chunk.end, chunk.text)
        for chunk in chunk_body(body)
    ]


def opened(body: str, limit: int = LIMIT) -> Passage:
    return opening(body, split_sections(body), limit)


@pytest.mark.parametrize("length", [0, 1, 1999, 2000])
def test_a_body_up_to_the_limit_is_given_as_it_is(length: int) -> None:
    body = "字" * length
    passage = opened(body)
    assert passage.content == body
    assert passage.available_sections is None
    assert passage.whole_document


def test_a_longer_body_is_its_first_characters_and_three_dots() -> None:
    body = "字" * 2001
    assert opened(body).content == "字" * 2000 + "..."
    assert not opened(body).whole_document


def test_a_cut_body_names_its_sections_and_a_whole_one_does_not() -> None:
    body = "开头\n\n# 甲\n\n" + "一" * 1990 + "\n\n# 乙\n\n二\n\n# 乙\n\n三\n"
    assert opened(body).available_sections == ("甲", "乙", "乙 (2)")
    assert opened(body, len(body)).available_sections is None


def test_a_file_of_thousands_of_headings_names_the_first_of_them() -> None:
    body = "\n\n".join(f"# 节 {number}\n\n正文" for number in range(3000))
    assert opened(body).available_sections == tuple(f"节 {number}" for number in range(200))


def test_a_section_counts_as_shown_only_when_all_of_its_text_is() -> None:
    body = "# 甲\n\n" + "一" * 100 + "\n\n# 乙\n\n" + "二" * 100 + "\n"
    border = body.index("# 乙")
    assert opened(body, border).shown_whole == ("甲",)
    assert opened(body, border - 2).shown_whole == ("甲",), "blank lines at the end are no text"
    assert opened(body, border - 3).shown_whole == ()
    assert opened(body, len(body)).shown_whole == ("甲", "乙")


def test_blank_lines_before_the_first_heading_are_no_section() -> None:
    assert opened("\n\n# 甲\n\n一\n").all_sections == ("甲",)


def test_a_section_is_given_with_its_subsections() -> None:
    body = "# 手册\n\n## 安装\n\n步骤\n\n### Linux\n\napt\n\n## 升级\n\n二\n"
    sections = split_sections(body)
    install = next(section for section in sections if section.key == "安装")
    passage = section_text(body, sections, install, LIMIT)
    assert passage.content == "## 安装\n\n步骤\n\n### Linux\n\napt"
    assert passage.shown_whole == ("安装", "Linux")
    assert passage.available_sections == ("手册", "安装", "Linux", "升级")


def test_a_long_section_is_cut_and_does_not_count_as_shown() -> None:
    body = "# 手册\n\n## 长\n\n" + "字" * 3000 + "\n"
    sections = split_sections(body)
    passage = section_text(body, sections, sections[1], LIMIT)
    assert passage.content.endswith("...")
    assert len(passage.content) == LIMIT + 3
    assert passage.shown_whole == ()


def test_a_semantic_hit_is_the_section_of_its_chunk() -> None:
    body = "# 手册\n\n## 甲\n\n一\n\n## 乙\n\n二\n"
    chunk = next(row for row in chunk_rows(body) if row.section == "乙")
    passage = around_chunk(body, split_sections(body), chunk, LIMIT)
    assert passage.content == "## 乙\n\n二"
    assert passage.section == "乙"
    assert passage.shown_whole == ("乙",)
    assert not passage.whole_document


LONG_BODY = "# 手册\n\n## 长\n\n" + "\n\n".join(f"第 {number} 段，" + "字" * 300 for number in range(30)) + "\n"


@pytest.mark.parametrize("row", chunk_rows(LONG_BODY), ids=lambda row: f"chunk {row.number}")
def test_of_a_long_section_a_window_that_holds_the_chunk_is_given(row: ChunkText) -> None:
    passage = around_chunk(LONG_BODY, split_sections(LONG_BODY), row, LIMIT)
    assert row.text in passage.content
    assert len(passage.content) <= LIMIT
    assert passage.content.strip(".") in LONG_BODY
    if row.section == "长":
        assert len(passage.content) > LIMIT - 20, "the room is used"
        assert passage.shown_whole == ()
        assert passage.content.startswith("...") or passage.content.startswith("## 长")


@pytest.mark.parametrize("row", chunk_rows(LONG_BODY), ids=lambda row: f"chunk {row.number}")
def test_the_stored_chunks_of_an_older_revision_give_the_same_text(row: ChunkText) -> None:
    stored = from_chunks(chunk_rows(LONG_BODY), row, LIMIT)
    assert row.text in stored.content
    assert len(stored.content) <= LIMIT
    assert stored.content.strip(".") in LONG_BODY
    assert stored.section == row.section


def test_a_whole_older_revision_in_one_chunk_counts_as_the_whole_document() -> None:
    rows = chunk_rows("# 甲\n\n一\n")
    passage = from_chunks(rows, rows[0], LIMIT)
    assert passage.content == "# 甲\n\n一"
    assert passage.whole_document
    assert passage.shown_whole == ("甲",)


@given(st.text(alphabet="# 甲a\n`-|", max_size=400), st.integers(min_value=1, max_value=60))
def test_whatever_a_body_looks_like_a_window_holds_its_chunk_or_begins_with_it(body: str, limit: int) -> None:
    for row in chunk_rows(body):
        passage = around_chunk(body, split_sections(body), row, limit)
        assert passage.content
        if len(row.text) <= limit - 6:
            assert row.text in passage.content
        assert len(passage.content) <= max(limit, 7)


# ---- On the whole lookup ---------------------------------------------------------------------------------------------


def test_a_long_document_is_served_cut_with_its_sections_listed() -> None:
    body = "# 手册\n\n" + "字" * 2500 + "\n\n## 附录\n\n末尾\n"
    world = World(Document(1, "knowledge_base/api/m.md", "手册", body, keywords=("手册",)))
    world.settings = RetrievalSettings(primary_content="head")
    primary: Any = world.look_up("手册").result.as_dict()["primary"]
    assert primary["content"] == body[:2000] + "..."
    assert primary["availableSections"] == ["手册", "附录"]


def test_a_section_asked_for_by_title_is_served_from_the_primary_document() -> None:
    body = "# 手册\n\n" + "字" * 2500 + "\n\n## 2.1 附录 A\n\n末尾\n"
    world = World(Document(1, "knowledge_base/api/m.md", "手册", body, keywords=("手册",)))
    outcome = world.look_up("手册", section_title="  附录 a ")
    primary: Any = outcome.result.as_dict()["primary"]
    assert primary["content"] == "## 2.1 附录 A\n\n末尾"
    assert primary["confidence"] == "high"
    assert primary["availableSections"] == ["手册", "2.1 附录 A"]
    assert outcome.result.relevance_level == "PRECISE"
    assert outcome.served[0].section == "2.1 附录 A"


def test_a_section_is_taken_from_the_supplement_where_nothing_matches_exactly() -> None:
    body = "# 手册\n\n## 甲\n\n要点\n\n## 乙\n\n细节\n"
    world = World(Document(1, "knowledge_base/api/m.md", "手册", body, near={"要点": 0.8}))
    seen: Any = world.look_up("怎么办", section_title="乙").result.as_dict()
    assert seen["primary"] is None
    assert seen["supplement"] == {
        "content": "## 乙\n\n细节",
        "source": "knowledge_base/api/m.md",
        "matchType": "semantic_L1",
    }
    assert seen["relevanceLevel"] == "HIGHLY_RELEVANT"


def test_a_section_that_the_first_match_lacks_is_found_in_the_next() -> None:
    first = Document(1, "knowledge_base/api/a.md", "甲", "# 甲\n\n一\n", keywords=("ERR_1",))
    second = Document(2, "knowledge_base/api/b.md", "乙", "# 乙\n\n## 处理\n\n二\n", keywords=("ERR_1",))
    seen: Any = World(first, second).look_up("ERR_1", section_title="处理").result.as_dict()
    assert seen["primary"]["source"] == second.path
    assert seen["primary"]["content"] == "## 处理\n\n二"
    assert seen["primary"]["confidence"] == "low"


def test_a_document_without_sections_says_so() -> None:
    world = World(Document(1, "knowledge_base/api/a.md", "甲", "只有一段。\n", keywords=("ERR_1",)))
    message = world.look_up("ERR_1", section_title="处理").result.message
    assert message == "《甲》没有分章节；请不带 section_title 查询，直接阅读正文。"


def test_a_blank_section_title_is_none() -> None:
    world = World(Document(1, "knowledge_base/api/a.md", "甲", "# 甲\n\n一\n", keywords=("ERR_1",)))
    assert world.look_up("ERR_1", section_title="  ").result.primary is not None


def test_a_section_title_that_nothing_was_found_for_is_a_miss() -> None:
    assert World().look_up("没有", section_title="处理").case == "miss"


def test_an_empty_document_is_served_as_the_empty_text_that_it_is() -> None:
    world = World(Document(1, "knowledge_base/api/a.md", "甲", "", keywords=("ERR_1",)))
    outcome = world.look_up("ERR_1", session="s")
    assert outcome.result.primary is not None
    assert outcome.result.primary.content == ""
    assert world.look_up("ERR_1", session="s").dedup_reason == "doc_retrieved"
