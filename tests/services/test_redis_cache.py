"""The cache on a real Redis: what processes share by it, and that a site without its Redis goes on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.core.cache import caches

from clients.cache_redis import ForgivingRedisCache, _client
from clients.registry import reset_clients
from documents.worker import run_due_jobs
from observability.health import readiness
from tests.doors import program, upload

pytestmark = pytest.mark.django_db(transaction=True)


class Gate:
    """A way to Redis that can be closed: connections are cut and refused, or taken and never answered."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (target.hostname or "127.0.0.1", target.port or 6379)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._state = "open"
        self._pairs: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        port = self._listening.getsockname()[1]
        self.url = target._replace(netloc=f"127.0.0.1:{port}").geturl()

    def set(self, state: str) -> None:
        """``open``, ``closed`` or ``silent``; every connection of before is cut."""
        self._state = state
        for one in self._pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._pairs = []

    def close(self) -> None:
        self.set("closed")
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            if self._state == "closed":
                here.close()
                continue
            self._pairs.append(here)
            if self._state == "open":
                there = socket.create_connection(self._target)
                self._pairs.append(there)
                for one, other in ((here, there), (there, here)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def gate(redis_url: str, settings: Any) -> Iterator[Gate]:
    """The whole site of this test reaches Redis through the gate: action memory, throttles, idempotency keys."""
    made = Gate(redis_url)
    prefix = f"kbsite-test-{uuid4().hex}"
    settings.CLIENTS = {
        **settings.CLIENTS,
        "session_memory": {
            "BACKEND": "clients.session_memory.RedisSessionMemory",
            "OPTIONS": {"url": made.url, "ttl": 60, "prefix": f"{prefix}:memory:", "timeout": 0.3},
        },
    }
    cache = {
        "BACKEND": "clients.cache_redis.ForgivingRedisCache",
        "LOCATION": made.url,
        "KEY_PREFIX": prefix,
        "OPTIONS": {"timeout": 0.3, "left_alone": 0.2},
    }
    settings.CACHES = {"default": cache}
    reset_clients()
    yield made
    reset_clients()
    _client.cache_clear()
    made.close()


def served(answer: Any) -> str:
    """Status and level of one lookup's answer."""
    assert answer.status_code == 200, answer.content
    return str(answer.json()["relevanceLevel"])


@pytest.mark.parametrize("outage", ["closed", "silent"])
def test_lookups_and_uploads_go_on_without_redis_and_it_is_taken_up_again(outage: str, gate: Gate) -> None:
    client = program("write")
    assert upload(client).status_code == 202
    run_due_jobs()

    def ask() -> Any:
        return client.post("/api/v1/lookup/", {"query": "ERR_TIMEOUT", "session_id": "s"})

    assert [served(ask()), served(ask())] == ["PRECISE", "DEDUPED"]
    assert readiness()["parts"]["memory"]["status"] == "ok"
    gate.set(outage)
    assert [served(ask()), served(ask())] == ["PRECISE", "PRECISE"]  # nothing is remembered, everything is found
    assert upload(client, name="other.md", text="# Other\n\nText.\n", **{"Idempotency-Key": "k"}).status_code == 202
    state = readiness()
    assert (state["status"], state["parts"]["memory"]["status"]) == ("degraded", "down")
    gate.set("open")
    assert served(ask()) == "DEDUPED"
    assert readiness()["parts"]["memory"]["status"] == "ok"


def test_an_outage_of_the_cache_is_told_once(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    client = program("write")
    gate.set("closed")
    for _ in range(3):
        client.post("/api/v1/lookup/", {"query": "ERR_TIMEOUT"})
    told = [record for record in caplog.records if "idempotency keys are not shared" in record.getMessage()]
    assert len(told) == 1


def test_what_one_process_counts_another_sees(redis_url: str) -> None:
    prefix = uuid4().hex
    one, other = (ForgivingRedisCache(redis_url, {"KEY_PREFIX": prefix, "OPTIONS": {"timeout": n}}) for n in (5, 6))
    assert one._cache is not other._cache  # two processes' worth of connections
    assert one.add("count", 0, 60)
    assert not other.add("count", 0, 60)
    assert [one.incr("count"), other.incr("count"), one.get("count")] == [1, 2, 2]
    assert other.get_many(["count", "none"]) == {"count": 2}
    assert other.delete("count")
    assert one.get("count", "gone") == "gone"


def test_without_redis_each_call_answers_as_an_empty_cache(unused_port: int) -> None:
    cache = ForgivingRedisCache(f"redis://127.0.0.1:{unused_port}/0", {"OPTIONS": {"timeout": 0.2}})
    assert cache.add("a", 1)
    cache.set("a", 1)
    cache.set_many({"a": 1})
    cache.delete_many(["a"])
    assert cache.get("a", "nothing") == "nothing"
    assert cache.get_many(["a"]) == {}
    assert cache.incr("a") == 1
    assert [cache.touch("a"), cache.delete("a"), cache.has_key("a")] == [False] * 3
    cache.clear()


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_the_threads_of_a_process_share_their_connections(redis_url: str, settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": "clients.cache_redis.ForgivingRedisCache", "LOCATION": redis_url}}
    clients: list[Any] = []

    def look() -> None:
        cache = caches["default"]
        assert isinstance(cache, ForgivingRedisCache)
        clients.append(cache._cache)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len({id(client) for client in clients}) == 1
