"""The journal and the comparison of `bench.reliability`: what they must notice, they notice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.reliability.journal import ABSENT, History, Journal, digest_of
from bench.reliability.kills import Figures, judge
from bench.reliability.people import path_of

NAME = "person0-1"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.jsonl")
    yield made
    made.close()


def asked(journal: Journal, operation: str, version: int, status: int | None, **more: Any) -> None:
    """A request, and its answer where one came."""
    number = journal.sent(operation, NAME, version)
    if status is not None:
        journal.answered(number, status, **more)


def possible(journal: Journal) -> set[int]:
    return journal.history().possible[NAME]


def test_an_answer_leaves_one_possibility(journal: Journal) -> None:
    asked(journal, "upload", 1, 202)
    assert possible(journal) == {1}
    asked(journal, "delete", ABSENT, 204)
    assert possible(journal) == {ABSENT}
    assert journal.history().acknowledged == 2


def test_a_request_without_an_answer_may_hold_or_not(journal: Journal) -> None:
    asked(journal, "upload", 1, 202)
    asked(journal, "replace", 2, None)
    asked(journal, "delete", ABSENT, None)
    assert possible(journal) == {1, 2, ABSENT}
    asked(journal, "upload", 3, 202)
    assert possible(journal) == {3}
    assert (journal.history().acknowledged, journal.history().unanswered) == (2, 2)


@pytest.mark.parametrize(("status", "more", "wanted"), [
    (409, {}, {1}), (507, {"nothing_kept": True}, {1}), (500, {}, {1, 2}),
])  # fmt: skip
def test_a_refusal_changes_nothing_and_an_error_may_have(
    status: int, more: dict[str, Any], wanted: set[int], journal: Journal
) -> None:
    asked(journal, "upload", 1, 202)
    asked(journal, "replace", 2, status, **more)
    assert possible(journal) == wanted


def test_each_line_is_there_before_the_call_returns(journal: Journal) -> None:
    journal.sent("upload", NAME, 1)
    assert [json.loads(line)["op"] for line in journal.path.read_text().splitlines()] == ["upload"]


# ---- The comparison --------------------------------------------------------------------------------------------------
def site(version: int = 1, **other: Any) -> dict[str, Any]:
    """All stores of a site with one document, as they should be."""
    digest = digest_of(NAME, version)
    row = {
        "pk": 7,
        "file_path": path_of(NAME),
        "status": "INDEXED",
        "status_reason": "",
        "revision": version,
        "published_revision": version,
        "indexed_revision": version,
        "chunk_count": 3,
        "content_hash": digest,
    }
    stored = [[7, version, 3]]
    kept: dict[str, Any] = {
        "staged": [],
        "deleted": [],
        "kept_with_row": [],
        "kept_without_row": [],
        "rows_without_kept": [],
    }
    return {"rows": [row], "files": {path_of(NAME): digest}, "vectors": stored, "chunks": stored, **kept, **other}


def test_of_several_processes_what_was_never_committed_is_told_apart() -> None:
    for alone, staged, orphans in (
        (True, ["9.1"], 1),
        (False, ["9.1", "tmp-a"], 0),
        (False, ["7.1"], 1),
        (False, ["8.1"], 1),
    ):
        figures = Figures(alone=alone)
        judge(site(staged=staged, deleted=[8]), History(possible={NAME: {1}}), figures)
        assert len(figures.orphans) == orphans
        assert len(figures.temporary) == (0 if orphans else len(staged))


def verdict(seen: dict[str, Any], *versions: int) -> dict[str, list[str]]:
    figures = Figures()
    judge(seen, History(possible={NAME: set(versions)}), figures)
    return figures.faults()


def test_a_site_that_holds_what_was_answered_has_no_fault() -> None:
    assert verdict(site(), 1) == {}
    assert verdict(site(2), 1, 2) == {}


NOTHING: dict[str, Any] = {"rows": [], "files": {}, "vectors": [], "chunks": []}


@pytest.mark.parametrize(("seen", "versions", "fault"), [
    (site(**NOTHING), (1,), "acknowledged and lost"),
    (site(1), (2,), "acknowledged and lost"),
    (site(files={path_of(NAME): "other"}), (1,), "acknowledged and lost"),
    (site(1), (ABSENT,), "deleted and back"),
    (site(**{**NOTHING, "files": {path_of(NAME): "x"}}), (ABSENT,), "deleted and back"),
    (site(files={path_of(NAME): "other"}), (ABSENT, 1), "acknowledged and lost"),
    (site(vectors=[[7, 1, 3], [7, 0, 2]]), (1,), "orphans: files, rows, vectors, chunks, staged files"),
    (site(vectors=[[7, 1, 3], [8, 1, 2]]), (1,), "orphans: files, rows, vectors, chunks, staged files"),
    (site(chunks=[]), (1,), "orphans: files, rows, vectors, chunks, staged files"),
    (site(staged=["7.1"]), (1,), "orphans: files, rows, vectors, chunks, staged files"),
    (site(rows_without_kept=["7.1.ab"]), (1,), "orphans: files, rows, vectors, chunks, staged files"),
    (site(rows=[{**site()["rows"][0], "status": "FAILED"}]), (1,), "not INDEXED"),
    (site(rows=[{**site()["rows"][0], "indexed_revision": 0}]), (1,), "not INDEXED"),
])  # fmt: skip
def test_what_is_wrong_is_told(seen: dict[str, Any], versions: tuple[int, ...], fault: str) -> None:
    assert fault in verdict(seen, *versions)
