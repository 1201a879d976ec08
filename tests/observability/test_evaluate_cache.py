"""The vectors that a measurement keeps."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from clients.embedding_hashing import HashingEmbedder
from clients.embedding_pool import PooledEmbedder
from clients.interfaces import ClientError, Embedder, Matrix, Vector
from observability.evaluation import embedding_cache
from observability.evaluation.data import EvaluationError
from observability.evaluation.embedding_cache import FILE_NAME, CachedEmbedder
from observability.evaluation.progress import Progress


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
