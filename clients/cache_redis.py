"""Django's cache on Redis, for what every process must agree on: throttles, idempotency keys, short-lived answers.

None of it is worth refusing a request for. While Redis is away nothing is found and nothing kept: throttles admit, and
a call that is sent twice is done twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.redis import RedisCache, RedisCacheClient

from clients.redis_connection import CircuitBreaker, connection_options

TIMEOUT = 1.0
"""Seconds that one answer may take."""
LEFT_ALONE = 5.0
"""Seconds that a Redis which failed is not asked."""
# What each call of Django's cache answers without Redis.
_WITHOUT: dict[str, Callable[..., Any]] = {
    "add": lambda _key, _value, _timeout: True,  # nobody else is known to have it
    "get": lambda _key, default: default,
    "set": lambda _key, _value, _timeout: None,
    "touch": lambda _key, _timeout: False,
    "delete": lambda _key: False,
    "get_many": lambda _keys: {},
    "has_key": lambda _key: False,
    "incr": lambda _key, delta: delta,  # as if it had begun at nothing
    "set_many": lambda _data, _timeout: None,
    "delete_many": lambda _keys: None,
    "clear": lambda: False,
}


class _ForgivingClient:
    """Django's client, asked through a circuit breaker."""

    def __init__(self, servers: tuple[str, ...], *, timeout: float = TIMEOUT, left_alone: float = LEFT_ALONE) -> None:
        self._client = RedisCacheClient(list(servers), **connection_options(timeout))
        self._breaker = CircuitBreaker(servers[0], what="throttles and idempotency keys", left_alone=left_alone)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call, without = getattr(self._client, name), _WITHOUT[name]
        return lambda *given: self._breaker.ask(lambda: call(*given), without(*given))


@functools.cache
def _client(servers: tuple[str, ...], **options: float) -> _ForgivingClient:
    return _ForgivingClient(servers, **options)


class ForgivingRedisCache(RedisCache):
    """``RedisCache`` that answers without Redis too. OPTIONS: ``timeout`` and ``left_alone``, in seconds."""

    _servers: list[str]
    _options: dict[str, float]

    @property
    def _cache(self) -> Any:
        """Django makes a cache for each thread; connections and what is known of an outage are the process'."""
        return _client(tuple(self._servers), **self._options)
