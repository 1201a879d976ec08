"""Session memory in the process: the contract, its expiry and its bounds."""

from __future__ import annotations

import logging

import pytest

from clients.session_memory import InProcessSessionMemory
from tests.clients.session_memory_contract import SessionMemoryContract


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> InProcessSessionMemory:
    return InProcessSessionMemory(ttl=60, clock=clock)


class TestInProcess(SessionMemoryContract):
    """The contract, held in the process."""


def test_a_key_expires_as_a_whole(memory: InProcessSessionMemory, clock: Clock) -> None:
    memory.claim("run", unless=[], marks=["a"])
    memory.append("run", "domains", "api")
    memory.increment("run", "lookups")
    clock.now += 60
    assert memory.marked("run") == frozenset()
    assert memory.values("run", "domains") == []
    assert memory.increment("run", "lookups", 0) == 0
    assert memory.claim("run", unless=[frozenset({"a"})], marks=["a"])
    assert memory.marked("run") == {"a"}
    assert memory.values("run", "domains") == []


def test_each_write_renews_the_expiry_and_reading_does_not(memory: InProcessSessionMemory, clock: Clock) -> None:
    memory.claim("run", unless=[], marks=["a"])
    for write in (
        lambda: memory.append("run", "domains", "api"),
        lambda: memory.append("run", "domains", "api"),
        lambda: memory.increment("run", "lookups"),
        lambda: memory.release("run", ["b"]),
        lambda: memory.claim("run", unless=[], marks=["c"]),
    ):
        clock.now += 59
        write()
    assert memory.marked("run") == {"a", "c"}
    clock.now += 59
    memory.increment("run", "lookups", 0)
    memory.values("run", "domains")
    clock.now += 1
    assert memory.marked("run") == frozenset()


def test_expired_keys_are_swept_by_later_writes(memory: InProcessSessionMemory, clock: Clock) -> None:
    for number in range(1_000):
        memory.increment(f"run {number}", "lookups")
    clock.now += 30
    memory.increment("run 0", "lookups")
    clock.now += 30
    assert len(memory) == 1_000
    memory.increment("another", "lookups")
    assert len(memory) == 2
    assert memory.increment("run 0", "lookups", 0) == 2


def test_reading_and_releasing_make_no_key(memory: InProcessSessionMemory) -> None:
    memory.marked("run")
    memory.values("run", "domains")
    memory.increment("run", "lookups", 0)
    memory.release("run", ["a"])
    assert len(memory) == 0


def test_a_full_memory_forgets_the_key_written_longest_ago(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    memory = InProcessSessionMemory(ttl=60, max_keys=3, clock=clock)
    for key in ("a", "b", "c", "a", "d"):
        memory.increment(key, "lookups")
    with caplog.at_level(logging.WARNING):
        memory.increment("e", "lookups")
    assert len(memory) == 3
    assert [memory.increment(key, "lookups", 0) for key in "abcde"] == [2, 0, 0, 1, 1]
    assert "session memory is full" in caplog.text
