"""Opening Redis, alike for everything that is kept there, and leaving it alone for a while after it failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

from clients.interfaces import ClientError
from clients.masking import mask_credentials

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


def connection_options(timeout: float) -> dict[str, Any]:
    """How a connection behaves: ``timeout`` seconds bound connecting and each answer.

    A pooled connection that a restart of Redis cut is replaced once. A time-out is not tried again: what was asked for
    may have been done, and twice is wrong for most of it.
    """
    return {
        "socket_connect_timeout": timeout,
        "socket_timeout": timeout,
        "health_check_interval": 30,
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    }


def open_redis(url: str, *, timeout: float, **options: Any) -> redis.Redis:
    """The Redis at ``url``; nothing is sent yet. ``ClientError`` where that is no address."""
    try:
        return redis.Redis.from_url(url, **connection_options(timeout), **options)
    except ValueError as error:
        raise ClientError(
            f"REDIS_URL is not an address: {mask_credentials(str(error))}",
            code="memory_unavailable",
            hint="Set REDIS_URL as in redis://127.0.0.1:6379/0.",
        ) from error


class CircuitBreaker:
    """Asks a Redis that may be away for what is of use and not needed.

    A failure is told once in the log until Redis answers again, and for ``left_alone`` seconds nobody asks anew: each
    request would wait for the time-out.
    """

    def __init__(self, url: str, *, what: str, left_alone: float) -> None:
        self._url = mask_credentials(url)
        self._what = what
        self._left_alone = left_alone
        self._lock = threading.Lock()
        self._failed = False
        self._quiet_until = 0.0

    def ask(self, call: Callable[[], Answer], otherwise: Answer) -> Answer:
        """What ``call`` gives, or ``otherwise`` while Redis is away."""
        if time.monotonic() < self._quiet_until:
            return otherwise
        try:
            answer = call()
        except (RedisError, OSError) as error:
            # Degradation point: without Redis the caller does with less.
            self._note_failure(error)
            return otherwise
        self._note_answer()
        return answer

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            self._quiet_until = time.monotonic() + self._left_alone
            first, self._failed = not self._failed, True
        if first:
            reason = mask_credentials(" ".join(str(error).split()))
            log.warning("%s are not shared, Redis at %s failed: %s", self._what, self._url, reason)

    def _note_answer(self) -> None:
        if not self._failed:
            return
        with self._lock:
            again, self._failed = self._failed, False
        if again:
            log.info("%s are shared again, Redis at %s answers", self._what, self._url)
