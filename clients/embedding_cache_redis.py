"""Query vectors in Redis. Of use where it answers, and nothing but slower embedding where it does not."""

from __future__ import annotations

from clients.redis_connection import CircuitBreaker, open_redis

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
        self._prefix = prefix
        self._ttl = max(1, int(ttl * 1000))
        self._redis = open_redis(url, timeout=timeout)
        self._breaker = CircuitBreaker(url, what="query vectors", left_alone=left_alone)

    def get(self, key: str) -> bytes | None:
        """What is kept under this key, or None."""
        found = self._breaker.ask(lambda: self._redis.get(self._prefix + key), None)
        return found if isinstance(found, bytes) else None

    def put(self, key: str, value: bytes) -> None:
        """Keep it until its time is over."""
        self._breaker.ask(lambda: self._redis.set(self._prefix + key, value, px=self._ttl), None)

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()
