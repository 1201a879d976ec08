"""Working stand-ins for what this program talks to: they do the real work on small data, in memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clients.interfaces import (
    ChunkVector,
    ClientError,
    CollectionIdentity,
    LexicalHit,
    Matrix,
    PartHealth,
    SparseVector,
    Vector,
    VectorHit,
)
from clients.vector_store_checks import (
    NO_LEXICAL_HINT,
    ChunkKey,
    check_chunks,
    check_int,
    check_keys,
    check_query,
    check_terms,
    present_identity,
)


@dataclass(frozen=True)
class _Row:
    domain: str
    vector: Vector
    terms: dict[int, float]

    def score(self, query: dict[int, float]) -> float:
        """The inner product, exact in whatever order its parts are added."""
        return math.fsum(weight * self.terms[term] for term, weight in query.items() if term in self.terms)


class InMemoryVectorStore:
    """A vector store of plain numpy: every distance and inner product computed, forgotten with the process.

    It opens, refuses and answers as ``MilvusVectorStore`` does; the same contract test holds both. A test that wants a
    store without sparse vectors sets ``has_lexical`` to false.
    """

    metric = "L2"
    has_lexical = True

    def __init__(self, *, identity: Callable[[], CollectionIdentity] = present_identity) -> None:
        self._identity = identity
        self._lock = threading.RLock()
        self._rows: dict[ChunkKey, _Row] = {}
        self._made_for: CollectionIdentity | None = None

    def open(self) -> None:
        """Take the present embedder as the collection's, or refuse another one than it was made for."""
        self._dimension()

    def _dimension(self) -> int:
        identity = self._identity()
        with self._lock:
            if self._made_for is None:
                self._made_for = identity
            if self._made_for != identity:
                raise ClientError(
                    f"The vectors in memory are of another make ({self._made_for}) than this site's ({identity}).",
                    code="collection_mismatch",
                    hint="Run: python manage.py reindex --all",
                )
            return identity.dimension

    def upsert(self, document_id: int, revision: int, chunks: Sequence[ChunkVector]) -> None:
        """Write the vectors of one revision."""
        document_id, revision = check_int(document_id, "A document's id"), check_int(revision, "A revision")
        matrix = check_chunks(chunks, self._dimension())
        rows = [
            _Row(chunk.domain, vector.copy(), check_terms(chunk.terms))
            for chunk, vector in zip(chunks, matrix, strict=True)
        ]
        with self._lock:
            for chunk, row in zip(chunks, rows, strict=True):
                self._rows[document_id, revision, int(chunk.number)] = row

    def search(
        self,
        vector: Vector,
        top_k: int,
        *,
        domain: str | None = None,
        without: Sequence[int] = (),
        with_vectors: bool = False,
    ) -> list[VectorHit]:
        """The nearest chunks, nearest first."""
        query = check_query(vector, self._dimension())
        found = self._within(domain, without)
        if top_k < 1 or not found:
            return []
        rows: Matrix = np.stack([row.vector for _, row in found])
        distances = ((rows - query) ** 2).sum(axis=1)
        nearest = sorted(range(len(found)), key=lambda place: (distances[place], found[place][0]))[:top_k]
        hits = []
        for place in nearest:
            key, row = found[place]
            hits.append(VectorHit(*key, float(distances[place]), row.vector.copy() if with_vectors else None))
        return hits

    def search_lexical(
        self, query: SparseVector, top_k: int, *, domain: str | None = None, without: Sequence[int] = ()
    ) -> list[LexicalHit]:
        """The chunks of the highest inner product, best first, equal ones by key."""
        terms = check_terms(query)
        self._dimension()
        if top_k < 1 or not self.has_lexical:
            return []
        scores = {key: row.score(terms) for key, row in self._within(domain, without)}
        best = sorted((key for key, score in scores.items() if score > 0), key=lambda key: (-scores[key], key))
        return [LexicalHit(*key, score=scores[key]) for key in best[:top_k]]

    def _within(self, domain: str | None, without: Sequence[int]) -> list[tuple[ChunkKey, _Row]]:
        with self._lock:
            away = {check_int(document_id, "A document's id") for document_id in without}
            rows = [(key, row) for key, row in self._rows.items() if key[0] not in away]
        return [(key, row) for key, row in rows if domain in (None, row.domain)]

    def vectors(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Vector]:
        """The vectors of chunks by their keys; unknown keys are missing from the answer."""
        checked = check_keys(keys)
        self._dimension()
        with self._lock:
            return {key: self._rows[key].vector.copy() for key in checked if key in self._rows}

    def delete(self, document_ids: Sequence[int]) -> None:
        """Remove every vector of these documents."""
        ids = {check_int(document_id, "A document's id") for document_id in document_ids}
        self._remove(lambda document_id, _revision: document_id in ids)

    def delete_revisions(self, document_id: int, *, keep: int) -> None:
        """Remove the vectors of every revision of a document but ``keep``."""
        document_id, keep = check_int(document_id, "A document's id"), check_int(keep, "A revision")
        self._remove(lambda found, revision: found == document_id and revision != keep)

    def discard(self, document_id: int, revision: int) -> None:
        """Remove the vectors of one revision."""
        document_id, revision = check_int(document_id, "A document's id"), check_int(revision, "A revision")
        self._remove(lambda found, of_revision: found == document_id and of_revision == revision)

    def _remove(self, gone: Callable[[int, int], bool]) -> None:
        self._dimension()
        with self._lock:
            self._rows = {key: row for key, row in self._rows.items() if not gone(key[0], key[1])}

    def counts(self) -> dict[tuple[int, int], int]:
        """Chunks by ``(document id, revision)``."""
        self._dimension()
        counts: dict[tuple[int, int], int] = {}
        with self._lock:
            for document_id, revision, _number in self._rows:
                counts[document_id, revision] = counts.get((document_id, revision), 0) + 1
        return counts

    def flush(self) -> None:
        """Nothing waits to be settled here."""
        self._dimension()

    def reset(self) -> None:
        """Drop everything and begin anew for the present embedder."""
        identity = self._identity()
        with self._lock:
            self._rows, self._made_for = {}, identity

    def health(self) -> PartHealth:
        """Ok, or down with the reason."""
        try:
            self._dimension()
        except ClientError as error:
            return PartHealth("down", f"{error} {error.hint}".strip())
        return PartHealth("ok") if self.has_lexical else PartHealth("degraded", NO_LEXICAL_HINT)

    def close(self) -> None:
        """Nothing to let go of; the rows stay with the object."""
