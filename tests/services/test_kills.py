"""A tenth of `python -m bench.reliability` on MariaDB and Redis: two web processes and a worker are killed under people
who write; and lookups in both while documents are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.reliability.answers import lookups_while_deleting
from bench.reliability.kills import Run
from bench.reliability.services import fleet_stack
from bench.reliability.stacks import FleetStack, empty
from tests.services.conftest import needs
from tests.services.reachable import MARIADB


@pytest.fixture
def stack(tmp_path: Path, redis_url: str) -> Iterator[FleetStack]:
    needs(MARIADB)
    with fleet_stack(empty(tmp_path / "site"), redis_url) as made:
        yield made


def test_twenty_kills_lose_nothing_bring_nothing_back_and_leave_no_orphan(stack: FleetStack) -> None:
    figures = Run(stack, seed=11).go(kills=20, acknowledged=100)
    assert figures.kills >= 20
    assert len(figures.places) >= 5
    assert figures.acknowledged >= 100
    assert figures.faults() == {}


def test_no_lookup_that_starts_after_a_deletion_was_answered_returns_the_document(stack: FleetStack) -> None:
    stack.start()
    seen = lookups_while_deleting(stack.sites, lookups=1000, deletions=20)
    assert (seen.deleted, seen.lookups) == (20, 1000)
    assert seen.after_an_answer >= 100  # else nothing was asked
    assert seen.returned == []
