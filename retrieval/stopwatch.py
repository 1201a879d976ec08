"""Milliseconds by stage of one lookup."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from retrieval.lookup_types import Timings


class Stopwatch:
    """Adds up what each named stage took; a stage may run more than once."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._spent: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + (time.perf_counter() - started) * 1000.0

    def timings(self) -> Timings:
        """So far."""
        return Timings(
            total_ms=(time.perf_counter() - self._started) * 1000.0,
            l0_ms=self._spent.get("l0"),
            embed_ms=self._spent.get("embed"),
            l1_ms=self._spent.get("l1"),
            memory_ms=self._spent.get("memory"),
        )
