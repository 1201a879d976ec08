"""The remote embedder against a real HTTP endpoint on loopback: batches, order, time-outs, errors in our words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clients.embedding_hashing import HashingEmbedder
from clients.embedding_openai import BATCH_CHARACTERS, BATCH_TEXTS, OpenAIEmbedder
from clients.interfaces import ClientError, ClientTimeout
from tests.clients.embedding_endpoint import DIMENSION, EmbeddingEndpoint


@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    server = EmbeddingEndpoint()
    yield server
    server.stop()


@pytest.fixture
def embedder(endpoint: EmbeddingEndpoint) -> Iterator[OpenAIEmbedder]:
    remote = OpenAIEmbedder(model="text-model", base_url=endpoint.url, api_key="key-of-the-test")
    yield remote
    remote.close()


def test_the_dimension_is_learnt_from_the_first_answer(embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint) -> None:
    embedder.embed_query("timeout")
    assert embedder.dimension == DIMENSION
    assert len(endpoint.requests) == 1


def test_asking_for_the_dimension_first_asks_the_endpoint_once(
    embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint
) -> None:
    assert [embedder.dimension for _ in range(3)] == [DIMENSION] * 3
    assert len(endpoint.requests) == 1


def test_the_model_and_the_key_are_sent(embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint) -> None:
    embedder.embed_query("timeout")
    assert endpoint.requests[0]["model"] == "text-model"
    assert endpoint.keys == ["Bearer key-of-the-test"]


def test_many_texts_go_in_batches_and_come_back_in_order(embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint) -> None:
    texts = [f"document number {number} about subject {number * 7}" for number in range(2 * BATCH_TEXTS + 1)]
    rows = embedder.embed_documents(texts)
    assert [len(request["input"]) for request in endpoint.requests] == [BATCH_TEXTS, BATCH_TEXTS, 1]
    np.testing.assert_allclose(rows, HashingEmbedder().embed_documents(texts), atol=1e-6)


def test_long_texts_make_smaller_batches(embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint) -> None:
    embedder.embed_documents(["a" * (BATCH_CHARACTERS // 2)] * 3)
    assert [len(request["input"]) for request in endpoint.requests] == [2, 1]


def test_no_text_asks_nothing_but_the_dimension(endpoint: EmbeddingEndpoint) -> None:
    embedder = OpenAIEmbedder(model="text-model", base_url=endpoint.url, dimension=DIMENSION)
    assert embedder.embed_documents([]).shape == (0, DIMENSION)
    assert endpoint.requests == []
    embedder.close()


def test_an_answer_of_another_length_than_configured_is_refused(endpoint: EmbeddingEndpoint) -> None:
    embedder = OpenAIEmbedder(model="text-model", base_url=endpoint.url, dimension=8)
    with pytest.raises(ClientError, match="shape") as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_bad_answer"
    embedder.close()


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (401, "embedder_refused_key", False),
        (403, "embedder_refused_key", False),
        (404, "embedder_error", False),
        (429, "embedder_rate_limited", True),
        (500, "embedder_error", True),
    ],
)
def test_a_refusal_becomes_our_error(
    embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint, status: int, code: str, retryable: bool
) -> None:
    endpoint.status = status
    with pytest.raises(ClientError) as caught:
        embedder.embed_documents(["timeout"])
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert embedder.health().status == "degraded"
    endpoint.status = 200
    embedder.embed_documents(["timeout"])
    assert embedder.health().status == "ok"


def test_an_endpoint_that_does_not_answer_is_a_timeout(endpoint: EmbeddingEndpoint) -> None:
    endpoint.hold = threading.Event()
    embedder = OpenAIEmbedder(model="text-model", base_url=endpoint.url, query_timeout=0.05)
    with pytest.raises(ClientTimeout) as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_timeout"
    embedder.close()


def test_an_endpoint_that_is_not_there_is_unreachable() -> None:
    gone = EmbeddingEndpoint()
    url = gone.url
    gone.stop()
    embedder = OpenAIEmbedder(model="text-model", base_url=url)
    with pytest.raises(ClientError) as caught:
        embedder.embed_query("timeout")
    assert (caught.value.code, caught.value.retryable) == ("embedder_unreachable", True)
    embedder.close()


def _without_one(data: list[dict[str, Any]]) -> Any:
    return data[:-1]


def _twice_the_same(data: list[dict[str, Any]]) -> Any:
    return [{**item, "index": 0} for item in data]


def _zeros(data: list[dict[str, Any]]) -> Any:
    return [{**item, "embedding": [0.0] * DIMENSION} for item in data]


def _of_two_lengths(data: list[dict[str, Any]]) -> Any:
    return [data[0], {**data[1], "embedding": [1.0, 2.0]}]


def _words(data: list[dict[str, Any]]) -> Any:
    return [{**item, "embedding": ["one", "two"]} for item in data]


def _nothing(data: list[dict[str, Any]]) -> Any:
    return None


@pytest.mark.parametrize("spoil", [_without_one, _twice_the_same, _zeros, _of_two_lengths, _words, _nothing])
def test_a_wrong_answer_never_becomes_a_vector(
    embedder: OpenAIEmbedder, endpoint: EmbeddingEndpoint, spoil: Any
) -> None:
    endpoint.spoil = spoil
    with pytest.raises(ClientError) as caught:
        embedder.embed_documents(["timeout", "refund"])
    assert caught.value.code in {"embedder_bad_answer", "embedder_error"}


def test_without_a_model_it_says_what_to_set() -> None:
    embedder = OpenAIEmbedder(model="")
    with pytest.raises(ClientError) as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert "EMBEDDING_MODEL" in caught.value.hint
    assert embedder.health().status == "down"
    embedder.close()


def test_its_levels_say_that_they_are_not_calibrated() -> None:
    embedder = OpenAIEmbedder(model="text-model")
    assert (embedder.fit.highly_relevant, embedder.fit.reference) == (0.75, 0.5)
    assert "not calibrated" in embedder.fit.fitted_on
    embedder.close()
