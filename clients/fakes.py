"""Working stand-ins for what this program talks to: they do the real work on small data, in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from clients.interfaces import ChunkVector, ClientError, CollectionIdentity, Matrix, PartHealth, Vector, VectorHit
from clients.vector_store_checks import check_chunks, check_int, check_query, present_identity

Key = tuple[int, int, int]
"""Document id, revision, number."""


class InMemoryVectorStore:
    """A vector store of plain numpy: every distance computed, squared L2, forgotten with the process.

    It opens, refuses and answers as ``MilvusVectorStore`` does; the same contract test holds both.
    """

    metric = "L2"

    def __init__(self, *, identity: Callable[[], CollectionIdentity] = present_identity) -> None:
        self._identity = identity
        self._lock = threading.RLock()
        self._rows: dict[Key, tuple[str, Vector]] = {}
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
        with self._lock:
            for chunk, vector in zip(chunks, matrix, strict=True):
                self._rows[document_id, revision, int(chunk.number)] = (chunk.domain, vector.copy())

    def search(
        self, vector: Vector, top_k: int, *, domain: str | None = None, with_vectors: bool = False
    ) -> list[VectorHit]:
        """The nearest chunks, nearest first."""
        query = check_query(vector, self._dimension())
        with self._lock:
            found = [(key, row) for key, (in_domain, row) in self._rows.items() if domain in (None, in_domain)]
        if top_k < 1 or not found:
            return []
        rows: Matrix = np.stack([row for _, row in found])
        distances = ((rows - query) ** 2).sum(axis=1)
        nearest = sorted(range(len(found)), key=lambda place: (distances[place], found[place][0]))[:top_k]
        return [
            VectorHit(*found[place][0], float(distances[place]), found[place][1].copy() if with_vectors else None)
            for place in nearest
        ]

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
        return PartHealth("ok")

    def close(self) -> None:
        """Nothing to let go of; the rows stay with the object."""
