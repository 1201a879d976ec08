"""Vectors kept in a SQLite file, so that a second measurement of the same texts embeds nothing.

A vector's key is the embedder's name and version, whether it is of a question or a passage, and the SHA-256 of the
text; what is not the same in all of these is embedded again. Lexical weights of the embedder's own are kept beside the
vectors. Several processes may share the file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from clients.embedding_lexical import own_lexical_weights
from clients.embedding_pool import BATCH_IN_PROCESS, IndexingEmbedder, Passages, PooledEmbedder, make_indexing_embedder
from clients.interfaces import ClientError, Embedder, Matrix, SparseVector, Vector
from observability.evaluation.data import EvaluationError
from observability.evaluation.progress import Progress

Kind = Literal["query", "passage"]
Weights = dict[int, float]
FILE_NAME = "embeddings.sqlite3"
_WAIT_SECONDS = 60.0
_KEYS_AT_A_TIME = 500
_TABLE = """
    CREATE TABLE IF NOT EXISTS embedding (
        embedder TEXT NOT NULL, version TEXT NOT NULL, kind TEXT NOT NULL, text_hash BLOB NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (embedder, version, kind, text_hash)
    ) WITHOUT ROWID
"""


class VectorFile:
    """The file: vectors of one embedder by kind and text. Each call is a transaction of its own; safe in threads."""

    def __init__(self, path: Path, *, embedder: str, version: str) -> None:
        self._path = path
        self._make = (embedder, version)
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            # A power failure may cost the last vectors, which are made again; a crash of this program costs none.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as fault:
            raise self._error(fault) from fault

    def read(self, kind: Kind, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Those of the vectors that are there, by the text's key."""
        found = self._read(kind, keys)
        return {key: np.frombuffer(stored, dtype="<f4").astype(np.float32) for key, stored in found.items()}

    def read_weights(self, kind: Kind, keys: Sequence[bytes]) -> dict[bytes, Weights]:
        """Those of the lexical weights that are there, by the text's key."""
        return {key: _unpacked(stored) for key, stored in self._read(f"{kind}-weights", keys).items()}

    def write(self, kind: Kind, vectors: Mapping[bytes, Vector]) -> None:
        """Keep these."""
        self._write(kind, {key: vector.astype("<f4").tobytes() for key, vector in vectors.items()})

    def write_weights(self, kind: Kind, weights: Mapping[bytes, SparseVector]) -> None:
        """Keep these too."""
        self._write(f"{kind}-weights", {key: _packed(one) for key, one in weights.items()})

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _read(self, kind: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), _KEYS_AT_A_TIME):
            batch = keys[start : start + _KEYS_AT_A_TIME]
            marks = ", ".join("?" * len(batch))
            where = f"embedder = ? AND version = ? AND kind = ? AND text_hash IN ({marks})"
            rows = self._execute(
                f"SELECT text_hash, vector FROM embedding WHERE {where}",  # noqa: S608 (marks)
                [*self._make, kind, *batch],
            )
            found.update((bytes(key), bytes(stored)) for key, stored in rows)
        return found

    def _write(self, kind: str, values_by_key: Mapping[bytes, bytes]) -> None:
        rows = [(*self._make, kind, key, value) for key, value in values_by_key.items()]
        marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        values = [value for row in rows for value in row]
        self._execute(f"INSERT OR REPLACE INTO embedding VALUES {marks}", values)  # noqa: S608 (marks)

    def _execute(self, statement: str, values: Sequence[object]) -> list[tuple[bytes, bytes]]:
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as fault:
            raise self._error(fault) from fault

    def _error(self, fault: Exception) -> EvaluationError:
        return EvaluationError(f"{self._path} cannot be used ({fault}); it holds only what can be made again.")


@dataclass
class _Made:
    """By a text's key; ``weights`` stay empty where the embedder makes none."""

    vectors: dict[bytes, Vector] = field(default_factory=dict)
    weights: dict[bytes, Weights] = field(default_factory=dict)

    def add(self, other: _Made) -> None:
        self.vectors |= other.vectors
        self.weights |= other.weights


class CachedEmbedder:
    """An ``Embedder`` that asks the file first and the wrapped embedder for the rest.

    Lexical weights of the wrapped embedder's own are kept and given as its vectors are.

    Passages that are missing are embedded on ``processes`` cores (all by default) where that helps, with the progress
    told on ``progress``; each is kept as soon as it is made, so that a run that was stopped goes on where it was.
    """

    def __init__(
        self, embedder: Embedder, folder: Path, *, progress: TextIO | None = None, processes: int | None = None
    ) -> None:
        self._embedder = embedder
        self._progress = progress
        self._processes = processes or os.cpu_count() or 1
        self.name = embedder.name
        self.version = embedder.version
        self.lexical = embedder.lexical
        self.own_level_space = embedder.own_level_space
        self.fit = embedder.fit
        self._file = VectorFile(folder / FILE_NAME, embedder=self.name, version=self.version)

    @property
    def dimension(self) -> int:
        """Asked each time: an endpoint's is not known before its first answer."""
        return self._embedder.dimension

    @dimension.setter
    def dimension(self, value: int) -> None:
        self._embedder.dimension = value

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Ranking vectors of passages, in order; equal texts are embedded once. Raises what the embedder raises."""
        if not texts:
            return self._embedder.embed_documents([])
        made = self._made(texts)
        return np.stack([made.vectors[text_key(text)] for text in texts])

    def embed_query(self, text: str) -> Vector:
        """The ranking vector of one question."""
        key = text_key(text)
        found = self._file.read("query", [key]).get(key)
        if found is None:
            found = self._embedder.embed_query(text)
            self._file.write("query", {key: found})
        return found

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """As the wrapped embedder."""
        return self._embedder.level_cosines(query, documents)

    @property
    def has_lexical(self) -> bool:
        """Whether the wrapped embedder makes lexical weights."""
        return own_lexical_weights(self._embedder) is not None

    def lexical_documents(self, texts: Sequence[str]) -> list[Weights]:
        """The wrapped embedder's weights of passages, in order."""
        return self.embed_documents_with_lexical(texts)[1]

    def lexical_query(self, text: str) -> Weights:
        """The wrapped embedder's weights of one question."""
        key = text_key(text)
        found = self._file.read_weights("query", [key]).get(key)
        if found is None:
            own = own_lexical_weights(self._embedder)
            if own is None:
                raise self._no_weights()
            found = own.lexical_query(text)
            self._file.write_weights("query", {key: found})
        return found

    def embed_documents_with_lexical(self, texts: Sequence[str]) -> tuple[Matrix, list[Weights]]:
        """Vectors and weights of passages, in order; what is missing is made in one pass over the model."""
        if not self.has_lexical:
            raise self._no_weights()
        if not texts:
            return self._embedder.embed_documents([]), []
        made, keys = self._made(texts), [text_key(text) for text in texts]
        return np.stack([made.vectors[key] for key in keys]), [made.weights[key] for key in keys]

    def close(self) -> None:
        """Let go of the file; the wrapped embedder stays open."""
        self._file.close()

    def _no_weights(self) -> ClientError:
        return ClientError(f"{self.name} makes no lexical weights", code="embedder_unavailable")

    def _made(self, texts: Sequence[str]) -> _Made:
        """All that the embedder makes of these passages: from the file, and new where that does not have it."""
        wanted = {text_key(text): text for text in texts}
        keys, weighed = list(wanted), self.has_lexical
        made = _Made(self._file.read("passage", keys), self._file.read_weights("passage", keys) if weighed else {})
        whole = made.vectors.keys() & made.weights.keys() if weighed else made.vectors.keys()
        if missing := {key: text for key, text in wanted.items() if key not in whole}:
            made.add(self._embed_and_keep(missing))
        return made

    def _embed_and_keep(self, texts: Mapping[bytes, str]) -> _Made:
        progress = Progress(self._progress, f"Embedding with {self.name}", len(texts))
        made = _Made()
        indexing = make_indexing_embedder(self._embedder, self._processes)
        try:
            for batch in _embedded(indexing, texts):
                if batch.weights:
                    self._file.write_weights("passage", batch.weights)
                self._file.write("passage", batch.vectors)
                made.add(batch)
                progress.add(len(batch.vectors))
        finally:
            indexing.close()
        return made


def text_key(text: str) -> bytes:
    """SHA-256 of the text, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _packed(weights: SparseVector) -> bytes:
    """Term ids, then as many weights."""
    return np.array(list(weights), dtype="<u4").tobytes() + np.array(list(weights.values()), dtype="<f4").tobytes()


def _unpacked(stored: bytes) -> Weights:
    half = len(stored) // 2
    terms, weights = np.frombuffer(stored[:half], dtype="<u4"), np.frombuffer(stored[half:], dtype="<f4")
    return dict(zip(terms.tolist(), weights.tolist(), strict=True))


def _embedded(indexing: IndexingEmbedder, texts: Mapping[bytes, str]) -> Iterator[_Made]:
    """What is made, a few at a time as they are made.

    The pool gives a call's vectors when all are made, so each text is a call of its own; as many calls wait as there
    are processes. Other embedders take their texts in batches.
    """
    pooled = isinstance(indexing, PooledEmbedder)
    size, calls = (1, indexing.processes) if isinstance(indexing, PooledEmbedder) else (BATCH_IN_PROCESS, 1)
    keys = list(texts)
    batches = [keys[start : start + size] for start in range(0, len(keys), size)]

    def embed(batch: list[bytes]) -> _Made:
        passages: Passages = indexing.embed_passages([texts[key] for key in batch])
        weights = {} if passages.weights is None else dict(zip(batch, passages.weights, strict=True))
        return _Made(dict(zip(batch, passages.vectors, strict=True)), weights)

    if not pooled:
        yield from map(embed, batches)
        return
    with ThreadPoolExecutor(max_workers=calls) as threads:
        waiting = [threads.submit(embed, batch) for batch in batches]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            # Stopped, or a text failed: what has not begun is not begun, what is on its way fails.
            threads.shutdown(wait=False, cancel_futures=True)
            indexing.close()
