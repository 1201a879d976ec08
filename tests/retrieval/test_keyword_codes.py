"""Real identifiers: 773 documents with one code each, and questions about them (shared data, codes)."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from retrieval.keyword_index import KeywordEntry, KeywordIndex
from retrieval.normalise import normalise


def keywords_in(path: Path) -> tuple[str, ...]:
    """The keywords of a file's frontmatter, each kept as text."""
    head = path.read_text(encoding="utf-8").split("---\n")[1]
    loaded: dict[str, Any] = yaml.load(head, Loader=yaml.CBaseLoader)  # noqa: S506 - the base loader makes strings only
    return tuple(loaded["keywords"])


@pytest.fixture
def entries(shared_data: Path) -> list[KeywordEntry]:
    """Every document of the set; ``file_path`` is its id there."""
    folder = shared_data / "codes" / "docs"
    return [
        KeywordEntry(
            number, path.relative_to(folder).as_posix(), path.stem, keywords_in(path), "", path.parent.name
        )
        for number, path in enumerate(sorted(folder.rglob("*.md")), start=1)
    ]  # fmt: skip


@pytest.fixture
def questions(shared_data: Path) -> list[dict[str, Any]]:
    text = (shared_data / "codes" / "queries.dev.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def index(entries: Sequence[KeywordEntry]) -> KeywordIndex:
    index = KeywordIndex()
    for entry in entries:
        index.put(entry)
    return index


def found(index: KeywordIndex, query: str) -> list[str]:
    return sorted(match.entry.file_path for match in index.match(query))


def holders(entries: Sequence[KeywordEntry]) -> dict[str, list[str]]:
    """The documents of each code, by its normal form."""
    documents: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        documents[normalise(entry.keywords[0])].append(entry.file_path)
    return {code: sorted(paths) for code, paths in documents.items()}


def test_each_question_finds_its_documents_and_no_forbidden_one(
    index: KeywordIndex, questions: list[dict[str, Any]]
) -> None:
    assert len(questions) == 150
    answers = {question["text"]: found(index, question["text"]) for question in questions}
    assert {q["text"]: answers[q["text"]] for q in questions if answers[q["text"]] != sorted(q["expected"])} == {}
    assert [q["text"] for q in questions if set(answers[q["text"]]) & set(q["forbidden"])] == []


def test_a_code_alone_finds_the_documents_that_have_it_and_no_other(
    index: KeywordIndex, entries: list[KeywordEntry]
) -> None:
    documents = holders(entries)
    assert len(index) == len(entries) == 773
    assert Counter(map(len, documents.values())) == {1: 769, 2: 2}
    for code in (entry.keywords[0] for entry in entries):
        assert found(index, code) == documents[normalise(code)], code


def test_every_code_is_found_in_every_kind_of_sentence(
    index: KeywordIndex, entries: list[KeywordEntry], questions: list[dict[str, Any]]
) -> None:
    """The questions' sentences with each other code in place of theirs, in four ways of writing it."""
    kinds = {"exact", "near_longer", "near_shorter", "case", "fullwidth"}
    sentences = sorted({one["text"].replace(one["written_as"][0], "{}") for one in questions if one["kind"] in kinds})
    assert len(sentences) > 20
    documents = holders(entries)
    dice = random.Random(42)
    for code, paths in documents.items():
        full_width = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in code)
        for sentence in dice.sample(sentences, 6):
            if f"code={code}" in documents and "code={}" in sentence:
                continue  # "code=10001" is another code there, and rightly found
            for written in (code, code.upper(), code.title(), full_width):
                assert found(index, sentence.replace("{}", written)) == paths, sentence.replace("{}", written)


def test_no_code_is_found_inside_a_longer_word_or_number(index: KeywordIndex, entries: list[KeywordEntry]) -> None:
    for code, paths in holders(entries).items():
        for longer in (f"q{code}", f"{code}q", f"0{code}", f"{code}0", f"_{code}", f"{code}_x", f"é{code}", f"{code}я"):
            assert not set(found(index, f"请问 {longer} 是什么")) & set(paths), longer
