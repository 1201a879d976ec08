"""Vectors of questions are kept by the exact text; a Redis that fails costs nothing but the time to embed again."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import redis

from clients.embedding_cache import CachedQueries
from clients.embedding_cache_redis import RedisVectors
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_lexical import own_lexical_weights
from clients.interfaces import ClientError, Vector
from clients.registry import get_embedder, reset_clients

URL = os.environ.get("KBSITE_TEST_REDIS_URL") or "redis://127.0.0.1:6379/0"


class Counting(HashingEmbedder):
    """Hashing, with the questions that it was asked and an error to raise."""

    def __init__(self, version: str = "1") -> None:
        super().__init__()
        self.version = version
        self.asked: list[str] = []
        self.error: ClientError | None = None
        self.closed = False

    def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        if self.error is not None:
            raise self.error
        return super().embed_query(text)

    def close(self) -> None:
        self.closed = True


class Shared:
    """What all processes see, in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.closed = False

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        self.kept[key] = value

    def close(self) -> None:
        self.closed = True


def test_the_same_question_is_embedded_once_in_a_process() -> None:
    counting = Counting()
    cached = CachedQueries(counting)
    first = cached.embed_query("why")
    assert cached.embed_query("why") is first
    np.testing.assert_array_equal(first, HashingEmbedder().embed_query("why"))
    cached.embed_query("why ")
    cached.embed_query("Why")
    assert counting.asked == ["why", "why ", "Why"]


def test_a_kept_vector_cannot_be_spoilt_by_its_reader() -> None:
    shared = Shared()
    for cached in (CachedQueries(Counting(), shared=shared), CachedQueries(Counting(), shared=shared)):
        with pytest.raises(ValueError, match="read-only"):
            cached.embed_query("why")[0] = 1.0


def test_another_process_finds_it_in_what_is_shared() -> None:
    shared, other = Shared(), Counting()
    made = CachedQueries(Counting(), shared=shared).embed_query("为什么 \ud800")
    np.testing.assert_array_equal(CachedQueries(other, shared=shared).embed_query("为什么 \ud800"), made)
    assert other.asked == []
    assert [len(value) for value in shared.kept.values()] == [4096]


def test_another_version_or_name_has_vectors_of_its_own() -> None:
    shared, second, third = Shared(), Counting("2"), Counting()
    third.name = "other"
    CachedQueries(Counting(), shared=shared).embed_query("why")
    for counting in (second, third):
        CachedQueries(counting, shared=shared).embed_query("why")
        assert counting.asked == ["why"]
    assert len(shared.kept) == 3


def test_the_text_of_a_question_is_not_in_what_is_shared() -> None:
    shared = Shared()
    CachedQueries(Counting(), shared=shared).embed_query("my-secret-question")
    assert "my-secret-question" not in repr(shared.kept)


@pytest.mark.parametrize(
    "stored",
    [b"", b"junk", b"\0" * 4096, np.full(1024, np.nan, "<f4").tobytes(), np.ones(1024, "<f4").tobytes(), b"x" * 8192],
    ids=["empty", "short", "zeros", "nan", "too long a vector", "another dimension"],
)
def test_what_is_no_vector_of_this_embedder_is_made_again(stored: bytes) -> None:
    shared, counting = Shared(), Counting()
    CachedQueries(Counting(), shared=shared).embed_query("why")
    shared.kept = dict.fromkeys(shared.kept, stored)
    vector = CachedQueries(counting, shared=shared).embed_query("why")
    np.testing.assert_array_equal(vector, HashingEmbedder().embed_query("why"))
    assert counting.asked == ["why"]


def test_a_failure_is_not_kept() -> None:
    counting, shared = Counting(), Shared()
    cached = CachedQueries(counting, shared=shared)
    counting.error = ClientError("busy", code="embedder_busy")
    with pytest.raises(ClientError, match="busy"):
        cached.embed_query("why")
    counting.error = None
    assert cached.embed_query("why").shape == (1024,)
    assert len(shared.kept) == 1


def test_health_and_closing_reach_what_is_inside() -> None:
    counting, shared = Counting(), Shared()
    cached = CachedQueries(counting, shared=shared)
    assert cached.health() == counting.health()
    assert own_lexical_weights(cached) is None
    cached.close()
    assert counting.closed
    assert shared.closed


def test_the_settings_say_which_embedder_is_wrapped(settings: Any) -> None:
    chosen = {"BACKEND": "clients.embedding.HashingEmbedder", "QUERY_CACHE": {"redis_url": ""}}
    settings.CLIENTS = {**settings.CLIENTS, "embedder": chosen}
    reset_clients()
    wrapped = get_embedder()
    assert isinstance(wrapped, CachedQueries)
    assert isinstance(wrapped.wrapped, HashingEmbedder)


# ---- Redis -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def nobody_listens() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"redis://user:secret-word@127.0.0.1:{port}/0"


def test_a_redis_that_is_away_is_a_miss_told_once_without_its_password(
    nobody_listens: str, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = RedisVectors(nobody_listens, left_alone=0.0)
    cached = CachedQueries(Counting(), shared=vectors)
    with caplog.at_level(logging.INFO):
        for text in ("one", "two", "three"):
            np.testing.assert_array_equal(cached.embed_query(text), HashingEmbedder().embed_query(text))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "secret-word" not in caplog.text
    assert "***@127.0.0.1" in caplog.text
    cached.close()


def test_a_redis_that_hangs_costs_its_time_out_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        vectors = RedisVectors(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", timeout=0.05, left_alone=3600.0)
        assert vectors.get("one") is None
        silent.setblocking(False)
        silent.accept()[0].close()
        for _ in range(50):
            assert vectors.get("one") is None
            vectors.put("one", b"value")
        with pytest.raises(BlockingIOError):
            silent.accept()  # nobody came again
        vectors.close()
    assert len(caplog.records) == 1


def test_an_address_that_is_none_is_our_error() -> None:
    with pytest.raises(ClientError, match="REDIS_URL") as caught:
        CachedQueries(Counting(), redis_url="nonsense://user:secret-word@host")
    assert "secret-word" not in str(caught.value)


@pytest.fixture
def prefix() -> Iterator[str]:
    """A corner of the Redis that answers, emptied afterwards; skips without one."""
    plain = redis.Redis.from_url(URL, socket_connect_timeout=1, socket_timeout=5)
    try:
        plain.ping()
    except redis.RedisError as error:
        plain.close()
        pytest.skip(f"needs Redis at 127.0.0.1:6379 or KBSITE_TEST_REDIS_URL: {error}")
    corner = f"kbsite:test:{uuid4().hex}:"
    yield corner
    for key in plain.scan_iter(f"{corner}*"):
        plain.delete(key)
    plain.close()


@pytest.mark.services
def test_a_real_redis_keeps_it_for_a_while_and_for_all(prefix: str) -> None:
    one, other = (RedisVectors(URL, prefix=prefix, ttl=60.0) for _ in range(2))
    counting = Counting()
    made = CachedQueries(Counting(), shared=one).embed_query("why")
    np.testing.assert_array_equal(CachedQueries(counting, shared=other).embed_query("why"), made)
    assert counting.asked == []
    plain = redis.Redis.from_url(URL)
    [key] = plain.scan_iter(f"{prefix}*")
    assert 0 < int(str(plain.pttl(key))) <= 60_000
    assert int(str(plain.strlen(key))) == 4096
    for connection in (plain, one, other):
        connection.close()


@pytest.mark.services
def test_it_is_told_once_when_redis_answers_again(
    prefix: str, nobody_listens: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = RedisVectors(URL, prefix=prefix, left_alone=0.0)
    away = redis.Redis.from_url(nobody_listens)
    real = vectors._redis
    with caplog.at_level(logging.INFO):
        monkeypatch.setattr(vectors, "_redis", away)
        vectors.put("one", b"value")
        monkeypatch.setattr(vectors, "_redis", real)
        vectors.put("one", b"value")
        assert vectors.get("one") == b"value"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    away.close()
    vectors.close()
