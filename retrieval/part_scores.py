"""How much each part of one document bears on a question (SPEC L1-6): by its words, and by its chunk's meaning."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from clients.interfaces import ClientError, Vector, VectorStore
from retrieval.bm25 import query_terms, query_weights
from retrieval.fusion import fuse
from retrieval.interfaces import ChunkKey, DocumentSource, DocumentState
from retrieval.selection import ScoredSpan

log = logging.getLogger(__name__)
DENSE_SHARE = 0.3
"""Inside one document nearly everything is near the question: its words tell the parts apart better."""
_CHUNKS_COMPARED = 500


class PartScores:
    """Of one lookup: the question's weights are read once, and only when a long text is to be shown."""

    def __init__(self, query: str, source: DocumentSource, store: VectorStore) -> None:
        self._query = query
        self._source = source
        self._store = store
        self._weights: Mapping[int, float] | None = None
        self.query_vector: Vector | None = None
        """What semantic search asked with, where it was asked."""

    def of(self, state: DocumentState, revision: int) -> list[ScoredSpan]:
        """The parts of that revision with their scores; none where its text is gone or too long to take apart."""
        parts = self._source.parts(state.document_id, revision)
        numbers = dict.fromkeys(parts.chunks)
        near = self._nearness([(state.document_id, revision, number) for number in numbers])
        words = dict(enumerate(parts.coverage(self._query_weights())))
        scores = fuse(
            {place: near[number] for place, number in enumerate(parts.chunks) if number in near},
            words,
            dense_share=DENSE_SHARE,
        )
        spans = zip(parts.starts, parts.ends, strict=True)
        return [ScoredSpan(start, end, scores[place]) for place, (start, end) in enumerate(spans)]

    def _query_weights(self) -> Mapping[int, float]:
        if self._weights is None:
            terms = query_terms(self._query)
            counts, chunks = self._source.term_counts(terms)
            self._weights = query_weights(terms, counts, chunks)
        return self._weights

    def _nearness(self, keys: Sequence[ChunkKey]) -> dict[int, float]:
        """Cosines by chunk number, as far as the store has the chunks."""
        vector = self.query_vector
        if vector is None or not keys or len(keys) > _CHUNKS_COMPARED:
            return {}
        try:
            vectors = self._store.vectors(keys)
        except ClientError as error:
            # Degradation point "vector_store": the words alone choose the parts.
            log.warning("parts are chosen by their words alone, the vector store failed: %s", error)
            return {}
        return {key[2]: float(found @ vector) for key, found in vectors.items()}
