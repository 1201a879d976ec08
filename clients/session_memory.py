"""Small shared state with an expiry: the action memory's ground, in this process or in Redis.

An empty set in ``unless`` refuses nothing. Reading, and taking back what is not there, makes and renews nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clients.interfaces import PartHealth
from clients.session_memory_redis import RedisSessionMemory

__all__ = ["InProcessSessionMemory", "RedisSessionMemory"]

logger = logging.getLogger(__name__)


@dataclass
class _Entry:
    expires: float
    marks: set[str] = field(default_factory=set)
    lists: dict[str, dict[str, None]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)


class InProcessSessionMemory:
    """Session memory of one process. ``ttl`` is in seconds; at most ``max_keys`` keys are held, the oldest go first.

    A write puts its key at the end, so the keys stand in the order of their expiry and the sweep looks only in front.
    """

    def __init__(self, *, ttl: float, max_keys: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl = ttl
        self._max_keys = max_keys
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def claim(self, key: str, *, unless: Sequence[frozenset[str]], marks: Sequence[str]) -> bool:
        """Mark ``marks`` unless one of the sets is already wholly marked. True when it marked."""
        with self._lock:
            entry = self._live(key)
            marked = entry.marks if entry else set()
            if any(one and one <= marked for one in unless):
                return False
            self._written(key).marks.update(marks)
            return True

    def release(self, key: str, marks: Sequence[str]) -> None:
        """Take marks back."""
        with self._lock:
            if self._live(key):
                self._written(key).marks.difference_update(marks)

    def marked(self, key: str) -> frozenset[str]:
        """All marks."""
        with self._lock:
            entry = self._live(key)
            return frozenset(entry.marks) if entry else frozenset()

    def append(self, key: str, name: str, value: str) -> bool:
        """Add a value to a list of distinct values. True when it was new."""
        with self._lock:
            values = self._written(key).lists.setdefault(name, {})
            if value in values:
                return False
            values[value] = None
            return True

    def values(self, key: str, name: str) -> list[str]:
        """The list's values, in the order of their first append."""
        with self._lock:
            entry = self._live(key)
            return list(entry.lists.get(name, ())) if entry else []

    def increment(self, key: str, name: str, by: int = 1) -> int:
        """Add to a counter and give its new value; ``by=0`` reads it."""
        with self._lock:
            if by == 0:
                entry = self._live(key)
                return entry.counters.get(name, 0) if entry else 0
            counters = self._written(key).counters
            counters[name] = counters.get(name, 0) + by
            return counters[name]

    def clear(self, key: str) -> None:
        """Forget everything of this key."""
        with self._lock:
            self._entries.pop(key, None)

    def health(self) -> PartHealth:
        """Always ok: it is this process' own memory."""
        return PartHealth("ok")

    def __len__(self) -> int:
        """How many keys are held, expired ones that were not swept yet included."""
        with self._lock:
            return len(self._entries)

    def _live(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        return entry if entry and entry.expires > self._clock() else None

    def _written(self, key: str) -> _Entry:
        """The key's entry, made if missing or expired, its expiry renewed; the front is swept."""
        now = self._clock()
        entry = self._live(key) or _Entry(expires=0.0)
        entry.expires = now + self._ttl
        self._entries[key] = entry
        self._entries.move_to_end(key)
        while self._entries and next(iter(self._entries.values())).expires <= now:
            self._entries.popitem(last=False)
        if len(self._entries) > self._max_keys:
            forgotten, _entry = self._entries.popitem(last=False)
            logger.warning("session memory is full (%d keys); forgot %s before its time", self._max_keys, forgotten)
        return entry
