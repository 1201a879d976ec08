"""Reading folders of questions and documents: what is right is read right, what is wrong is one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from observability.evaluation.data import EvaluationError
from observability.evaluation.judged_data import read_judged
from observability.evaluation.tree_data import (
    SHIPPED_FAR,
    SHIPPED_NEAR,
    read_for_levels,
    read_tree,
    shipped_unanswerable,
)

PASSAGES = [
    {"id": "p1", "title": "One", "text": "first text", "lang": "en", "domain": "ops", "doc": "d1"},
    {"id": "p2", "title": "一", "text": "第一", "lang": "zh", "domain": "ops", "doc": "d1"},
    {"id": "p3", "text": "alone"},
]
QUESTIONS = [
    {"id": "q1", "text": "what is first", "lang": "en", "kind": "faq"},
    {"id": "q2", "text": "never judged"},
    {"id": "q3", "text": "only helpful"},
]
JUDGEMENTS = "query_id\tpassage_id\tgrade\nq1\tp1\t2\nq1\tp2\t1\nq1\tp3\t0\nq3\tp3\t1\n"


def write_lines(path: Path, records: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of judged passages."""
    made = tmp_path / "judged"
    write_lines(made / "corpus.jsonl", PASSAGES)
    write_lines(made / "queries.dev.jsonl", QUESTIONS)
    (made / "qrels.dev.tsv").write_text(JUDGEMENTS, encoding="utf-8")
    return made


def test_judged_passages(folder: Path) -> None:
    data = read_judged(folder)
    assert data.has_passages
    assert [one.name for one in data.documents] == ["p1", "p2", "p3"]
    assert data.documents[0].file_path == "knowledge_base/ops/p1.md"
    assert data.group_of() == {"p1": "d1", "p2": "d1", "p3": "p3"}
    [question] = data.questions
    assert (question.id, question.grades) == ("q1", {"p1": 2, "p2": 1})
    assert question.right == {"p1"}
    assert data.left_out == 2  # without a judgement, and without a right passage


def test_queries_of_several_files_are_taken_together(folder: Path) -> None:
    write_lines(folder / "queries.more.jsonl", [{"id": "q9", "text": "another", "kind": "faq"}])
    (folder / "qrels.more.tsv").write_text("q9\tp3\t2\n", encoding="utf-8")
    assert [one.id for one in read_judged(folder).questions] == ["q1", "q9"]


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("corpus.jsonl", '{"id": "p1", "text": "a"}\n{"id": "p2", "text": \n', r"corpus\.jsonl, line 2: not JSON"),
        (
            "corpus.jsonl",
            '{"id": "p1", "text": "a"}\n{"id": "p1", "text": "b"}\n',
            r"line 2: the passage .p1. was given",
        ),
        ("corpus.jsonl", '{"id": "p1"}\n', r'line 1: "text" must hold a text'),
        ("corpus.jsonl", "[1]\n", r"line 1: not a JSON object"),
        ("corpus.jsonl", "[" * 100_000, r"line 1: not JSON"),
        ("corpus.jsonl", '{"id": "p1", "text": "a \\u0000"}\n', r"line 1: .text. holds characters that are no text"),
        ("queries.dev.jsonl", '{"id": "q1", "text": "\\ud800 x"}\n', r"line 1: .text. holds characters that are no"),
        ("corpus.jsonl", "\n", r"corpus\.jsonl has no passage"),
        ("queries.dev.jsonl", '{"id": "q1", "text": " "}\n', r"queries\.dev\.jsonl, line 1: .text. must hold a text"),
        ("queries.dev.jsonl", f'{{"id": "q1", "text": "{"x" * 2001}"}}\n', r"line 1: the question has 2,001"),
        (
            "qrels.dev.tsv",
            "query_id\tpassage_id\tgrade\nq1\tp7\t2\n",
            r"qrels\.dev\.tsv, line 2: there is no passage .p7.",
        ),
        ("qrels.dev.tsv", "q7\tp1\t2\n", r"qrels\.dev\.tsv, line 1: there is no question .q7."),
        ("qrels.dev.tsv", "q1\tp1\t3\n", r"line 1: the grade is .3."),
        ("qrels.dev.tsv", "q1 p1 2\n", r"line 1: 1 columns"),
        ("qrels.dev.tsv", "q1\tp1\t1\n", r"no question with a judged passage"),
    ],
)
def test_fault_names_file_and_line(folder: Path, file: str, text: str, problem: str) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(EvaluationError, match=problem) as fault:
        read_judged(folder)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.dev.jsonl", "qrels.dev.tsv"])
def test_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(EvaluationError, match=file.split(".")[0]):
        read_judged(folder)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with two documents in two languages, and a broken file."""
    made = tmp_path / "tree"
    (made / "knowledge_base" / "ops").mkdir(parents=True)
    (made / "knowledge_base" / "ops" / "disk.md").write_text(
        "---\ntitle: Disk full\nkeywords: [ENOSPC, 磁盘]\nsummary: what to do\n---\n\n# Disk\n\ntext\n",
        encoding="utf-8",
    )
    (made / "knowledge_base" / "ops" / "disk.zh.md").write_text("# 磁盘\n\n正文\n", encoding="utf-8")
    (made / "knowledge_base" / "ops" / "empty.md").write_text("", encoding="utf-8")
    return made


def test_tree_is_read_as_the_scan_reads_it(tree: Path) -> None:
    write_lines(tree / "questions.jsonl", [{"question": "disk?", "documents": ["ops/disk.md"]}])
    data = read_for_levels(tree, [])
    first, second = data.documents
    assert (first.name, first.file_path, first.domain) == ("ops/disk.md", "knowledge_base/ops/disk.md", "ops")
    assert (first.title, first.keywords, first.summary) == ("Disk full", ("ENOSPC", "磁盘"), "what to do")
    assert first.body.startswith("# Disk")
    assert (second.name, second.title, second.keywords) == ("ops/disk.zh.md", "磁盘", ())
    assert data.unread == 1
    assert not data.has_passages


def test_every_form_of_question(tree: Path) -> None:
    file = tree.parent / "more.jsonl"
    write_lines(
        file,
        [
            {
                "id": "a1",
                "question": "磁盘满了怎么办",
                "lang": "zh",
                "documents": ["ops/disk.zh.md"],
                "key_facts": [{"text": "正文", "in_documents": ["ops/disk.zh.md"]}],
                "other_language_twin": {"ops/disk.zh.md": ["knowledge_base/ops/disk.md"]},
            },
            {"question": "nobody knows", "documents": []},
            {"question": "near", "remove": ["ops/disk.md", "ops/disk.zh.md"]},
            {"text": "ENOSPC", "kind": "exact", "expected": ["ops/disk.md"], "forbidden": []},
            {"text": "XENOSPC", "kind": "inside_word", "expected": []},
            {"text": "Who was it?", "kind": "reading"},
            {"question": "near", "remove": ["ops/disk.md"], "half": "dev"},
            {"text": "how to do this", "kind": "faq"},
        ],
    )
    data = read_for_levels(tree, [file])
    agent, none, near, exact, inside, reading, half = data.questions
    assert agent.right == {"ops/disk.zh.md", "ops/disk.md"}
    [fact] = agent.facts
    assert fact.text == "正文"
    assert (sorted(fact.documents), sorted(fact.twins)) == (["ops/disk.zh.md"], ["ops/disk.md"])
    assert (none.id, none.kind, none.right) == ("more.jsonl:2", "no answer", frozenset())
    assert (near.kind, sorted(near.hidden)) == ("near miss", ["ops/disk.md", "ops/disk.zh.md"])
    assert (exact.kind, sorted(exact.right)) == ("exact", ["ops/disk.md"])
    assert (inside.kind, reading.kind) == ("no answer", "reading")
    assert (half.kind, sorted(half.hidden)) == ("near miss, dev", ["ops/disk.md"])
    assert data.left_out == 1


def test_group_hides_all_its_passages(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "near.jsonl"
    write_lines(file, [{"question": "what is first", "remove": ["d1"]}])
    assert read_for_levels(folder, [file]).questions[-1].hidden == {"p1", "p2"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"question": "x", "documents": ["ops/none.md"]}, r"line 1: there is no document .ops/none\.md."),
        ({"question": "x", "remove": ["ops/none.md"]}, r"line 1: there is no document"),
        ({"question": "x", "documents": "ops/disk.md"}, r"line 1: .documents. must be a list"),
        ({"documents": []}, r"line 1: .question. must hold a text"),
        ({"question": "x", "documents": [], "key_facts": ["f"]}, r"line 1: .key_facts. must be"),
        ({"question": "x", "documents": [], "key_facts": 5}, r"questions\.jsonl, line 1: .key_facts. must be a list"),
        ({"question": "x", "documents": [], "key_facts": {}}, r"questions\.jsonl, line 1: .key_facts. must be a list"),
        ({"question": "x", "documents": [], "key_facts": None}, None),
        ({"question": "x\0", "documents": []}, r"questions\.jsonl, line 1: .question. holds characters that are no"),
        ({"text": "\ud800", "expected": []}, r"questions\.jsonl, line 1: .text. holds characters that are no text"),
        ({"question": "x", "documents": ["\ud800.md"]}, r"line 1: .documents. holds characters that are no text"),
        ({"question": "x", "documents": [], "other_language_twin": []}, None),
        ({"question": "x", "documents": [], "other_language_twin": {"ops/disk.md": "y"}}, r"line 1: .other_language"),
    ],
)
def test_bad_question_names_file_and_line(tree: Path, line: dict[str, Any], problem: str | None) -> None:
    write_lines(tree / "questions.jsonl", [line])
    if problem is None:
        assert len(read_for_levels(tree, []).questions) == 1  # an empty list is no twin
        return
    with pytest.raises(EvaluationError, match=problem) as fault:
        read_for_levels(tree, [])
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("name", ["question", "text", "query"])
def test_a_questions_words_have_any_of_three_names(tree: Path, name: str) -> None:
    write_lines(tree / "questions.jsonl", [{name: "disk?", "documents": ["ops/disk.md"]}])
    [question] = read_for_levels(tree, []).questions
    assert question.text == "disk?"


def test_two_folders_are_one_knowledge_base(folder: Path, tree: Path) -> None:
    judged, documents = read_judged(folder), read_tree(tree / "knowledge_base", name="tree")
    both = documents.joined(judged)
    assert (both.name, len(both.documents), len(both.questions)) == ("tree + judged", 5, 1)
    assert not both.has_passages
    with pytest.raises(EvaluationError, match="both have a document"):
        judged.joined(judged)


def test_folder_of_neither_form(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="neither"):
        read_for_levels(tmp_path, [])


def test_tree_without_questions(tree: Path) -> None:
    with pytest.raises(EvaluationError, match="--questions"):
        read_for_levels(tree, [])


def test_shipped_questions_are_of_both_kinds_and_have_no_answer() -> None:
    questions = shipped_unanswerable()
    assert len(questions) >= 200
    assert {one.kind for one in questions} == {SHIPPED_FAR, SHIPPED_NEAR}
    assert not any(one.right for one in questions)


def blocks() -> dict[str, str]:
    """The examples of docs/levels.md by the file that they are lines of."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "levels.md").read_text(encoding="utf-8")
    section = page.partition("\n## Your own questions\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^`([\w.]+)`.*?\n\n```\w*\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE))


def test_the_lines_that_the_manual_shows_are_read(tmp_path: Path) -> None:
    shown = blocks()
    assert list(shown) == ["corpus.jsonl", "queries.jsonl", "qrels.tsv", "questions.jsonl"]
    folder, tree = tmp_path / "judged", tmp_path / "tree"
    folder.mkdir()
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        (folder / name).write_text(shown[name], encoding="utf-8")
    [judged] = read_judged(folder).questions
    assert sorted(judged.grades.values()) == [1, 2]
    (tree / "knowledge_base" / "ops").mkdir(parents=True)
    for name in ("certificates.md", "certificates.zh.md"):
        (tree / "knowledge_base" / "ops" / name).write_text("# Certificates\n\ntext\n", encoding="utf-8")
    (tree / "questions.jsonl").write_text(shown["questions.jsonl"], encoding="utf-8")
    data = read_for_levels(tree, [])
    answered, none, code, near = data.questions
    assert (len(answered.facts), len(answered.right)) == (2, 2)
    assert (none.kind, code.kind, near.kind) == ("no answer", "identifier", "near miss")
    assert data.left_out == 0
