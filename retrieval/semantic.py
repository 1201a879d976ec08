"""L1: the best chunk of each of the best three documents, after the row check (SPEC L1-3, L1-5, section 7)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clients.interfaces import ClientError, Embedder, Vector, VectorHit, VectorStore
from retrieval.interfaces import ChunkText, DocumentSource, DocumentState
from retrieval.relevance import Thresholds, distance_of_cosine, similarity_of
from retrieval.rows import LiveRows
from retrieval.stopwatch import Stopwatch

log = logging.getLogger(__name__)

BEST_DOCUMENTS = 3
_FIRST_TOP_K = 24
_GROWTH = 4
# Milvus answers at most this many; a document that fills them all hides the others.
_LAST_TOP_K = 16_384


@dataclass(frozen=True)
class SemanticHit:
    """A document's best chunk. ``squared_distance`` is the store's own, ``similarity`` (0 to 1) decides levels."""

    state: DocumentState
    chunk: ChunkText
    squared_distance: float
    similarity: float


@dataclass(frozen=True)
class SemanticFindings:
    """``candidates``: the best documents, nearest first; ``hits``: those of them at or above the reference threshold.

    ``degraded`` names the part that failed, "" where none did, and ``error`` says why.
    """

    candidates: tuple[SemanticHit, ...] = ()
    hits: tuple[SemanticHit, ...] = ()
    degraded: str = ""
    error: str = ""

    def similarity_of_document(self, document_id: int) -> float | None:
        """Where the search found this document: how near its best chunk is."""
        return next((hit.similarity for hit in self.candidates if hit.state.document_id == document_id), None)

    @property
    def top_similarity(self) -> float | None:
        return max((hit.similarity for hit in self.candidates), default=None)

    @property
    def top_score(self) -> float | None:
        return min((hit.squared_distance for hit in self.candidates), default=None)


class SemanticSearch:
    """One question against the chunk embeddings. A part that fails is named in the findings, never raised."""

    def __init__(
        self,
        *,
        source: DocumentSource,
        embedder: Embedder,
        store: VectorStore,
        rows: LiveRows,
        thresholds: Thresholds,
        max_l2_distance: float,
        watch: Stopwatch,
    ) -> None:
        self._source = source
        self._embedder = embedder
        self._store = store
        self._rows = rows
        self._thresholds = thresholds
        self._max_l2_distance = max_l2_distance
        self._watch = watch

    def find(self, query: str) -> SemanticFindings:
        # Degradation points "embedder" and "vector_store" (L1-5): the lookup goes on with what exact search found.
        try:
            with self._watch.stage("embed"):
                vector = self._embedder.embed_query(query)
        except ClientError as error:
            return _failed("embedder", error)
        try:
            with self._watch.stage("l1"):
                candidates = self._with_texts(self._best_chunks(vector), vector)
        except ClientError as error:
            return _failed("vector_store", error)
        hits = tuple(hit for hit in candidates if hit.similarity >= self._thresholds.reference)
        log.debug("semantic search: %d documents, %d at or above the reference", len(candidates), len(hits))
        return SemanticFindings(candidates=candidates, hits=hits)

    def _best_chunks(self, vector: Vector) -> list[tuple[VectorHit, DocumentState]]:
        """The nearest servable chunk of each of the nearest documents: ask for more until there are three."""
        top_k = _FIRST_TOP_K
        while True:
            found = self._store.search(vector, top_k, with_vectors=self._embedder.own_level_space)
            best = self._first_of_each_document(found)
            if len(best) >= BEST_DOCUMENTS or len(found) < top_k or top_k >= _LAST_TOP_K or self._rest_is_far(found):
                return best
            top_k = min(top_k * _GROWTH, _LAST_TOP_K)

    def _first_of_each_document(self, found: Sequence[VectorHit]) -> list[tuple[VectorHit, DocumentState]]:
        states = self._rows.states(dict.fromkeys(hit.document_id for hit in found))
        best: dict[int, tuple[VectorHit, DocumentState]] = {}
        for hit in found:
            state = states.get(hit.document_id)
            if state is None or hit.revision != state.indexed_revision:
                continue
            best.setdefault(hit.document_id, (hit, state))
            if len(best) == BEST_DOCUMENTS:
                break
        return list(best.values())

    def _rest_is_far(self, found: Sequence[VectorHit]) -> bool:
        """Nothing further away could be served: only where the store's distance itself decides the level."""
        if self._embedder.own_level_space or not found:
            return False
        return similarity_of(found[-1].squared_distance, self._max_l2_distance) < self._thresholds.reference

    def _with_texts(self, best: Sequence[tuple[VectorHit, DocumentState]], vector: Vector) -> tuple[SemanticHit, ...]:
        keys = [(hit.document_id, hit.revision, hit.number) for hit, _state in best]
        texts = self._source.chunks(keys) if keys else {}
        distances = self._level_distances([hit for hit, _state in best], vector)
        hits = []
        for key, (hit, state), distance in zip(keys, best, distances, strict=True):
            if key not in texts:
                log.warning("chunk %s has a vector and no text; run `manage.py reconcile`", ":".join(map(str, key)))
                continue
            similarity = similarity_of(distance, self._max_l2_distance)
            hits.append(SemanticHit(state, texts[key], hit.squared_distance, similarity))
        return tuple(hits)

    def _level_distances(self, hits: Sequence[VectorHit], vector: Vector) -> list[float]:
        """The store's squared distances, or 2 - 2c in the embedder's own level space."""
        vectors = [hit.vector for hit in hits if hit.vector is not None]
        if not self._embedder.own_level_space or not hits:
            return [hit.squared_distance for hit in hits]
        if len(vectors) != len(hits):
            raise ClientError("The store gave no vectors back to compute levels from.", code="store_unavailable")
        cosines = self._embedder.level_cosines(vector, np.stack(vectors))
        return [distance_of_cosine(float(cosine)) for cosine in cosines]


def _failed(part: str, error: ClientError) -> SemanticFindings:
    reason = f"{error.code}: {error}"
    log.warning("semantic search left out, %s failed: %s", part, reason)
    return SemanticFindings(degraded=part, error=reason)
