"""Sharing one large model among threads: loaded once, used by one call at a time, questions before passages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from clients.interfaces import ClientError

Thing = TypeVar("Thing")
AGAIN_AFTER = 30.0
"""Seconds after which what did not load is tried again: weights of two gigabytes are not read for every question."""


class NotInTime(Exception):  # noqa: N818 (as TimeoutError has it)
    """The patience of a caller is over."""


class Loader(Generic[Thing]):
    """Runs ``load`` once, in a thread of its own, so that a caller may stop waiting while the loading goes on.

    ``load`` raises ``ClientError`` and nothing else. After a failure it is run again, but not at once.
    """

    def __init__(self, load: Callable[[], Thing], *, again_after: float = AGAIN_AFTER) -> None:
        self._load = load
        self._again_after = again_after
        self._lock = threading.Lock()
        self._loading: Future[Thing] | None = None
        self._failed_at = 0.0

    def get(self, patience: float | None = None) -> Thing:
        """What was loaded. Raises what loading raised; :class:`NotInTime` after ``patience`` seconds."""
        loading = self._started()
        try:
            return loading.result(timeout=patience)
        except TimeoutError:
            raise NotInTime from None

    @property
    def loading(self) -> bool:
        """Whether it is on its way."""
        with self._lock:
            return self._loading is not None and not self._loading.done()

    @property
    def problem(self) -> ClientError | None:
        """Why the last try failed, where it did."""
        with self._lock:
            loading = self._loading
        error = loading.exception() if loading is not None and loading.done() else None
        return error if isinstance(error, ClientError) else None

    def forget(self) -> None:
        """Let go of it; the next call loads anew."""
        with self._lock:
            self._loading = None

    def _started(self) -> Future[Thing]:
        with self._lock:
            if self._loading is None or self._failed_long_ago(self._loading):
                self._loading = Future()
                # Not of a pool: its threads are waited for when the process ends.
                threading.Thread(target=self._run, args=(self._loading,), name="loading", daemon=True).start()
            return self._loading

    def _failed_long_ago(self, loading: Future[Thing]) -> bool:
        failed = loading.done() and loading.exception() is not None
        return failed and time.monotonic() - self._failed_at >= self._again_after

    def _run(self, loading: Future[Thing]) -> None:
        try:
            loaded = self._load()
        except BaseException as error:  # noqa: BLE001 (handed to those who wait)
            self._failed_at = time.monotonic()
            loading.set_exception(error)
        else:
            loading.set_result(loaded)


class Turns:
    """A lock with two queues: while a question waits, no passage takes its turn."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False
        self._questions = 0

    @contextmanager
    def question(self, patience: float | None = None) -> Iterator[None]:
        """The next turn; :class:`NotInTime` after ``patience`` seconds."""
        with self._changed:
            self._questions += 1
            try:
                if not self._changed.wait_for(lambda: not self._taken, timeout=patience):
                    raise NotInTime
                self._taken = True
            finally:
                self._questions -= 1
                self._changed.notify_all()
        yield from self._turn()

    @contextmanager
    def passages(self) -> Iterator[None]:
        """A turn that no question wants, however long that takes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken and not self._questions)
            self._taken = True
        yield from self._turn()

    def _turn(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()
