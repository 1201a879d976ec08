"""A Redis that is not there, or whose address is wrong: an error of ours with a hint, and no password in it."""

from __future__ import annotations

import pytest

from clients.interfaces import ClientError
from clients.session_memory import RedisSessionMemory

AWAY = "redis://someone:s3cret@127.0.0.1:1/0"


def test_every_call_says_that_redis_is_away() -> None:
    memory = RedisSessionMemory(AWAY, ttl=60, timeout=0.5)
    for call in (
        lambda: memory.claim("run", unless=[], marks=["a"]),
        lambda: memory.release("run", ["a"]),
        lambda: memory.marked("run"),
        lambda: memory.append("run", "domains", "api"),
        lambda: memory.values("run", "domains"),
        lambda: memory.increment("run", "lookups"),
        lambda: memory.increment("run", "lookups", 0),
        lambda: memory.clear("run"),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.code == "memory_unavailable"
        assert caught.value.retryable
        assert "REDIS_URL" in caught.value.hint
        assert "s3cret" not in str(caught.value)
    memory.close()


def test_health_is_down_with_a_hint_and_does_not_raise() -> None:
    memory = RedisSessionMemory(AWAY, ttl=60, timeout=0.5)
    health = memory.health()
    assert health.status == "down"
    assert "REDIS_URL" in health.hint
    assert "s3cret" not in health.hint
    memory.close()


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ClientError) as caught:
        RedisSessionMemory("127.0.0.1:6379", ttl=60)
    assert caught.value.code == "memory_unavailable"
    assert "redis://" in caught.value.hint
