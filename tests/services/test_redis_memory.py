"""Session memory on a real Redis: the contract, its expiry, and what an outage looks like."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis

from clients.interfaces import ClientError, ClientTimeout
from clients.session_memory import RedisSessionMemory
from tests.clients.session_memory_contract import SessionMemoryContract
from tests.services.conftest import needs
from tests.services.reachable import REDIS

URL = REDIS.url


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    """A plain connection to the Redis under test; skips without one."""
    plain = redis.Redis.from_url(needs(REDIS), decode_responses=True, socket_connect_timeout=1, socket_timeout=5)
    yield plain
    plain.close()


@pytest.fixture
def prefix(server: redis.Redis) -> Iterator[str]:
    """A prefix of this test's own; its keys are removed afterwards."""
    own = f"kbsite:test:{uuid4().hex}:"
    yield own
    for key in server.scan_iter(match=f"{own}*"):
        server.delete(key)


@pytest.fixture
def memory(prefix: str) -> Iterator[RedisSessionMemory]:
    made = RedisSessionMemory(URL, ttl=60, prefix=prefix, timeout=5.0)
    yield made
    made.close()


class TestRedis(SessionMemoryContract):
    """The contract, held in Redis."""


def test_every_key_carries_the_prefix_and_an_expiry(
    memory: RedisSessionMemory, server: redis.Redis, prefix: str
) -> None:
    memory.claim("claimed", unless=[], marks=["a"])
    memory.append("listed", "domains", "api")
    memory.increment("counted", "lookups")
    keys = sorted(str(key) for key in server.scan_iter(match=f"{prefix}*"))
    assert keys == [f"{prefix}claimed", f"{prefix}counted", f"{prefix}listed"]
    assert all(0 < int(str(server.pttl(key))) <= 60_000 for key in keys)


def test_each_write_renews_the_expiry_and_reading_does_not(
    memory: RedisSessionMemory, server: redis.Redis, prefix: str
) -> None:
    key = f"{prefix}run"
    memory.claim("run", unless=[], marks=["a"])
    for write in (
        lambda: memory.append("run", "domains", "api"),
        lambda: memory.append("run", "domains", "api"),
        lambda: memory.increment("run", "lookups"),
        lambda: memory.release("run", ["b"]),
        lambda: memory.claim("run", unless=[], marks=["c"]),
    ):
        server.pexpire(key, 20_000)
        write()
        assert int(str(server.pttl(key))) > 20_000
    server.pexpire(key, 20_000)
    memory.marked("run")
    memory.values("run", "domains")
    memory.increment("run", "lookups", 0)
    assert int(str(server.pttl(key))) <= 20_000


def test_a_key_expires_as_a_whole(prefix: str) -> None:
    memory = RedisSessionMemory(URL, ttl=0.05, prefix=prefix, timeout=5.0)
    memory.claim("run", unless=[], marks=["a"])
    memory.append("run", "domains", "api")
    waited_until = time.monotonic() + 10
    while memory.marked("run") and time.monotonic() < waited_until:
        time.sleep(0.02)
    assert memory.marked("run") == frozenset()
    assert memory.values("run", "domains") == []
    memory.close()


def test_two_processes_share_what_is_marked(memory: RedisSessionMemory, prefix: str) -> None:
    other = RedisSessionMemory(URL, ttl=60, prefix=prefix, timeout=5.0)
    assert memory.claim("run", unless=[frozenset({"a"})], marks=["a"])
    assert not other.claim("run", unless=[frozenset({"a"})], marks=["a"])
    other.clear("run")
    assert memory.marked("run") == frozenset()
    other.close()


def test_scripts_are_sent_again_after_redis_forgot_them(memory: RedisSessionMemory, server: redis.Redis) -> None:
    memory.increment("run", "lookups")
    server.script_flush()
    assert memory.increment("run", "lookups") == 2


def test_a_connection_that_was_cut_is_replaced(memory: RedisSessionMemory, server: redis.Redis) -> None:
    memory.increment("run", "lookups")
    server.client_kill_filter(_type="normal", skipme=True)
    assert memory.increment("run", "lookups") == 2


def test_a_key_of_another_kind_is_an_error_of_ours(
    memory: RedisSessionMemory, server: redis.Redis, prefix: str
) -> None:
    server.set(f"{prefix}run", "a text")
    with pytest.raises(ClientError) as caught:
        memory.marked("run")
    assert caught.value.code == "memory_unavailable"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def take() -> None:
            try:
                while True:
                    kept.append(listening.accept()[0])
            except OSError:
                return

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in kept:
            one.close()


def test_a_redis_that_does_not_answer_is_a_time_out(silent_port: int) -> None:
    memory = RedisSessionMemory(f"redis://:s3cret@127.0.0.1:{silent_port}/0", ttl=60, timeout=0.2)
    with pytest.raises(ClientTimeout) as caught:
        memory.claim("run", unless=[], marks=["a"])
    assert caught.value.retryable
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"
    health = memory.health()
    assert (health.status, "s3cret" in health.hint) == ("down", False)
    memory.close()
