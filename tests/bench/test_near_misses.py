"""The questions that lose their answer: well formed, balanced, and still matching the documents they name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[2] / "bench" / "data" / "near_misses.jsonl"
FIELDS = {"id", "lang", "question", "remove", "domain", "half", "note"}


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def documents(shared_data: Path) -> set[str]:
    """Paths of all documents under the knowledge base folder."""
    folder = shared_data / "runbooks" / "knowledge_base"
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def own_document(question: dict[str, Any]) -> str:
    """The own document without its language, so that twins are one."""
    first: str = question["remove"][0]
    return first.removesuffix(".md").removesuffix(".zh").removesuffix(".en")


def twins(path: str) -> set[str]:
    """The names under which the same document may be there in the other language."""
    stem = path.removesuffix(".md").removesuffix(".zh").removesuffix(".en")
    return {f"{stem}.md", f"{stem}.zh.md", f"{stem}.en.md"}


def test_there_are_enough_questions_and_no_two_are_the_same(questions: list[dict[str, Any]]) -> None:
    assert len(questions) >= 100
    assert len({question["id"] for question in questions}) == len(questions)
    assert len({question["question"] for question in questions}) == len(questions)


def test_every_field_is_as_the_readme_says(questions: list[dict[str, Any]]) -> None:
    for question in questions:
        assert set(question) == FIELDS
        assert question["lang"] in {"zh", "en"}
        assert question["half"] in {"dev", "check"}
        assert question["question"].strip()
        assert question["note"].strip()
        assert len(set(question["remove"])) == len(question["remove"]) >= 1
        assert question["remove"][0].startswith(f"{question['domain']}/")
        assert all(path.endswith(".md") for path in question["remove"])


def test_the_language_is_that_of_the_question(questions: list[dict[str, Any]]) -> None:
    for question in questions:
        chinese = any("\u4e00" <= character <= "\u9fff" for character in question["question"])
        assert chinese == (question["lang"] == "zh"), question["id"]


def test_languages_and_halves_are_balanced(questions: list[dict[str, Any]]) -> None:
    for field in ("lang", "half"):
        for count in Counter(question[field] for question in questions).values():
            assert 0.4 <= count / len(questions) <= 0.6, field
    cells = Counter((question["domain"], question["lang"], question["half"]) for question in questions)
    for domain, lang, _ in list(cells):
        assert abs(cells[domain, lang, "dev"] - cells[domain, lang, "check"]) <= 2, (domain, lang)


def test_all_ten_domains_are_asked_about(questions: list[dict[str, Any]]) -> None:
    domains = Counter(question["domain"] for question in questions)
    assert len(domains) == 10
    assert min(domains.values()) >= 5


def test_no_document_is_asked_about_more_than_twice(questions: list[dict[str, Any]]) -> None:
    assert max(Counter(own_document(question) for question in questions).values()) <= 2


def test_questions_that_share_a_document_are_in_one_half(questions: list[dict[str, Any]]) -> None:
    halves: dict[str, str] = {}
    for question in questions:
        for path in question["remove"]:
            assert halves.setdefault(path, question["half"]) == question["half"], (question["id"], path)


def test_every_document_to_remove_is_there(questions: list[dict[str, Any]], documents: set[str]) -> None:
    missing = {path for question in questions for path in question["remove"]} - documents
    assert not missing


def test_a_document_is_removed_together_with_its_twin(questions: list[dict[str, Any]], documents: set[str]) -> None:
    for question in questions:
        removed = set(question["remove"])
        for path in removed:
            assert (twins(path) & documents) <= removed, (question["id"], path)


def test_enough_of_the_domain_remains(questions: list[dict[str, Any]], documents: set[str]) -> None:
    for question in questions:
        rest = {path for path in documents if path.startswith(f"{question['domain']}/")} - set(question["remove"])
        assert len(rest) >= 3, question["id"]
