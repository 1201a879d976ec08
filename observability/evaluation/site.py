"""A knowledge base loaded to be measured: the product's own lookup over documents in memory, beside any site.

Nothing of the site at hand is opened: the vectors lie in a store of their own that goes with this object, the keyword
index is read from the documents, no table is touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self, TextIO

from clients.embedding_lexical import identity_of, own_lexical_weights
from clients.embedding_pool import Passages
from clients.fakes import InMemoryVectorStore
from clients.interfaces import ChunkVector, Embedder, SparseVector, Vector, VectorStore
from clients.session_memory import InProcessSessionMemory
from clients.vector_store import MilvusVectorStore
from observability.evaluation.data import EvaluatedDocument, EvaluationError
from observability.evaluation.progress import Progress
from observability.evaluation.source import REVISION, MemoryDocumentSource
from retrieval.action_memory import RetrievedDocTracker
from retrieval.bm25 import chunk_weights
from retrieval.interfaces import ChunkText
from retrieval.keyword_sync import SyncedKeywordIndex
from retrieval.lookup import lookup_knowledge
from retrieval.lookup_types import LookupOutcome, RetrievalSettings
from retrieval.relevance import LevelRule, rule_for
from retrieval.rows import LiveRows
from retrieval.semantic import SemanticFindings, SemanticSearch
from retrieval.stopwatch import Stopwatch

StoreKind = Literal["milvus", "memory"]


@dataclass(frozen=True)
class RankedNames:
    """What a search ranked, before its cut: scores of documents by name, fused and dense (minus squared distance)."""

    fused: dict[str, float]
    dense: dict[str, float]


class EvaluationSite:
    """Use it as a context manager: entering embeds and loads, leaving removes the store.

    ``settings`` are the lookup's (the product's defaults where not given), ``store`` a Milvus Lite file of its own or
    memory, ``progress`` a stream to tell how far loading is. Raises what the embedder and the store raise. For one
    thread.
    """

    def __init__(
        self,
        documents: Sequence[EvaluatedDocument],
        embedder: Embedder,
        *,
        settings: RetrievalSettings | None = None,
        store: StoreKind = "milvus",
        progress: TextIO | None = None,
    ) -> None:
        self.embedder = embedder
        self.settings = settings or RetrievalSettings()
        self.store_kind = store
        self.source = MemoryDocumentSource(documents)
        self.index = SyncedKeywordIndex(self.source)
        self._tracker = RetrievedDocTracker(InProcessSessionMemory(ttl=60))
        self._progress = progress
        self._held = ExitStack()
        self._store: VectorStore | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            passages = self._embedded(self._texts())  # before the store: an endpoint tells its dimension
            self._store = self._make_store(stack)
            self._load(passages)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._store = None
        self._held.close()

    @property
    def store(self) -> VectorStore:
        """The loaded store."""
        if self._store is None:
            raise RuntimeError("the evaluation site is not loaded: enter it with `with`")
        return self._store

    @property
    def rule(self) -> LevelRule:
        """The rule that levels are decided by: the operator's thresholds where set, else the embedder's fit."""
        return rule_for(self.settings, self.embedder.fit)

    def name_of(self, document_id: int) -> str:
        """What questions call this document."""
        return self.source.documents[document_id].name

    @contextmanager
    def hide(self, names: Iterable[str]) -> Iterator[None]:
        """These documents are away while the block runs, as if deleted; nothing is loaded again. Nests."""
        before = self.source.hidden
        self.source.hidden = before | {self.source.ids[name] for name in names}
        try:
            yield
        finally:
            self.source.hidden = before

    def find(self, query: str) -> SemanticFindings:
        """Semantic search as a lookup does it; :class:`EvaluationError` where a part of it failed."""
        search = SemanticSearch(
            source=self.source,
            embedder=self.embedder,
            store=self.store,
            rows=LiveRows(self.source),
            rule=self.rule,
            max_l2_distance=self.settings.max_l2_distance,
            watch=Stopwatch(),
        )
        findings = search.find(query)
        if findings.degraded:
            raise EvaluationError(f"The search for “{query[:60]}” failed: {findings.error}")
        return findings

    def rank(self, query: str) -> RankedNames:
        """The ranked list that a lookup's best three are cut from, as deep as a lookup looks and no deeper."""
        ranking = self.find(query).ranking
        if ranking is None:
            return RankedNames({}, {})
        fused = {self.name_of(one.state.document_id): one.score for one in ranking.documents}
        dense: dict[str, float] = {}
        for (document_id, _revision, _number), distance in ranking.distances.items():
            name = self.name_of(document_id)
            dense[name] = max(-distance, dense.get(name, -distance))
        return RankedNames(fused, dense)

    def look_up(self, query: str, *, literal_precise: bool = False) -> LookupOutcome:
        """One lookup that remembers nothing; ``literal_precise``: by the rule without the PRECISE check.

        :class:`EvaluationError` where a part of it failed: a figure must not be of half a site.
        """
        settings = replace(self.settings, precise_check=False) if literal_precise else self.settings
        outcome = lookup_knowledge(
            query,
            source=self.source,
            index=self.index,
            embedder=self.embedder,
            store=self.store,
            tracker=self._tracker,
            scope=None,
            settings=settings,
        )
        if outcome.degraded:
            raise EvaluationError(f"The lookup of “{query[:60]}” failed in part: {outcome.degraded} {outcome.error}")
        return outcome

    # ---- Loading ----

    def _texts(self) -> list[str]:
        return [chunk.text for chunks in self.source.all_chunks().values() for chunk in chunks]

    def _make_store(self, stack: ExitStack) -> VectorStore:
        identity = identity_of(self.embedder)
        if self.store_kind == "memory":
            return InMemoryVectorStore(identity=lambda: identity)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbsite-evaluation-")))
        store = MilvusVectorStore(str(folder / "evaluation.db"), identity=lambda: identity)
        stack.callback(store.close)
        return store

    def _embedded(self, texts: Sequence[str]) -> Passages:
        own = own_lexical_weights(self.embedder)
        if own is None:
            return Passages(self.embedder.embed_documents(texts))
        return Passages(*own.embed_documents_with_lexical(texts))

    def _load(self, passages: Passages) -> None:
        self.store.open()
        progress = Progress(self._progress, "Loading documents", len(self.source.documents))
        start = 0
        for number, chunks in self.source.all_chunks().items():
            end = start + len(chunks)
            weights = None if passages.weights is None else passages.weights[start:end]
            rows = self._rows(number, chunks, passages.vectors[start:end], weights)
            start = end
            if rows:
                self.store.upsert(number, REVISION, rows)
            progress.add()
        self.store.flush()

    def _rows(
        self,
        number: int,
        chunks: Sequence[ChunkText],
        vectors: Iterable[Vector],
        own_weights: Sequence[SparseVector] | None,
    ) -> list[ChunkVector]:
        domain = self.source.documents[number].domain
        terms = [self.source.terms[number, REVISION, chunk.number] for chunk in chunks]
        weights = own_weights if own_weights is not None else [chunk_weights(of_chunk) for of_chunk in terms]
        return [
            ChunkVector(chunk.number, domain, vector, of_chunk)
            for chunk, vector, of_chunk in zip(chunks, vectors, weights, strict=True)
        ]
