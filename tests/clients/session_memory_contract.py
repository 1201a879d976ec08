"""The promises of ``SessionMemory``; a test class for each implementation takes them over with its own ``memory``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from clients.interfaces import SessionMemory


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(number)`` in many threads that begin together."""
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait()
        work(number)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change places in the midst of things, so that a missing lock shows
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


class SessionMemoryContract:
    """Each test gets a ``memory`` that holds nothing under the keys it uses."""

    def test_a_part_is_claimed_once(self, memory: SessionMemory) -> None:
        assert memory.claim("run", unless=[frozenset({"a"})], marks=["a"]) is True
        assert memory.claim("run", unless=[frozenset({"a"})], marks=["a"]) is False
        assert memory.marked("run") == {"a"}

    def test_a_claim_is_refused_only_when_a_whole_set_is_marked(self, memory: SessionMemory) -> None:
        memory.claim("run", unless=[], marks=["a", "b"])
        assert memory.claim("run", unless=[frozenset({"a", "c"}), frozenset({"d"})], marks=["c", "e"]) is True
        assert memory.claim("run", unless=[frozenset({"x"}), frozenset({"a", "c"})], marks=["f"]) is False
        assert memory.marked("run") == {"a", "b", "c", "e"}

    def test_an_empty_set_refuses_nothing(self, memory: SessionMemory) -> None:
        assert memory.claim("run", unless=[frozenset(), frozenset({"a"})], marks=["a"]) is True
        assert memory.claim("run", unless=[frozenset(), frozenset({"a"})], marks=["b"]) is False
        assert memory.claim("run", unless=[frozenset()], marks=["b"]) is True

    def test_a_claim_of_nothing_is_only_a_question(self, memory: SessionMemory) -> None:
        assert memory.claim("run", unless=[frozenset({"a"})], marks=[]) is True
        assert memory.marked("run") == frozenset()

    def test_of_32_threads_that_claim_one_part_exactly_one_wins(self, memory: SessionMemory) -> None:
        for turn in range(5):
            won: list[int] = []

            def claim(number: int, turn: int = turn, won: list[int] = won) -> None:
                mark = f"part {turn}"
                if memory.claim("run", unless=[frozenset({mark})], marks=[mark, f"{turn} by {number}"]):
                    won.append(number)

            in_threads(32, claim)
            assert len(won) == 1
        assert len(memory.marked("run")) == 10

    def test_what_is_released_can_be_claimed_again(self, memory: SessionMemory) -> None:
        memory.claim("run", unless=[], marks=["a", "b", "c"])
        memory.release("run", ["a", "b", "unknown"])
        assert memory.marked("run") == {"c"}
        assert memory.claim("run", unless=[frozenset({"a"})], marks=["a"]) is True
        memory.release("another", ["a"])
        memory.release("run", [])
        assert memory.marked("run") == {"a", "c"}

    def test_a_list_keeps_the_order_of_the_first_append(self, memory: SessionMemory) -> None:
        assert [memory.append("run", "domains", value) for value in ("payment", "api", "payment", "支付")] == [
            True,
            True,
            False,
            True,
        ]
        assert memory.values("run", "domains") == ["payment", "api", "支付"]

    def test_long_lists_stay_in_order(self, memory: SessionMemory) -> None:
        values = [str(number) for number in range(25)]
        for value in values:
            memory.append("run", "list", value)
        assert memory.values("run", "list") == values

    def test_lists_of_similar_names_are_apart(self, memory: SessionMemory) -> None:
        memory.append("run", "a", "b:c")
        memory.append("run", "a:b", "c")
        memory.append("run", "", "a:b:c")
        assert memory.values("run", "a") == ["b:c"]
        assert memory.values("run", "a:b") == ["c"]
        assert memory.values("run", "") == ["a:b:c"]
        assert memory.values("run", "none") == []

    def test_a_counter_begins_at_nought_and_may_be_read(self, memory: SessionMemory) -> None:
        assert memory.increment("run", "lookups", 0) == 0
        assert memory.increment("run", "lookups") == 1
        assert memory.increment("run", "lookups", 4) == 5
        assert memory.increment("run", "lookups", -2) == 3
        assert memory.increment("run", "lookups", 0) == 3
        assert memory.increment("run", "others", 0) == 0

    def test_counting_in_many_threads_loses_nothing(self, memory: SessionMemory) -> None:
        seen: list[int] = []
        in_threads(16, lambda _number: seen.extend(memory.increment("run", "lookups") for _ in range(5)))
        assert sorted(seen) == list(range(1, 81))

    def test_the_kinds_of_state_do_not_meet(self, memory: SessionMemory) -> None:
        memory.claim("run", unless=[], marks=["same"])
        memory.append("run", "same", "same")
        memory.increment("run", "same", 7)
        assert memory.marked("run") == {"same"}
        assert memory.values("run", "same") == ["same"]
        assert memory.increment("run", "same", 0) == 7

    def test_keys_do_not_meet_and_one_is_cleared_alone(self, memory: SessionMemory) -> None:
        for key in ("run", "run:2", "运行"):
            memory.claim(key, unless=[], marks=["a"])
            memory.append(key, "list", "v")
            memory.increment(key, "counter")
        memory.clear("run")
        memory.clear("never seen")
        assert memory.marked("run") == frozenset()
        assert memory.values("run", "list") == []
        assert memory.increment("run", "counter", 0) == 0
        assert memory.marked("run:2") == memory.marked("运行") == {"a"}

    def test_odd_texts_come_back_as_they_were(self, memory: SessionMemory) -> None:
        odd = ["", "knowledge_base/支付 网关.md\x00deadbeef\x00退款\n", "a:b", "m:a", "😀", "\ud800"]
        memory.claim("run", unless=[], marks=odd)
        for text in odd:
            memory.append("run", "list", text)
        assert memory.marked("run") == set(odd)
        assert memory.values("run", "list") == odd

    def test_it_is_healthy(self, memory: SessionMemory) -> None:
        assert memory.health().status == "ok"
