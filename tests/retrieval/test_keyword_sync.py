"""The keyword index of a process follows the documents' change counter, and survives a source that fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import pytest

from retrieval import keyword_sync
from retrieval.interfaces import DocumentState, IndexChanges
from retrieval.keyword_index import KeywordEntry
from retrieval.keyword_sync import SyncedKeywordIndex


class Documents:
    """Rows with a change counter, as the documents app keeps them; counts what is asked of it."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, tuple[str, ...]]] = {}
        self.gone: dict[int, int] = {}
        self.disabled: set[int] = set()
        self.counter = 0
        self.broken: Exception | None = None
        self.counter_reads = 0
        self.asked_since: list[int] = []
        self.reading = Event()
        self.go_on = Event()
        self.go_on.set()

    def save(self, document_id: int, *keywords: str) -> None:
        self.counter += 1
        self.rows[document_id] = (self.counter, keywords)

    def delete(self, document_id: int) -> None:
        self.counter += 1
        del self.rows[document_id]
        self.gone[document_id] = self.counter

    def sequence(self) -> int:
        self.counter_reads += 1
        if self.broken is not None:
            raise self.broken
        return self.counter

    def entries_since(self, sequence: int) -> IndexChanges:
        self.asked_since.append(sequence)
        if self.broken is not None:
            raise self.broken
        now = self.counter
        self.reading.set()
        assert self.go_on.wait(10)
        entries = [
            KeywordEntry(number, f"knowledge_base/{number}.md", f"T{number}", keywords, "", "c")
            for number, (changed, keywords) in self.rows.items()
            if changed > sequence
        ]
        return IndexChanges(now, entries, [number for number, changed in self.gone.items() if changed > sequence])

    def states(self, document_ids: Iterable[int]) -> Mapping[int, DocumentState]:
        return {
            number: DocumentState(number, "", "", "", 1, "", 1, "", number not in self.disabled)
            for number in document_ids
            if number in self.rows
        }

    def body(self, document_id: int, revision: int) -> str | None:
        raise AssertionError("the keyword index reads no bodies")

    def sections(self, document_id: int, revision: int) -> Any:
        raise AssertionError("the keyword index reads no sections")

    def chunks(self, keys: Any) -> Any:
        raise AssertionError("the keyword index reads no chunks")

    def revision_chunks(self, document_id: int, revision: int) -> Any:
        raise AssertionError("the keyword index reads no chunks")

    def parts(self, document_id: int, revision: int) -> Any:
        raise AssertionError("the keyword index reads no texts")

    def term_counts(self, terms: Any) -> Any:
        raise AssertionError("the keyword index weighs no terms")


@pytest.fixture
def documents() -> Documents:
    documents = Documents()
    documents.save(1, "网关")
    documents.save(2, "超时", "R01")
    return documents


@pytest.fixture
def index(documents: Documents) -> SyncedKeywordIndex:
    return SyncedKeywordIndex(documents)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the index sees; a test moves it."""
    now = [1000.0]
    monkeypatch.setattr(keyword_sync, "monotonic", lambda: now[0])
    return now


def ids(matches: Sequence[Any]) -> list[int]:
    return [match.entry.document_id for match in matches]


def test_the_first_use_loads_and_nothing_before_it(documents: Documents, index: SyncedKeywordIndex) -> None:
    assert documents.asked_since == []
    assert ids(index.match("R01")) == [2]
    assert index.find("R01").total == 1
    assert index.loaded
    assert documents.asked_since == [0]
    assert len(index) == 2


def test_a_refresh_reads_only_the_counter_while_nothing_changes(
    documents: Documents, index: SyncedKeywordIndex
) -> None:
    index.load()
    before = documents.counter_reads
    assert all(index.refresh() for _ in range(5))
    assert index.load()
    assert documents.counter_reads == before + 5
    assert documents.asked_since == [0]


def test_a_refresh_takes_over_what_was_added_changed_and_deleted(
    documents: Documents, index: SyncedKeywordIndex
) -> None:
    index.load()
    documents.save(3, "网关")
    documents.save(1, "限流")
    documents.delete(2)
    assert ids(index.match("网关")) == [1]
    index.refresh()
    assert documents.asked_since == [0, 2]
    assert ids(index.match("网关")) == [3]
    assert ids(index.match("限流")) == [1]
    assert list(index.match("R01")) == []


def test_an_exact_match_refreshes_and_checks_the_rows(documents: Documents, index: SyncedKeywordIndex) -> None:
    documents.save(3, "网关")
    documents.disabled.add(1)
    (match,) = index.exact_match("网关怎么了")
    assert (match.entry.document_id, match.keywords) == (3, ("网关",))
    documents.disabled.clear()
    assert ids(index.exact_match("网关")) == [1, 3]
    assert list(index.exact_match("没有的")) == []


def test_a_document_whose_row_is_gone_is_dropped(documents: Documents, index: SyncedKeywordIndex) -> None:
    index.load()
    del documents.rows[1]  # without a change that the counter counted
    assert list(index.exact_match("网关")) == []
    assert len(index) == 1


def test_a_row_check_that_is_older_than_the_index_drops_nothing(
    documents: Documents, index: SyncedKeywordIndex
) -> None:
    index.load()
    documents.counter -= 1  # what a transaction sees that began before the last document was saved
    index.forget_missing([2])
    documents.counter += 1
    assert ids(index.match("R01")) == [2]


def test_a_counter_that_went_back_means_another_database(documents: Documents, index: SyncedKeywordIndex) -> None:
    index.load()
    documents.rows = {9: (1, ("别的",))}
    documents.counter = 1
    index.refresh()
    assert list(index.match("网关")) == []
    assert ids(index.match("别的")) == [9]


def test_reload_reads_everything_again(documents: Documents, index: SyncedKeywordIndex) -> None:
    index.load()
    documents.rows[1] = (1, ("暗改",))  # a change that the counter did not count
    assert index.refresh()
    assert ids(index.match("网关")) == [1]
    assert index.reload()
    assert list(index.match("网关")) == []
    assert ids(index.match("暗改")) == [1]


def test_an_index_that_cannot_be_loaded_finds_nothing_and_says_so(
    documents: Documents, index: SyncedKeywordIndex, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    documents.broken = OSError("no such\ntable")
    assert list(index.match("网关")) == []
    assert index.find("网关").total == 0
    health = index.health()
    assert health.status == "down"
    assert "OSError: no such table" in health.hint
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "keyword index: the documents could not be read: OSError: no such table"
    ]
    documents.broken = None
    clock[0] += 5
    assert ids(index.match("网关")) == [1]
    assert index.health().status == "ok"


def test_an_index_that_falls_behind_answers_on_and_says_so(
    documents: Documents, index: SyncedKeywordIndex, clock: list[float]
) -> None:
    index.load()
    documents.broken = OSError("gone away")
    assert not index.refresh()
    assert not index.reload()
    assert ids(index.match("网关")) == [1]
    health = index.health()
    assert health.status == "degraded"
    assert health.hint.startswith(
        "2 documents, 3 keywords, change 2; newer changes could not be read: OSError: gone away"
    )
    documents.broken = None
    documents.save(3, "网关")
    clock[0] += 5
    assert index.refresh()
    assert ids(index.match("网关")) == [1, 3]
    assert index.health().status == "ok"


def test_a_failing_source_is_left_alone_a_little_longer_each_time(
    documents: Documents, index: SyncedKeywordIndex, clock: list[float]
) -> None:
    documents.broken = OSError("gone away")
    tries = []
    for _ in range(100):  # ten seconds
        before = documents.counter_reads
        index.refresh()
        if documents.counter_reads > before:
            tries.append(round(clock[0] - 1000, 1))
        clock[0] += 0.1
    assert tries[:4] == [0, 0.3, 0.8, 1.8]
    assert max(later - earlier for earlier, later in pairwise(tries)) <= 2.1


def test_health_is_about_the_index_and_so_loads_it(documents: Documents, index: SyncedKeywordIndex) -> None:
    assert index.health().status == "ok"
    assert index.health().hint == "2 documents, 3 keywords, change 2"
    assert documents.asked_since == [0]


def test_threads_that_ask_at_once_load_once(documents: Documents, index: SyncedKeywordIndex) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ids(index.match("R01")), range(40)))
    assert answers == [[2]] * 40
    assert documents.asked_since == [0]


def test_a_refresh_that_waited_for_another_sees_its_own_change(documents: Documents, index: SyncedKeywordIndex) -> None:
    """A slow reader holds the lock with an older view; the change made meanwhile is found by the lookup after it."""
    index.load()
    documents.save(3, "网关")
    documents.reading.clear()
    documents.go_on.clear()
    slow = Thread(target=index.refresh)
    slow.start()
    assert documents.reading.wait(10)
    documents.save(4, "网关")
    assert ids(index.match("网关")) == [1]  # readers don't wait for the slow one
    mine: list[list[int]] = []

    def look_up() -> None:
        index.refresh()
        mine.append(ids(index.match("网关")))

    quick = Thread(target=look_up)
    quick.start()
    documents.go_on.set()
    slow.join(10)
    quick.join(10)
    assert mine == [[1, 3, 4]]
