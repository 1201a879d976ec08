"""A lookup whose parts fail still answers, and says so (L1-5)."""

from __future__ import annotations

from typing import Any

import pytest

from clients.interfaces import ClientError, ClientTimeout
from tests.retrieval.fakes import BrokenMemory, BrokenStore, Document, World

ONE = Document(1, "knowledge_base/api/1.md", "甲", "# 甲\n\n一\n", keywords=("超时",), near={"一": 0.9})
TWO = Document(2, "knowledge_base/api/2.md", "乙", "# 乙\n\n二\n", keywords=("超时",))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_a_store_that_is_down_leaves_the_exact_result(caplog: pytest.LogCaptureFixture) -> None:
    world = World(ONE, TWO)
    world.store = BrokenStore()
    outcome = world.look_up("超时")
    assert outcome.result.found is True
    assert outcome.result.primary is not None
    assert outcome.result.relevance_level == "REFERENCE"
    assert outcome.result.message is not None
    assert "语义检索暂时不可用" in outcome.result.message
    assert outcome.degraded == "vector_store"
    assert outcome.error == "store_unavailable: no route to the store"
    assert len(warnings(caplog)) == 1
    assert "no route to the store" in warnings(caplog)[0]


@pytest.mark.parametrize("fault", [ClientTimeout("no answer in 5 s"), ClientError("refused", code="refused")])
def test_an_embedder_that_fails_leaves_the_exact_result(fault: ClientError, caplog: pytest.LogCaptureFixture) -> None:
    world = World(ONE, TWO)
    world.embedder.fails = fault
    outcome = world.look_up("超时")
    assert outcome.result.found is True
    assert outcome.degraded == "embedder"
    assert str(fault) in outcome.error
    assert len(warnings(caplog)) == 1


def test_a_unique_match_does_not_notice_that_the_store_is_down() -> None:
    world = World(ONE)
    world.store = BrokenStore()
    outcome = world.look_up("超时")
    assert outcome.result.relevance_level == "PRECISE"
    assert outcome.degraded == ""
    assert outcome.result.message is None


def test_a_memory_that_is_down_leaves_the_lookup_without_memory(caplog: pytest.LogCaptureFixture) -> None:
    world = World(ONE, TWO)
    world.memory = BrokenMemory()
    for _ in range(3):
        outcome = world.look_up("超时", session="s", budget=1)
        assert outcome.result.found is True
        assert outcome.result.primary is not None
        assert outcome.result.primary.source == "knowledge_base/api/1.md"
        assert outcome.result.retrieved_domains == ("api",)
        assert outcome.result.message == "检索记忆暂时不可用，结果可能与之前重复；已经掌握的内容请直接使用。"
        assert outcome.degraded == "memory"
        assert "the memory does not answer" in outcome.error
    assert len(warnings(caplog)) == 3, "once a lookup"


def test_a_memory_that_fails_half_way_does_not_break_the_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ONE)

    def fail(*_: Any, **__: Any) -> bool:
        raise ClientError("gone", code="memory_unavailable")

    monkeypatch.setattr(world.memory, "claim", fail)
    outcome = world.look_up("超时", session="s")
    assert outcome.result.relevance_level == "PRECISE"
    assert outcome.degraded == "memory"
    assert outcome.result.retrieved_domains == ("api",)


def test_everything_at_once_is_named() -> None:
    world = World(ONE, TWO)
    world.memory, world.store = BrokenMemory(), BrokenStore()
    outcome = world.look_up("超时", session="s")
    assert outcome.degraded == "vector_store,memory"
    assert outcome.result.found is True


def test_a_keyword_index_that_cannot_be_loaded_leaves_the_lookup_to_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ONE, TWO)

    def fail(*_: Any) -> Any:
        raise RuntimeError("no such table")

    monkeypatch.setattr(world, "entries_since", fail)
    outcome = world.look_up("超时")
    assert outcome.result.primary is None
    assert outcome.result.supplement is not None
    assert outcome.result.message is not None
    assert outcome.result.message.startswith("精确匹配暂时不可用")
    assert outcome.degraded == "keyword_index"
    world.store = BrokenStore()
    missed = world.look_up("超时")
    assert missed.result.found is False
    assert missed.degraded == "keyword_index,vector_store"
