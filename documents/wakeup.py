"""Telling the worker that a row waits: a bell in the embedded process, a Celery message where a broker is set.

The row is the job, the hint only makes it quick: a lost one is found by the next sweep.
"""

from __future__ import annotations

import functools
import logging
import threading

from celery import Celery
from django.conf import settings

log = logging.getLogger("documents.wakeup")
RUN_DUE_JOBS = "documents.run_due_jobs"


class Bell:
    """Wakes threads that rest. Each remembers what it heard last: a ring between its look and its rest is not lost."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung = 0

    def ring(self) -> None:
        """Wake everyone."""
        with self._condition:
            self._rung += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """How often it rang; take this before looking for work."""
        with self._condition:
            return self._rung

    def wait(self, heard: int, timeout: float) -> None:
        """Rest until it rings again after ``heard``, or ``timeout`` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung != heard, timeout)


bell = Bell()


@functools.cache
def _sender(broker_url: str) -> Celery:
    """A Celery application for sending alone: any process may give the hint, whatever it has imported."""
    return Celery("kbsite-hints", broker=broker_url, set_as_current=False)


def wake_worker() -> None:
    """Hint that there is work. Never raises, never waits for the work."""
    bell.ring()
    if not settings.CELERY_BROKER_URL:
        return
    try:
        # By name: the task's module imports the worker, and the worker's callers import this.
        _sender(settings.CELERY_BROKER_URL).send_task(RUN_DUE_JOBS, retry=False)
    except Exception as fault:  # noqa: BLE001 (degradation point: a broker that is down; the row waits for the sweep)
        log.warning("the broker did not take the hint (%s); the sweep finds the row within a minute", fault)
