"""Citations: what an answer may cite, and the excerpt that a citation shows."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.citations import Passage, clean_citations, escape_citations, sentences_citing, without_citations
from agents.excerpts import focus, split_blocks
from agents.markdown import render_markdown

DOCUMENT = """# Payment gateway errors

General remarks about the gateway, its owners and where the logs are.

## ERR_TIMEOUT

The channel did not answer within 8 seconds. Query the order, never refund at once.

- query after 5 s
- query after 15 s

## ERR_SIGNATURE

The signature of the callback was wrong: compare the key and the character set.
"""


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("It fails [1].", "It fails [1]."),
        ("It fails [1][2].", "It fails [1][2]."),
        ("It fails [1, 2].", "It fails [1][2]."),
        ("It fails [1-2].", "It fails [1][2]."),
        ("It fails [Source 2].", "It fails [2]."),
        ("失败【1】。", "失败[1]。"),
        ("失败[来源 2]。", "失败[2]。"),
        ("It fails [^1].", "It fails [1]."),
        ("It fails [3].", "It fails."),
        ("It fails [1][3].", "It fails [1]."),
        ("It fails [1, 9].", "It fails [1]."),
        ("失败 [7]，重试 [1]。", "失败，重试 [1]。"),
        ("Take `row[3]` and [2].", "Take `row[3]` and [2]."),
        ("```\nrow[3]\n```\n", "```\nrow[3]\n```\n"),
        ("Published in [2024].", "Published in [2024]."),
        ("[3](https://ok.example)", "[3](https://ok.example)"),
    ],
)
def test_made_up_numbers_go_and_real_ones_are_written_alike(written: str, kept: str) -> None:
    assert clean_citations(written, {1, 2})[0] == kept


def test_used_numbers_come_in_the_order_of_first_use() -> None:
    assert clean_citations("a [2] b [1] c [2] d [4]", {1, 2, 3})[1] == [2, 1]


@given(st.text(alphabet="ab [](){}12349,-`\n【】^", max_size=60))
def test_no_unknown_number_is_ever_linked(text: str) -> None:
    cleaned, used = clean_citations(text, {1, 2})
    assert set(used) <= {1, 2}
    html = render_markdown(cleaned, citations={number: f"/s/{number}/" for number in used})
    assert not [number for number in range(3, 100) if f'data-cite="{number}"' in html]


def test_an_earlier_answer_is_shown_to_a_model_without_its_numbers() -> None:
    assert without_citations("Query first [1], then refund [2].") == "Query first, then refund."


def test_a_documents_own_number_is_not_a_citation_of_ours() -> None:
    html = render_markdown(escape_citations("as the vendor says [1], see `x[1]`"), citations={1: "/s/"})
    assert "k-cite" not in html
    assert "says [1], see <code>x[1]</code>" in html


def test_a_citation_has_the_part_of_its_passage_that_is_near() -> None:
    passage = Passage(1, "knowledge_base/api/errors.md", "Errors", "", DOCUMENT, "PRECISE")
    citation = passage.citation("what is wrong with the signature of a callback")
    assert "compare the key" in citation["excerpt"]
    assert "8 seconds" not in citation["excerpt"]
    assert citation["excerpt"] in DOCUMENT


def test_the_lines_that_cite_a_source_choose_its_excerpt() -> None:
    assert sentences_citing("one [1]\ntwo [2]\nthree [1][2]", 1) == "one [1]\nthree [1][2]"


@pytest.mark.parametrize("near", ["ERR_TIMEOUT", "err_timeout 怎么处理", "8 seconds"])
def test_focus_finds_the_block_in_question(near: str) -> None:
    found = focus(DOCUMENT, near, limit=200)
    assert "The channel did not answer" in found
    assert "callback" not in found


@given(st.text(alphabet="ab\n#-` 。付", max_size=300), st.text(alphabet="ab付", max_size=10), st.integers(1, 80))
@example("。 b", "b", 1)
def test_focus_is_always_a_piece_of_the_text_within_its_limit(text: str, near: str, limit: int) -> None:
    found = focus(text, near, limit=limit)
    assert found in text
    assert len(found) <= limit
    assert bool(found) == bool(text.strip())


@given(st.text(alphabet="ab\n#-` 。付", max_size=300))
def test_blocks_hold_every_letter_of_the_text(text: str) -> None:
    kept = "".join(text[block.start : block.end] for block in split_blocks(text))
    assert "".join(kept.split()) == "".join(text.split())


def test_a_quotation_names_the_section_that_it_stands_in() -> None:
    body = "# 积压\n\n## 先判断快慢\n\n看速率。\n\n## 追平积压\n\n消费者加到与分区数相同。\n"
    passage = Passage(1, "knowledge_base/a.md", "积压", "先判断快慢", body, "REFERENCE")
    cited = passage.citation("消费者加到多少")
    assert "消费者加到" in cited["excerpt"]
    assert cited["section"] == "追平积压"
    assert passage.citation("看速率")["section"] == "先判断快慢"
