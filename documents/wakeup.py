"""Telling the worker that a row waits: a bell in the embedded process, a Celery message where a broker is set.

The row is the job, the hint only makes it quick: a lost one is found by the next sweep.
"""

from __future__ import annotations

import atexit
import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import Celery
from django.conf import settings

from clients.masking import mask_credentials

log = logging.getLogger("documents.wakeup")
RUN_DUE_JOBS = "documents.run_due_jobs"
RUN_LLM_JOBS = "documents.run_llm_jobs"
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
EXPIRES_SECONDS = 600
"""A hint that nobody took is worth nothing after many sweeps; while no worker runs they would pile up."""


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


@dataclass(frozen=True)
class Hint:
    """One message, addressed when it is given; to be heard ``after`` so many seconds."""

    broker_url: str
    queue: str
    task: str
    after: float = 0.0


class Hints:
    """Sends Celery messages from a thread of its own: an upload never waits for a broker.

    Hints that are given while one is on its way become one message: it is only a wake-up, and whoever hears it takes
    all that is due.
    """

    def __init__(self, send: Callable[[Hint], None]) -> None:
        self._send = send
        self._condition = threading.Condition()
        self._waiting: dict[Hint, None] = {}
        self._sending = False
        self._thread: threading.Thread | None = None
        self._failed = False

    def give(self, hint: Hint) -> None:
        """Have a message sent; answers at once."""
        with self._condition:
            self._waiting[hint] = None
            if self._thread is None or not self._thread.is_alive():  # the first, or the child of a fork
                self._thread = threading.Thread(target=self._run, name="documents-hints", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent or given up; False where that took too long."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._waiting and not self._sending, timeout)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: bool(self._waiting))
                taken, self._sending = list(self._waiting), True
                self._waiting.clear()
            for hint in taken:
                self._try(hint)
            with self._condition:
                self._sending = False
                self._condition.notify_all()

    def _try(self, hint: Hint) -> None:
        try:
            self._send(hint)
        except Exception as fault:  # noqa: BLE001 (degradation point: a broker that is down; the row waits for the sweep)
            if not self._failed:
                reason = mask_credentials(" ".join(str(fault).split()))
                log.warning("the broker did not take the hint (%s); the sweep finds the row within a minute", reason)
            self._failed = True
            return
        if self._failed:
            log.info("the broker takes hints again")
        self._failed = False


@functools.cache
def _sender(broker_url: str) -> Celery:
    """A Celery application for sending alone: any process may give the hint, whatever it has imported."""
    sender = Celery("kbsite-hints", broker=broker_url, set_as_current=False)
    sender.conf.broker_connection_timeout = CONNECT_SECONDS
    sender.conf.broker_transport_options = _patience(broker_url)
    sender.conf.broker_pool_limit = 0  # a fresh connection each time: a kept one may have been cut since
    return sender


def _patience(broker_url: str) -> dict[str, Any]:
    """A broker that says nothing is a broker that is down, in each transport's own words."""
    if broker_url.startswith(("redis:", "rediss:", "sentinel:")):
        return {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": ANSWER_SECONDS}
    if broker_url.startswith(("amqp:", "amqps:", "pyamqp:")):
        return {"confirm_publish": True, "read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
    return {}


def _send(hint: Hint) -> None:
    # By name: the task's module imports the worker, and the worker's callers import this.
    _sender(hint.broker_url).send_task(
        hint.task,
        queue=hint.queue,
        retry=False,
        expires=EXPIRES_SECONDS,
        **({"countdown": hint.after} if hint.after else {}),
    )


hints = Hints(_send)
# A command is over before its hint has gone.
atexit.register(hints.flush, CONNECT_SECONDS)


def wake_worker(*, after: float = 0.0) -> None:
    """Hint that there is work, or will be ``after`` so many seconds. Never raises, never waits for the work or for a
    broker. The embedded worker looks every second by itself."""
    _wake(RUN_DUE_JOBS, after)


def wake_llm_worker(*, after: float = 0.0) -> None:
    """Hint that a language model has something to write, as :func:`wake_worker`."""
    _wake(RUN_LLM_JOBS, after)


def _wake(task: str, after: float) -> None:
    bell.ring()
    if settings.CELERY_BROKER_URL:
        queue = settings.CELERY_TASK_ROUTES.get(task, {}).get("queue", settings.CELERY_QUEUE)
        hints.give(Hint(settings.CELERY_BROKER_URL, queue, task, after))
