"""How much each part of one document bears on a question (SPEC L1-6): by its words, and by its chunk's meaning."""

from __future__ import annotations

from collections.abc import Mapping

from retrieval.bm25 import query_terms, query_weights
from retrieval.fusion import fuse
from retrieval.interfaces import ChunkKey, DocumentSource, DocumentState
from retrieval.selection import ScoredSpan

DENSE_SHARE = 0.2
"""Inside one document nearly everything is near the question: its words tell the parts apart better."""


class PartScores:
    """Of one lookup: the question's weights are read once, and only when a long text is to be shown."""

    def __init__(self, query: str, source: DocumentSource) -> None:
        self._query = query
        self._source = source
        self._weights: Mapping[int, float] | None = None
        self.distances: Mapping[ChunkKey, float] = {}
        """Squared distances of the chunks that semantic search found, where it was asked."""

    def of(self, state: DocumentState, revision: int) -> list[ScoredSpan]:
        """The parts of that revision with their scores; none where its text is gone or too long to take apart."""
        parts = self._source.parts(state.document_id, revision)
        distances = [self.distances.get((state.document_id, revision, number)) for number in parts.chunks]
        near: dict[int, float] = {}
        if any(distance is not None for distance in distances):
            # A chunk that is not among the nearest found is at least as far as these.
            farthest = max(self.distances.values())
            near = {place: -(farthest if one is None else one) for place, one in enumerate(distances)}
        words = dict(enumerate(parts.coverage(self._query_weights())))
        scores = fuse(near, words, dense_share=DENSE_SHARE)
        spans = zip(parts.starts, parts.ends, strict=True)
        return [ScoredSpan(start, end, scores[place]) for place, (start, end) in enumerate(spans)]

    def _query_weights(self) -> Mapping[int, float]:
        if self._weights is None:
            terms = query_terms(self._query)
            counts, chunks = self._source.term_counts(terms)
            self._weights = query_weights(terms, counts, chunks)
        return self._weights
