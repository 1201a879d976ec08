"""A tenth of `python -m bench.reliability` on SQLite and Milvus Lite: the server is killed twenty times under four
people who write, and by somebody who edits files past it."""

from __future__ import annotations

from pathlib import Path

from bench.reliability.answers import contended_writes
from bench.reliability.kills import Run
from bench.reliability.stacks import EmbeddedStack, empty


def test_twenty_kills_lose_nothing_bring_nothing_back_and_leave_no_orphan(tmp_path: Path) -> None:
    stack = EmbeddedStack(empty(tmp_path / "site"))
    try:
        figures = Run(stack, seed=11).go(kills=20, acknowledged=100)
    finally:
        stack.stop()
    assert figures.kills >= 20
    assert len(figures.places) >= 5  # at named places, not at random moments alone
    assert figures.acknowledged >= 100
    assert figures.faults() == {}


def test_no_write_fails_for_another_on_sqlite(tmp_path: Path) -> None:
    stack = EmbeddedStack(empty(tmp_path / "site"))
    try:
        stack.start()
        assert contended_writes(stack.sites[0], writes=64) == []
    finally:
        stack.stop()
