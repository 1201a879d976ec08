"""Of a long document the parts that bear on the question (SPEC L1-6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.bm25 import term_id
from retrieval.chunking import chunk_body, split_sections
from retrieval.lookup_types import RetrievalSettings
from retrieval.selection import ScoredSpan, Selection, shows_whole
from retrieval.text_parts import LARGEST_TEXT, LEAST, take_apart
from tests.retrieval.fakes import Document, World

BODY = (
    "# 手册\n\n总的说明。\n\n## 安装\n\n" + "安装步骤。" * 30 + "\n\n## 排查\n\n" + "一般的话。" * 30
    + "\n\n### 连接池\n\n连接池耗尽时先看最大连接数。\n\n### 磁盘\n\n```\ndf -h\ndu -sh /data\n```\n\n## 附录\n\n"
    + "附录的话。" * 30 + "\n"
)  # fmt: skip


def parts(body: str, scores: dict[str, float]) -> list[ScoredSpan]:
    return [
        ScoredSpan(
            chunk.start, chunk.end, max((score for mark, score in scores.items() if mark in chunk.text), default=0)
        )
        for chunk in chunk_body(body)
    ]


def shown(body: str, limit: int, **scores: float) -> str:
    selection = Selection(body, split_sections(body), limit)
    return selection.put_together(selection.best_spans(parts(body, scores)))


def test_the_best_parts_stand_in_the_documents_order_under_their_headings() -> None:
    pool, disk = "### 连接池\n\n连接池耗尽时先看最大连接数。", "### 磁盘\n\n```\ndf -h\ndu -sh /data\n```"
    assert shown(BODY, 90, 最大连接数=0.9, du=1.0) == f"...\n\n# 手册\n\n## 排查\n\n{pool}\n\n{disk}\n\n..."
    # With a little more room the opening comes too, and its heading stands once.
    assert shown(BODY, 110, 最大连接数=0.9, du=1.0) == (
        f"# 手册\n\n总的说明。\n\n...\n\n## 排查\n\n{pool}\n\n{disk}\n\n..."
    )


def test_a_part_that_does_not_fit_leaves_its_room_to_the_next_best() -> None:
    text = shown(BODY, 110, 安装步骤=1.0, 最大连接数=0.5)
    assert "最大连接数" not in text, "the best part is cut rather than left out"
    assert text.startswith("...\n\n# 手册\n\n## 安装\n\n安装步骤")
    assert len(text) <= 110
    text = shown(BODY, 110, du=1.0, 安装步骤=0.9, 最大连接数=0.5)
    assert ("安装步骤" in text, "最大连接数" in text) == (False, True)


def test_neighbours_are_one_text_and_what_is_left_out_is_marked_once() -> None:
    body = "# 一\n\n甲。\n\n# 二\n\n乙。\n\n# 三\n\n丙。\n\n# 四\n\n丁。\n"
    assert shown(body, 24, 甲=1.0, 乙=0.9) == "# 一\n\n甲。\n\n# 二\n\n乙。\n\n..."
    assert shown(body, 24, 甲=1.0, 丁=0.9) == "# 一\n\n甲。\n\n...\n\n# 四\n\n丁。"


def test_of_parts_that_say_nothing_to_the_question_the_earlier_ones_are_shown() -> None:
    body = "\n\n".join(f"# 节 {number}\n\n正文 {number}。" for number in range(50))
    assert shown(body, 60).startswith("# 节 0\n\n正文 0。\n\n# 节 1")


def test_a_table_or_code_block_that_fits_is_shown_whole_or_not_at_all() -> None:
    table = "| 错误 | 处理 |\n| --- | --- |\n" + "".join(f"| E{number} | 重启 {number} |\n" for number in range(40))
    body = "# 表\n\n" + "引言。" * 200 + "\n\n" + table + "\n" + "结尾。" * 300 + "\n"
    text = shown(body, 2000, E39=1.0)
    assert table.strip() in text


def test_a_section_counts_as_shown_when_the_parts_hold_all_of_it() -> None:
    sections = split_sections(BODY)
    by_key = {section.key: section for section in sections}
    pool, disk = by_key["连接池"], by_key["磁盘"]
    spans = [(pool.start, disk.end)]
    assert [key for key, section in by_key.items() if shows_whole(BODY, section, spans)] == ["连接池", "磁盘"]
    assert not shows_whole(BODY, pool, [(pool.start, pool.end - 6)])
    assert shows_whole(BODY, pool, [(pool.start, pool.start + 5), (pool.start + 5, pool.end)])


@given(st.text(alphabet="# 甲a\n`-|", max_size=400), st.integers(min_value=40, max_value=200), st.randoms())
def test_whatever_a_body_looks_like_the_limit_holds_and_nothing_is_invented(body: str, limit: int, random: Any) -> None:
    selection = Selection(body, split_sections(body), limit)
    scored = [ScoredSpan(chunk.start, chunk.end, random.random()) for chunk in chunk_body(body)]
    spans = selection.best_spans(scored)
    text = selection.put_together(spans)
    assert bool(spans) == bool(scored)
    assert len(text) <= limit
    assert all(body[start:end] for start, end in spans)
    assert spans == sorted(spans)


def test_a_text_is_taken_apart_at_blank_lines_outside_code() -> None:
    paragraph = "句子。" * (LEAST // 3)
    body = f"# 甲\n\n{paragraph}\n\n```\na\n\n{'b' * LEAST}\n\nc\n```\n\n短。\n\n{paragraph}\n"
    parts = take_apart(body)
    texts = [body[start:end] for start, end in zip(parts.starts, parts.ends, strict=True)]
    assert texts[0] == f"# 甲\n\n{paragraph}"
    assert texts[1].startswith("```\na\n\nb")
    assert texts[1].endswith("c\n```")
    assert texts[2] == f"短。\n\n{paragraph}"
    assert len(parts.starts) == len(parts.ends) == len(parts.chunks) == 3


def test_coverage_is_counted_for_each_part() -> None:
    parts = take_apart("# Pool\n\n" + "the gateway waits. " * 20 + "\n\n" + "disks are full. " * 20)
    weights = {term_id("gateway"): 3.0, term_id("disk"): 1.0, term_id("zebra"): 0.0}
    assert parts.coverage(weights) == [0.75, 0.25]
    assert parts.coverage({}) == [0.0, 0.0]
    assert parts.coverage({5: 1.0}) == [0.0, 0.0]
    assert take_apart("").coverage(weights) == []


@pytest.mark.parametrize(
    "body",
    [
        "# " + "word " * 30_000 + "\n\n## Sub\n\n" + "needle text here. " * 200,
        "".join("#" * level + " " + "title " * 80 + "\n\n" for level in range(1, 6)) + "needle text here. " * 200,
        "x" * 3_000 + "\n====\n\nneedle\n\n" + "y " * 2_000,
    ],
    ids=["a paragraph as a heading", "five long headings", "an underlined paragraph"],
)
def test_headings_never_push_the_text_over_the_limit(body: str) -> None:
    text = shown(body, 2000, needle=1.0)
    assert len(text) <= 2000
    assert "needle" in text


def test_of_many_small_sections_few_are_tried() -> None:
    body = "# Glossary\n\n" + "".join(
        f"## E{number}\n\n{'retry' if number % 2 else 'ok'} {number}\n\n" for number in range(4000)
    )
    calls = 0

    class Counted(Selection):
        def put_together(self, spans: Any) -> str:
            nonlocal calls
            calls += 1
            return super().put_together(spans)

    selection = Counted(body, split_sections(body), 2000)
    text = selection.put_together(selection.best_spans(parts(body, {"retry": 1.0})))
    assert len(text) <= 2000
    assert text.count("retry") > 40
    assert calls < 300


def test_what_fills_the_room_stands_around_the_best_part() -> None:
    body = "\n\n".join(f"# 节 {number}\n\n正文 {number}。" for number in range(50))
    text = shown(body, 80, **{"正文 30": 1.0})
    assert "正文 30" in text
    assert "正文 29" in text or "正文 31" in text
    assert "正文 0。" not in text


def test_a_code_block_inside_a_list_is_not_torn_at_its_blank_lines() -> None:
    steps = [
        f"{n}. Step {n}\n\n    ```bash\n    # stop {n}\n    systemctl stop svc{n} {'x' * 150}\n\n"
        f"    systemctl status svc{n} {'y' * 120}\n\n    rm -rf /var/lib/svc{n} {'z' * 100}\n    ```\n\n"
        for n in range(40)
    ]
    text = shown("# Steps\n\n" + "".join(steps), 2000, **{"stop svc3 ": 1.0})
    assert "systemctl stop svc3 " in text
    assert "rm -rf /var/lib/svc3 " in text
    for number in range(40):
        assert (f"stop svc{number} " in text) == (f"rm -rf /var/lib/svc{number} " in text)


# ---- On the whole lookup ---------------------------------------------------------------------------------------------
LONG = (
    "# 网关手册\n\n前言。\n\n" + "".join(f"## 第 {n} 章\n\n" + f"第 {n} 章的一般说明。" * 40 + "\n\n" for n in range(8))
    + "## 连接池\n\n连接池耗尽时先看最大连接数，再看慢查询。\n"
)  # fmt: skip
MANUAL = Document(1, "knowledge_base/api/m.md", "网关手册", LONG, keywords=("网关手册",), near={"连接池耗尽": 0.8})


def test_an_exact_hit_on_a_long_document_shows_what_was_asked_for() -> None:
    answer: Any = World(MANUAL, lexical=True).look_up("网关手册里连接池耗尽怎么办").result.as_dict()
    primary = answer["primary"]
    assert "再看慢查询" in primary["content"]
    assert primary["content"].endswith("再看慢查询。")
    assert len(primary["content"]) <= 2000
    assert "连接池" in primary["availableSections"]


def test_a_semantic_hit_on_a_long_document_shows_its_chunk_and_more_that_fits() -> None:
    world = World(MANUAL, lexical=True)
    outcome = world.look_up("连接池耗尽了", session="s")
    answer: Any = outcome.result.as_dict()
    assert "再看慢查询" in answer["supplement"]["content"]
    assert len(answer["supplement"]["content"]) > 1000
    assert outcome.served[0].section == "连接池"
    assert world.look_up("连接池 慢查询", session="s").dedup_reason == "doc_retrieved"


def test_a_document_that_fits_is_shown_whole_by_meaning_too() -> None:
    document = Document(2, "knowledge_base/api/s.md", "短", "# 短\n\n一。\n\n## 乙\n\n二。\n", near={"二": 0.8})
    outcome = World(document).look_up("怎么办")
    answer: Any = outcome.result.as_dict()
    assert answer["supplement"]["content"] == document.body
    assert outcome.served[0].section == "乙"


def test_of_a_long_section_that_was_asked_for_the_parts_that_bear_on_the_question_are_shown() -> None:
    paragraphs = [f"第 {n} 段，{'斑马' if n == 90 else '狮子'}。" + "一般的话。" * 40 for n in range(100)]
    body = "# 动物\n\n" + "\n\n".join(paragraphs) + "\n"
    world = World(Document(1, "knowledge_base/api/z.md", "动物", body, keywords=("动物园",)), lexical=True)
    answer: Any = world.look_up("动物园里的斑马", section_title="动物", session="s").result.as_dict()
    assert "斑马" in answer["primary"]["content"]
    assert len(answer["primary"]["content"]) <= 2000


def test_the_head_is_shown_where_the_operator_says_so() -> None:
    world = World(MANUAL, lexical=True)
    answer: Any = world.look_up("网关手册里连接池耗尽怎么办", settings=RetrievalSettings(primary_content="head")).result
    assert answer.as_dict()["primary"]["content"] == LONG[:2000] + "..."


def test_a_revision_without_vectors_yet_is_chosen_from_too() -> None:
    world = World(MANUAL, lexical=True)
    world.put(Document(1, MANUAL.path, MANUAL.title, LONG.replace("慢查询", "新的话"), keywords=("网关手册",)),
              index_vectors=False)  # fmt: skip
    answer: Any = world.look_up("网关手册里连接池耗尽怎么办").result.as_dict()
    assert "再看新的话" in answer["primary"]["content"]


def test_a_huge_text_without_vectors_yet_shows_its_head() -> None:
    body = "# 大\n\n" + "字" * LARGEST_TEXT
    world = World()
    world.put(Document(1, "knowledge_base/api/h.md", "大", body, keywords=("大文档",)), index_vectors=False)
    answer: Any = world.look_up("大文档").result.as_dict()
    assert answer["primary"]["content"] == body[:2000] + "..."


@pytest.mark.parametrize("part", ["vectors", "search_lexical"])
def test_a_store_that_fails_while_parts_are_chosen_leaves_the_words(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from clients.interfaces import ClientError

    world = World(MANUAL, lexical=True)

    def fails(*_: Any, **__: Any) -> Any:
        raise ClientError("gone", code="store_unavailable")

    monkeypatch.setattr(world.store, part, fails)
    answer: Any = world.look_up("网关手册里连接池耗尽怎么办").result.as_dict()
    assert "再看慢查询" in answer["primary"]["content"]
