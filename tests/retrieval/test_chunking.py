"""Sections and chunks of a body (L1-1, DOC-11): where a text is cut, and that nothing of it is lost."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.chunking import TooManyChunks, chunk_body, find_section, first_heading, split_sections

SENTENCE = "支付网关返回超时的时候，请先检查网络，再检查下列各项配置。"


def _titles(body: str) -> list[str]:
    return [section.title for section in split_sections(body) if section.key]


def test_sections_know_their_place_in_the_text_and_in_the_tree() -> None:
    body = "intro\n\n# A\na\n\n## B\nb\n\n### C\nc\n\n## D\nd\n# E\n"
    sections = split_sections(body)
    assert [(section.key, section.level, section.heading_path) for section in sections] == [
        ("", 0, ()),
        ("A", 1, ("A",)),
        ("B", 2, ("A", "B")),
        ("C", 3, ("A", "B", "C")),
        ("D", 2, ("A", "D")),
        ("E", 1, ("E",)),
    ]
    own = [body[section.start : section.end] for section in sections]
    assert own == ["intro\n\n", "# A\na\n\n", "## B\nb\n\n", "### C\nc\n\n", "## D\nd\n", "# E\n"]
    trees = {section.key: body[section.start : section.tree_end] for section in sections}
    assert trees["A"] == "# A\na\n\n## B\nb\n\n### C\nc\n\n## D\nd\n"
    assert trees["B"] == "## B\nb\n\n### C\nc\n\n"
    assert trees[""] == "intro\n\n"


def test_a_repeated_title_gets_a_number_and_every_key_is_unique() -> None:
    keys = [section.key for section in split_sections("# A\n# A\n# A (2)\n# A\n")]
    assert keys == ["A", "A (2)", "A (2) (2)", "A (3)"]


@pytest.mark.parametrize(
    ("body", "titles"),
    [
        ("# One\n###### Six\n####### seven\n", ["One", "Six"]),
        ("#no space\n#\n# \n", []),
        ("   ## Indented by three\n    ## code\n", ["Indented by three"]),
        ("## Closed ##\n## C#\n# #tag #\n", ["Closed", "C#", "#tag"]),
        ("#\tTab\n", ["Tab"]),
        ("Title\n=====\ntext\n\nSub\n---\n", ["Title", "Sub"]),
        ("two lines\nof text\n---\n", []),
        ("- item\n---\n\n> quote\n---\n\n| a | b |\n---\n", []),
        ("text\n\n---\n\nmore\n", []),
        ("# A\n---\ntext\n", ["A"]),
        ("# **Bold** `code` [link](http://x) <a name='x'></a>{#anchor}\n", ["Bold code link"]),
        ("# snake_case_name and *stars*\n", ["snake_case_name and stars"]),
        ("# 全角　标题\n", ["全角 标题"]),
        ("---\ntitle: a: b\nkeywords: [x]\n---\n\n# Real\n", ["Real"]),
        ("---\n\nTitle\n---\n", ["Title"]),
    ],
)
def test_headings_are_what_markdown_says(body: str, titles: list[str]) -> None:
    assert _titles(body) == titles


@pytest.mark.parametrize(
    "body",
    [
        "```\n# comment\n```\n",
        "~~~bash\n# comment\n```\n# still\n~~~\n",
        "````\n```\n# comment\n```\n# still\n````\n",
        "```\n# comment\n``` not a closer\n# still\n```\n",
        "```\n# never closed\n",
        "  ```python\n# comment\nx\n---\n  ```\n",
    ],
)
def test_no_heading_is_seen_inside_fenced_code(body: str) -> None:
    assert _titles(f"# Before\n\n{body}") == ["Before"]


def test_headings_after_a_closed_fence_are_seen() -> None:
    assert _titles("```\n# x\n```\n# After\n\n`` ` ``\n\n# Again\n") == ["After", "Again"]


def test_a_very_long_heading_keeps_its_text_but_not_all_of_its_title() -> None:
    body = "# " + "x" * 5000 + "\ntext"
    assert len(split_sections(body)[0].key) == 300
    assert sum(len(chunk.text) for chunk in chunk_body(body)) >= 5000


def test_a_section_up_to_the_bound_is_one_chunk_and_one_beyond_it_is_cut() -> None:
    heading = "# T\n\n"
    fits = heading + "x" * (1800 - len(heading))
    assert [chunk.text for chunk in chunk_body(fits)] == [fits]
    assert len(chunk_body(fits + "x")) > 1


def test_no_chunk_crosses_a_heading_and_each_knows_its_section() -> None:
    body = "intro\n\n# A\n\ntext of a\n\n## B\n\ntext of b\n"
    chunks = chunk_body(body)
    assert [(chunk.number, chunk.section, chunk.heading_path, chunk.text) for chunk in chunks] == [
        (0, "", (), "intro"),
        (1, "A", ("A",), "# A\n\ntext of a"),
        (2, "B", ("A", "B"), "## B\n\ntext of b"),
    ]


def test_a_long_section_is_cut_at_sentences_into_about_800_with_an_overlap() -> None:
    body = "# 标题\n\n" + SENTENCE * 200
    chunks = chunk_body(body)
    assert all(600 <= len(chunk.text) <= 900 for chunk in chunks[:-1])
    assert all(chunk.text.endswith("。") for chunk in chunks)
    for one, following in pairwise(chunks):
        assert 0 < one.end - following.start <= 100
        assert body[following.start - 1] in "。\n"


def test_paragraphs_are_kept_together_where_they_fit() -> None:
    paragraphs = [f"Paragraph {number}. " + "word " * 70 for number in range(12)]
    chunks = chunk_body("\n\n".join(paragraphs))
    for chunk in chunks:
        assert any(chunk.text.endswith(paragraph.strip()) for paragraph in paragraphs)


@pytest.mark.parametrize(
    "block",
    [
        "```python\n" + "x = 1  # 注释。\n\n" * 90 + "```",
        "| a | b |\n| --- | :-: |\n" + "| 支付。 | 超时 |\n" * 90,
        "a | b\n--- | ---\n" + "支付。 | 超时\n" * 150,
    ],
    ids=["code", "table", "bare table"],
)
def test_code_and_tables_are_kept_whole_where_they_fit(block: str) -> None:
    block = block.strip()
    assert 900 < len(block) <= 1800
    body = f"# T\n\n{SENTENCE * 40}\n\nLead-in:\n\n{block}\n\n{SENTENCE * 40}\n"
    holding = [chunk for chunk in chunk_body(body) if block in chunk.text]
    assert len(holding) == 1
    others = [chunk.text for chunk in chunk_body(body) if block not in chunk.text]
    assert not any("| 超时" in text or "x = 1" in text for text in others)


def test_a_code_block_beyond_the_bound_is_cut_at_lines() -> None:
    body = "# T\n\n```\n" + "some_call(argument)\n" * 300 + "```\n"
    chunks = chunk_body(body)
    assert len(chunks) > 5
    assert all(len(chunk.text) <= 900 for chunk in chunks)
    assert all(re.match(r"# T|```|some_call", chunk.text) for chunk in chunks)


@pytest.mark.parametrize("body", ["", " \n\t\n", "\n\n\n", "\u3000\n"])
def test_a_blank_body_has_neither_section_nor_chunk(body: str) -> None:
    assert split_sections(body) == []
    assert chunk_body(body) == []


_SHORT = [
    "# A\n",
    "## B\n\n",
    "text. ",
    "支付。",
    "\n",
    "\n\n",
    "```\n",
    "~~~\n",
    "|---|\n",
    "---\n",
    "===\n",
    " ",
    "\t",
]
_LONG = ["word " * 300, "支" * 1000, SENTENCE * 60, "x = 1\n" * 150, "| r | s |\n" * 120, "😀" * 500]
MARKDOWN = st.lists(st.sampled_from(_SHORT + _LONG), max_size=30).map("".join)


@settings(deadline=None)
@given(MARKDOWN)
def test_every_letter_of_the_body_lies_in_a_chunk_of_its_section(body: str) -> None:
    sections = {section.key: section for section in split_sections(body)}
    covered = bytearray(len(body))
    chunks = chunk_body(body)
    for number, chunk in enumerate(chunks):
        section = sections[chunk.section]
        assert chunk.number == number
        assert chunk.text == body[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert section.start <= chunk.start < chunk.end <= section.end
        assert chunk.heading_path == section.heading_path
        assert len(chunk.text) <= 1800
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    assert all(covered[place] or letter.isspace() for place, letter in enumerate(body))
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)


@settings(deadline=None)
@given(MARKDOWN)
def test_sections_follow_one_another_without_gap(body: str) -> None:
    sections = split_sections(body)
    assert len({section.key for section in sections}) == len(sections)
    for one, following in pairwise(sections):
        assert one.end == following.start
        assert one.tree_end >= one.end
    if sections:
        assert sections[-1].end == len(body)
        assert not body[: sections[0].start].strip()


def test_one_line_of_five_million_letters_is_cut_into_a_bounded_number_of_chunks() -> None:
    chunks = chunk_body("x" * 5_000_000)
    assert 5_000 < len(chunks) < 8_000
    assert max(len(chunk.text) for chunk in chunks) <= 900


@pytest.mark.parametrize("line", ["# a\n", "a\n---\n", "# a\n\ntext\n\n"])
def test_a_million_headings_are_refused_with_the_bound(line: str) -> None:
    with pytest.raises(TooManyChunks, match="20,000"):
        chunk_body(line * 1_000_000)
    assert len(split_sections(line * 100_000)) == 20_000


def test_the_bound_is_exact() -> None:
    body = "# a\n" * 5
    assert len(chunk_body(body, max_chunks=5)) == 5
    with pytest.raises(TooManyChunks) as refused:
        chunk_body(body, max_chunks=4)
    assert refused.value.limit == 4


@pytest.mark.parametrize(
    "body",
    [
        "# " + " " * 3_000_000 + "#\n",
        "#" * 3_000_000,
        "# " + "[a](" * 700_000,
        "```\n" * 300_000,
        "|-" + " " * 3_000_000 + "x\n",
        "\n" * 3_000_000,
        "a\n" + "-" * 3_000_000 + "x",
        "a" + "\u0301" * 1_000_000,
    ],
    ids=["spaces", "marks", "links", "fences", "bars", "newlines", "dashes", "zalgo"],
)
def test_hostile_texts_are_cut_in_linear_time(body: str) -> None:
    assert all(len(chunk.text) <= 1800 for chunk in chunk_body(body))


GUIDE = split_sections(
    "# Guide\n\n## 1. Install\n\n## 2. Set Up\n\n### 3.2 Timeout handling\n\n## 第三章 支付 超时\n\n## （四）退款\n\n"
    "## `PAY_TIMEOUT` **error**\n\n## 404\n\n# Other\n\n## 2. Set Up\n\n## 五、对账\n"
)


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ("1. Install", "1. Install"),
        ("install", "1. Install"),
        ("INSTALL ", "1. Install"),
        ("## Install", "1. Install"),
        ("7) install", "1. Install"),
        ("setup", "2. Set Up"),
        ("２．ｓｅｔ ｕｐ", "2. Set Up"),
        ("2. Set Up (2)", "2. Set Up (2)"),
        ("Other > Set up", "2. Set Up (2)"),
        ("timeout handling", "3.2 Timeout handling"),
        ("3.2timeouthandling", "3.2 Timeout handling"),
        ("支付超时", "第三章 支付 超时"),
        ("第3章 支付超时", "第三章 支付 超时"),
        ("四、退款", "（四）退款"),
        ("退款", "（四）退款"),
        ("对账", "五、对账"),
        ("pay_timeout error", "PAY_TIMEOUT error"),
        ("404", "404"),
    ],
)
def test_a_section_is_found_whatever_its_case_spaces_width_and_numbering(asked: str, key: str) -> None:
    found = find_section(GUIDE, asked)
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize("asked", ["", "  ", "3.2", "Inst", "Timeout", "Guide > Timeout > X", "支付"])
def test_an_unknown_title_finds_nothing(asked: str) -> None:
    assert find_section(GUIDE, asked) is None


def test_the_first_heading_names_a_text() -> None:
    assert first_heading("text\n\n## B\n# A\n") == "B"
    assert first_heading("text") == ""
