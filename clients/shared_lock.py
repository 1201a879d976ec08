"""A lock that many readers share and one writer holds alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """Readers run together; :meth:`exclusive` waits for them, keeps new ones out, and so is never starved.

    Not re-entrant: a thread that holds it must not ask for it again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writer_wanted = 0
        self._writing = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._writer_wanted)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._changed:
            self._writer_wanted += 1
            try:
                self._changed.wait_for(lambda: not self._writing and not self._readers)
                self._writing = True
            finally:
                self._writer_wanted -= 1
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
