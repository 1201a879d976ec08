"""What others touched, until it is at rest: names are noted as the system tells them, and taken in together.

A save is several events, a checkout thousands, and a file that is being written is not yet what it will be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

QUIET_SECONDS = 0.3
"""Of a name: nothing happened to it for so long, and it is the size and age that it was. Of all: the burst is over."""
LONGEST_SECONDS = 1.0
"""A burst that does not end is taken in by pieces."""
GROWING_SECONDS = 10.0
"""A file that grows so long is taken as it is, and again later."""

_Look = tuple[int, int, int] | None


@dataclass
class _Note:
    first: float
    last: float
    look: _Look


class Touched:
    """Names below ``base``, relative and with ``/``. Not for several threads."""

    def __init__(self, base: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._base = base
        self._clock = clock
        self._notes: dict[str, _Note] = {}
        self._last = 0.0
        self._began: float | None = None

    def __bool__(self) -> bool:
        return bool(self._notes)

    def note(self, paths: Iterable[str], folders: Iterable[str] = ()) -> None:
        """Something happened to these. What can be no document is left out; ``folders`` stand for all below them."""
        now = self._clock()
        of_folders = frozenset(folders)
        for path in paths:
            if not is_hidden(path) and (path in of_folders or path.lower().endswith(".md")):
                former = self._notes.get(path)
                self._notes[path] = _Note(former.first if former else now, now, self._look(path))
                self._last = now
                self._began = now if self._began is None else self._began

    def take(self) -> frozenset[str]:
        """What is at rest, when the burst is over or has lasted long enough; it is forgotten here."""
        now = self._clock()
        if self._began is None or (now - self._last < QUIET_SECONDS and now - self._began < LONGEST_SECONDS):
            return frozenset()
        ready = frozenset(path for path, note in self._notes.items() if self._is_at_rest(path, note, now))
        for path in ready:
            del self._notes[path]
        self._began = now if self._notes else None
        return ready

    def _is_at_rest(self, path: str, note: _Note, now: float) -> bool:
        if now - note.first >= GROWING_SECONDS:
            return True
        look = self._look(path)
        if look != note.look:
            note.look, note.last = look, now
        return now - note.last >= QUIET_SECONDS

    def _look(self, path: str) -> _Look:
        """Which file, how large, how old; None where there is none."""
        try:
            there = os.stat(self._base / path)  # noqa: PTH116 (three numbers of one call)
        except OSError:
            return None
        return there.st_ino, there.st_size, there.st_mtime_ns


def is_hidden(path: str) -> bool:
    """Whether a name, or a folder on the way to it, begins with a dot: git's, ours, and what editors put beside."""
    return any(part.startswith(".") for part in path.split("/"))
