"""Readers never see half a change of the keyword index, however many threads read and write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from retrieval.keyword_index import KeywordEntry, KeywordIndex

_ROUNDS = 300


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    """Threads take turns far more often than usual, so that a torn change would be seen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def entry(document_id: int, *keywords: str) -> KeywordEntry:
    return KeywordEntry(document_id, f"knowledge_base/{document_id}.md", "", keywords, "", "c")


def test_a_document_that_is_replaced_over_and_over_is_found_at_every_moment() -> None:
    index = KeywordIndex()
    versions = [entry(1, "甲网关", "R01"), entry(1, "乙网关", "R02")]
    index.put(versions[0])
    for number in range(2, 30):
        index.put(entry(number, "别的"))
    done = Event()

    def write() -> None:
        for round_ in range(_ROUNDS):
            index.put(versions[round_ % 2])
            index.put(entry(50 + round_ % 7, "甲网关", f"C{round_}"))
            index.remove(50 + (round_ + 3) % 7)
        done.set()

    def read() -> int:
        asked = 0
        while not done.is_set() or asked < 5:
            asked += 1
            for query in ("甲网关和乙网关", "网关", "r01 r02"):
                matches = [match for match in index.match(query, set) if match.entry.document_id == 1]
                assert len(matches) == 1, query
                (match,) = matches
                assert match.entry in versions
                assert match.keywords
                assert set(match.keywords) <= set(match.entry.keywords)
        return asked

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        pool.submit(write).result(60)
        assert all(reader.result(60) >= 5 for reader in readers)


def test_writers_at_the_same_time_leave_a_whole_index() -> None:
    index = KeywordIndex()

    def write(writer: int) -> None:
        for round_ in range(_ROUNDS):
            index.put(entry(writer * 1000 + round_ % 20, "网关", f"W{writer}-{round_}", f"共{round_ % 5}"))
            if round_ % 3 == 0:
                index.remove(writer * 1000 + (round_ + 7) % 20)
        for number in range(20):
            index.put(entry(writer * 1000 + number, "网关", f"K{writer}.{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(index) == 80
    assert index.keyword_count == 81
    assert len(index.match("网关")) == 80
    for writer in range(4):
        for number in range(20):
            (match,) = index.match(f"k{writer}.{number}")
            assert match.entry.document_id == writer * 1000 + number
    assert list(index.match("W1-3")) == []
