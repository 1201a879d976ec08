"""Vectors kept in a SQLite file, so that a second measurement of the same texts embeds nothing.

A vector's key is the embedder's name and version, whether it is of a question or a passage, and the SHA-256 of the
text; what is not the same in all of these is embedded again. Several processes may share the file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from clients.embedding_pool import BATCH_IN_PROCESS, IndexingEmbedder, PooledEmbedder, make_indexing_embedder
from clients.interfaces import Embedder, Matrix, Vector
from observability.evaluation.data import EvaluationError
from observability.evaluation.progress import Progress

Kind = Literal["query", "passage"]
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
        found: dict[bytes, Vector] = {}
        for start in range(0, len(keys), _KEYS_AT_A_TIME):
            batch = keys[start : start + _KEYS_AT_A_TIME]
            marks = ", ".join("?" * len(batch))
            where = f"embedder = ? AND version = ? AND kind = ? AND text_hash IN ({marks})"
            rows = self._execute(
                f"SELECT text_hash, vector FROM embedding WHERE {where}",  # noqa: S608 (marks)
                [*self._make, kind, *batch],
            )
            found.update((bytes(key), np.frombuffer(stored, dtype="<f4").astype(np.float32)) for key, stored in rows)
        return found

    def write(self, kind: Kind, vectors: Mapping[bytes, Vector]) -> None:
        """Keep these."""
        rows = [(*self._make, kind, key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
        marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        values = [value for row in rows for value in row]
        self._execute(f"INSERT OR REPLACE INTO embedding VALUES {marks}", values)  # noqa: S608 (marks)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _execute(self, statement: str, values: Sequence[object]) -> list[tuple[bytes, bytes]]:
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as fault:
            raise self._error(fault) from fault

    def _error(self, fault: Exception) -> EvaluationError:
        return EvaluationError(f"{self._path} cannot be used ({fault}); it holds only what can be made again.")


class CachedEmbedder:
    """An ``Embedder`` that asks the file first and the wrapped embedder for the rest.

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
        keys = [text_key(text) for text in texts]
        if not keys:
            return self._embedder.embed_documents([])
        vectors = self._file.read("passage", list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing:
            vectors |= self._embed_and_keep(missing)
        return np.stack([vectors[key] for key in keys])

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

    def close(self) -> None:
        """Let go of the file; the wrapped embedder stays open."""
        self._file.close()

    def _embed_and_keep(self, texts: Mapping[bytes, str]) -> dict[bytes, Vector]:
        progress = Progress(self._progress, f"Embedding with {self.name}", len(texts))
        made: dict[bytes, Vector] = {}
        indexing = make_indexing_embedder(self._embedder, self._processes)
        try:
            for batch in _embedded(indexing, texts):
                self._file.write("passage", batch)
                made |= batch
                progress.add(len(batch))
        finally:
            indexing.close()
        return made


def text_key(text: str) -> bytes:
    """SHA-256 of the text, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _embedded(indexing: IndexingEmbedder, texts: Mapping[bytes, str]) -> Iterator[dict[bytes, Vector]]:
    """The vectors, a few at a time as they are made.

    The pool gives a call's vectors when all are made, so each text is a call of its own; as many calls wait as there
    are processes. Other embedders take their texts in batches.
    """
    pooled = isinstance(indexing, PooledEmbedder)
    size, calls = (1, indexing.processes) if isinstance(indexing, PooledEmbedder) else (BATCH_IN_PROCESS, 1)
    keys = list(texts)
    batches = [keys[start : start + size] for start in range(0, len(keys), size)]

    def embed(batch: list[bytes]) -> dict[bytes, Vector]:
        rows = indexing.embed_documents([texts[key] for key in batch])
        return dict(zip(batch, rows, strict=True))

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
