"""Query vectors in Redis. Of use where it answers, and nothing but slower embedding where it does not."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

from clients.interfaces import ClientError
from clients.masking import mask_credentials

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
PREFIX = "kbsite:query-vector:"
TTL = 24 * 3600
"""Seconds. A vector of BGE-M3 is 4 KB."""
TIMEOUT = 0.25
"""Seconds. BGE-M3 itself takes about as long on a processor."""
LEFT_ALONE = 30.0
"""Seconds that a Redis which failed is not asked: each question would wait for it."""


class RedisVectors:
    """Bytes on the Redis at ``url``. A failure is a miss, told once in the log until Redis answers again."""

    def __init__(
        self,
        url: str,
        *,
        ttl: float = TTL,
        prefix: str = PREFIX,
        timeout: float = TIMEOUT,
        left_alone: float = LEFT_ALONE,
    ) -> None:
        self._url = mask_credentials(url)
        self._prefix = prefix
        self._ttl = max(1, int(ttl * 1000))
        self._left_alone = left_alone
        self._lock = threading.Lock()
        self._failed = False
        self._quiet_until = 0.0
        try:
            self._redis = redis.Redis.from_url(
                url,
                socket_connect_timeout=timeout,
                socket_timeout=timeout,
                # A pooled connection that a restart of Redis cut is replaced once.
                retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
            )
        except ValueError as error:
            raise ClientError(
                f"REDIS_URL is not an address: {mask_credentials(str(error))}",
                code="memory_unavailable",
                hint="Set REDIS_URL as in redis://127.0.0.1:6379/0.",
            ) from error

    def get(self, key: str) -> bytes | None:
        """What is kept under this key, or None."""
        found = self._asked(lambda: self._redis.get(self._prefix + key))
        return found if isinstance(found, bytes) else None

    def put(self, key: str, value: bytes) -> None:
        """Keep it until its time is over."""
        self._asked(lambda: self._redis.set(self._prefix + key, value, px=self._ttl))

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()

    def _asked(self, call: Callable[[], Answer]) -> Answer | None:
        if time.monotonic() < self._quiet_until:
            return None
        try:
            answer = call()
        except (RedisError, OSError) as error:
            # Degradation point: the vector is made anew.
            self._note_failure(error)
            return None
        self._note_answer()
        return answer

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            self._quiet_until = time.monotonic() + self._left_alone
            first, self._failed = not self._failed, True
        if first:
            reason = mask_credentials(" ".join(str(error).split()))
            log.warning("query vectors are not shared, Redis at %s failed: %s", self._url, reason)

    def _note_answer(self) -> None:
        with self._lock:
            again, self._failed = self._failed, False
        if again:
            log.info("query vectors are shared again, Redis at %s answers", self._url)
