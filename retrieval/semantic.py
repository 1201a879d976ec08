"""L1: the best documents by meaning and by their words, after the row check (SPEC L1-3, L1-5, L1-6, section 7)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from clients.interfaces import ClientError, Embedder, VectorStore
from retrieval.bm25 import coverage
from retrieval.hybrid import HybridRanking, RankedDocument, embedded, rank
from retrieval.interfaces import ChunkKey, ChunkText, DocumentSource, DocumentState
from retrieval.relevance import Evidence, LevelRule, distance_of_cosine, similarity_of
from retrieval.rows import LiveRows
from retrieval.stopwatch import Stopwatch

log = logging.getLogger(__name__)

BEST_DOCUMENTS = 3
_FARTHEST = 4.0


@dataclass(frozen=True)
class SemanticHit:
    """A document's best chunk. ``squared_distance`` is the store's own, ``evidence`` decides levels."""

    state: DocumentState
    chunk: ChunkText
    squared_distance: float
    evidence: Evidence

    @property
    def similarity(self) -> float:
        """0 to 1, in the space in which levels are decided."""
        return self.evidence.similarity


@dataclass(frozen=True)
class SemanticFindings:
    """``candidates``: the best documents in the order of the fused ranking; ``hits``: those good enough to be shown.

    ``degraded`` names the part that failed, "" where none did, and ``error`` says why. ``ranking`` is what the
    candidates were cut from.
    """

    candidates: tuple[SemanticHit, ...] = ()
    hits: tuple[SemanticHit, ...] = ()
    degraded: str = ""
    error: str = ""
    ranking: HybridRanking | None = None

    def evidence_of(self, document_id: int) -> Evidence | None:
        """Where the search found this document: what speaks for it."""
        return next((hit.evidence for hit in self.candidates if hit.state.document_id == document_id), None)

    def similarity_of_document(self, document_id: int) -> float | None:
        """Where the search found this document: how near its best chunk is."""
        evidence = self.evidence_of(document_id)
        return None if evidence is None else evidence.similarity

    @property
    def top_similarity(self) -> float | None:
        return max((hit.similarity for hit in self.candidates), default=None)

    @property
    def top_score(self) -> float | None:
        return min((hit.squared_distance for hit in self.candidates), default=None)


class SemanticSearch:
    """One question against the chunks of every document. A part that fails is named in the findings, never raised."""

    def __init__(
        self,
        *,
        source: DocumentSource,
        embedder: Embedder,
        store: VectorStore,
        rows: LiveRows,
        rule: LevelRule,
        max_l2_distance: float,
        watch: Stopwatch,
    ) -> None:
        self._source = source
        self._embedder = embedder
        self._store = store
        self._rows = rows
        self._rule = rule
        self._max_l2_distance = max_l2_distance
        self._watch = watch

    def find(self, query: str, *, documents: int = BEST_DOCUMENTS) -> SemanticFindings:
        """The best ``documents`` documents; a lookup takes three, measuring looks further."""
        # Degradation points "embedder" and "vector_store" (L1-5): the lookup goes on with what exact search found.
        try:
            with self._watch.stage("embed"):
                question = embedded(query, self._embedder)
        except ClientError as error:
            return _failed("embedder", error)
        try:
            with self._watch.stage("l1"):
                ranking = rank(
                    question,
                    embedder=self._embedder,
                    store=self._store,
                    source=self._source,
                    rows=self._rows,
                    wanted=documents,
                )
                candidates = self._candidates(ranking, documents)
        except ClientError as error:
            return _failed("vector_store", error)
        hits = tuple(hit for hit in candidates if self._rule.finds(hit.evidence))
        log.debug("semantic search: %d documents, %d good enough", len(candidates), len(hits))
        return SemanticFindings(candidates=candidates, hits=hits, ranking=ranking)

    def _candidates(self, ranking: HybridRanking, documents: int) -> tuple[SemanticHit, ...]:
        best = ranking.documents[:documents]
        keys = list(dict.fromkeys(key for one in best for key in one.chunks))
        texts = self._source.chunks(keys) if keys else {}
        hits = []
        for one in best:
            if one.chunk not in texts:
                key = ":".join(map(str, one.chunk))
                log.warning("chunk %s has a vector and no text; run `manage.py reconcile`", key)
                continue
            # A chunk whose vector went meanwhile is as far as can be.
            distance = min(ranking.distances.get(key, _FARTHEST) for key in one.chunks)
            hits.append(SemanticHit(one.state, texts[one.chunk], distance, self._evidence(one, ranking, texts)))
        return tuple(hits)

    def _evidence(self, one: RankedDocument, ranking: HybridRanking, texts: Mapping[ChunkKey, ChunkText]) -> Evidence:
        """The document by its best chunks: the one that is shown, and the first of each list."""
        there = [key for key in one.chunks if key in texts]
        return Evidence(
            similarity=max(similarity_of(self._level_distance(key, ranking), self._max_l2_distance) for key in there),
            coverage=max(coverage(ranking.query_weights, texts[key].terms) for key in there),
            agreed=one.first_in_both if ranking.has_lexical else None,
        )

    def _level_distance(self, key: ChunkKey, ranking: HybridRanking) -> float:
        """The squared distance as it is, or 2 - 2c in the embedder's own level space."""
        if not self._embedder.own_level_space:
            return ranking.distances.get(key, _FARTHEST)
        cosine = ranking.cosines.get(key)
        return _FARTHEST if cosine is None else distance_of_cosine(cosine)


def _failed(part: str, error: ClientError) -> SemanticFindings:
    reason = f"{error.code}: {error}"
    log.warning("semantic search left out, %s failed: %s", part, reason)
    return SemanticFindings(degraded=part, error=reason)
