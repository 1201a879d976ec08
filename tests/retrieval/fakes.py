"""A small world for lookups: documents in a dict, with the real keyword index, store, memory and embedder around it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clients.embedding_lexical import identity_of, own_lexical_weights
from clients.fakes import InMemoryVectorStore
from clients.interfaces import (
    ChunkVector,
    ClientError,
    LevelFit,
    Matrix,
    SessionMemory,
    Vector,
    VectorHit,
)
from clients.session_memory import InProcessSessionMemory
from retrieval.action_memory import MemoryScope, RetrievedDocTracker
from retrieval.bm25 import chunk_weights, terms_of_chunks
from retrieval.chunking import Section, chunk_body, split_sections
from retrieval.interfaces import ChunkKey, ChunkText, DocumentState, IndexChanges
from retrieval.keyword_index import KeywordEntry
from retrieval.keyword_sync import SyncedKeywordIndex
from retrieval.lexical import is_cjk_text
from retrieval.lookup import lookup_knowledge
from retrieval.lookup_types import LookupOutcome, RetrievalSettings
from retrieval.text_parts import TextParts, take_apart

DIMENSION = 64
HIGH, LOW = 0.75, 0.5


@dataclass(frozen=True)
class Document:
    """One document as the world holds it; ``near`` maps a query to how similar its best chunk is to it."""

    document_id: int
    path: str
    title: str
    body: str
    domain: str = "api"
    keywords: tuple[str, ...] = ()
    near: Mapping[str, float] = field(default_factory=dict)


def similarity_vector(similarity: float, axis: int) -> Vector:
    """A unit vector whose cosine with the first axis is ``similarity``, its rest along an axis of its own."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[0], vector[axis] = similarity, (1.0 - similarity**2) ** 0.5
    return vector


class FixedEmbedder:
    """Every query is the first axis; what is near it is decided by the vectors that the world stores."""

    name = "fixed"
    version = "1"
    dimension = DIMENSION
    lexical = False
    own_level_space = False
    fit = LevelFit(highly_relevant=HIGH, reference=LOW)

    def __init__(self) -> None:
        self.asked = 0
        self.fails: ClientError | None = None

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return similarity_vector(1.0, 1)

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        cosines: Vector = documents @ query
        return cosines


class OwnWords(FixedEmbedder):
    """Has lexical weights of its own: letters wherever they stand, weighed by ``letters``; no analyser counts those."""

    name = "own-words"
    has_lexical = True

    def __init__(self, letters: Mapping[str, float]) -> None:
        super().__init__()
        self.letters = letters
        self.asked_words: list[str] = []
        self.words_fail: ClientError | None = None

    def lexical_documents(self, texts: Sequence[str]) -> list[dict[int, float]]:
        return [self._weights(text) for text in texts]

    def lexical_query(self, text: str) -> dict[int, float]:
        if self.words_fail is not None:
            raise self.words_fail
        self.asked_words.append(text)
        return self._weights(text)

    def embed_documents_with_lexical(self, texts: Sequence[str]) -> tuple[Matrix, list[dict[int, float]]]:
        return self.embed_documents(texts), self.lexical_documents(texts)

    def _weights(self, text: str) -> dict[int, float]:
        return {ord(letter): weight for letter, weight in self.letters.items() if letter in text}


class World:
    """``DocumentSource`` over a dict, and everything else that a lookup needs."""

    def __init__(
        self, *documents: Document, embedder: Any = None, memory: SessionMemory | None = None, lexical: bool = False
    ) -> None:
        """``lexical``: chunks are found by their words too; else only by what ``near`` says."""
        self.lexical = lexical
        self.embedder = embedder if embedder is not None else FixedEmbedder()
        self.store: Any = InMemoryVectorStore(identity=lambda: identity_of(self.embedder))
        self.index = SyncedKeywordIndex(self)
        self.changes: dict[int, tuple[int, KeywordEntry]] = {}
        self.counter = 0
        self.memory: Any = memory if memory is not None else InProcessSessionMemory(ttl=3600)
        self.settings = RetrievalSettings()
        self.rows: dict[int, DocumentState] = {}
        self.bodies: dict[tuple[int, int], str] = {}
        self.chunk_rows: dict[ChunkKey, ChunkText] = {}
        self.states_asked: list[list[int]] = []
        for document in documents:
            self.put(document)

    # ---- Making it what it is ----

    def put(self, document: Document, *, index_vectors: bool = True) -> None:
        """Add a document or its next revision, published; its vectors too unless told otherwise."""
        before = self.rows.get(document.document_id)
        revision = before.revision + 1 if before is not None else 1
        digest = hashlib.sha256(document.body.encode()).hexdigest()
        self.rows[document.document_id] = DocumentState(
            document_id=document.document_id,
            file_path=document.path,
            title=document.title,
            domain=document.domain,
            revision=revision,
            content_hash=digest,
            indexed_revision=before.indexed_revision if before is not None else 0,
            indexed_hash=before.indexed_hash if before is not None else "",
            servable=True,
            in_cjk=is_cjk_text(document.body),
        )
        self.bodies = {key: body for key, body in self.bodies.items() if key[0] != document.document_id}
        self.bodies[document.document_id, revision] = document.body
        entry = KeywordEntry(
            document.document_id, document.path, document.title, document.keywords, "", document.domain
        )
        self.counter += 1
        self.changes[document.document_id] = (self.counter, entry)
        if index_vectors:
            self._index(document, revision, digest)

    def _index(self, document: Document, revision: int, digest: str) -> None:
        chunks = chunk_body(document.body)
        vectors = [self._vector(document, chunk.text, number) for number, chunk in enumerate(chunks)]
        terms = terms_of_chunks(chunks, title=document.title) if self.lexical else [[] for _ in chunks]
        weights = [chunk_weights(of_chunk) for of_chunk in terms]
        if self.lexical and (own := own_lexical_weights(self.embedder)) is not None:
            weights = own.lexical_documents([chunk.text for chunk in chunks])
        self.store.upsert(
            document.document_id,
            revision,
            [
                ChunkVector(chunk.number, document.domain, vector, of_chunk)
                for chunk, vector, of_chunk in zip(chunks, vectors, weights, strict=True)
            ],
        )
        self.chunk_rows = {key: row for key, row in self.chunk_rows.items() if key[0] != document.document_id}
        for chunk, of_chunk in zip(chunks, terms, strict=True):
            text = ChunkText(
                document_id=document.document_id,
                revision=revision,
                number=chunk.number,
                section=chunk.section,
                heading_path=chunk.heading_path,
                start=chunk.start,
                end=chunk.end,
                text=chunk.text,
                terms=tuple(sorted(set(of_chunk))),
            )
            self.chunk_rows[document.document_id, revision, chunk.number] = text
        row = self.rows[document.document_id]
        self.rows[document.document_id] = replace(row, indexed_revision=revision, indexed_hash=digest)

    def _vector(self, document: Document, text: str, number: int) -> Vector:
        """The most similar of the marks in ``near`` that the chunk holds; an unmarked chunk is orthogonal."""
        if not isinstance(self.embedder, FixedEmbedder):
            vector: Vector = self.embedder.embed_documents([text])[0]
            return vector
        similarity = max((value for mark, value in document.near.items() if mark in text), default=0.0)
        return similarity_vector(similarity, 1 + (document.document_id * 7 + number) % (DIMENSION - 1))

    def hide(self, document_id: int) -> None:
        """Disabled, or being deleted: the row says no, the index and the store do not know yet."""
        self.rows[document_id] = replace(self.rows[document_id], servable=False)

    def lose_text(self, document_id: int) -> None:
        """The file is gone from the disk, and the row does not know."""
        self.bodies = {key: body for key, body in self.bodies.items() if key[0] != document_id}

    # ---- DocumentSource ----

    def sequence(self) -> int:
        return self.counter

    def entries_since(self, sequence: int) -> IndexChanges:
        changed = [entry for number, entry in self.changes.values() if number > sequence]
        removed = [entry.document_id for entry in changed if not entry.keywords]
        return IndexChanges(self.counter, [entry for entry in changed if entry.keywords], removed)

    def states(self, document_ids: Iterable[int]) -> Mapping[int, DocumentState]:
        ids = list(document_ids)
        self.states_asked.append(ids)
        return {one: self.rows[one] for one in ids if one in self.rows}

    def body(self, document_id: int, revision: int) -> str | None:
        return self.bodies.get((document_id, revision))

    def sections(self, document_id: int, revision: int) -> Sequence[Section]:
        return split_sections(self.bodies[document_id, revision])

    def parts(self, document_id: int, revision: int) -> TextParts:
        return take_apart(self.bodies.get((document_id, revision), ""))

    def chunks(self, keys: Sequence[ChunkKey]) -> Mapping[ChunkKey, ChunkText]:
        return {key: self.chunk_rows[key] for key in keys if key in self.chunk_rows}

    def term_counts(self, terms: Sequence[int]) -> tuple[Mapping[int, int], int]:
        held = [set(row.terms) for row in self.chunk_rows.values()]
        return {term: sum(term in one for one in held) for term in terms}, len(held)

    def revision_chunks(self, document_id: int, revision: int) -> Sequence[ChunkText]:
        found = [row for key, row in self.chunk_rows.items() if key[:2] == (document_id, revision)]
        return sorted(found, key=lambda row: row.number)

    # ---- Asking ----

    def look_up(
        self, query: str, *, session: str | None = None, principal: str = "user:1", **more: Any
    ) -> LookupOutcome:
        scope = MemoryScope(principal, session) if session is not None else None
        return lookup_knowledge(
            query,
            source=self,
            index=self.index,
            embedder=self.embedder,
            store=self.store,
            tracker=RetrievedDocTracker(self.memory),
            scope=scope,
            settings=more.pop("settings", self.settings),
            **more,
        )


class BrokenStore:
    """A vector store that is down."""

    metric = "L2"
    has_lexical = True

    def search(self, *_: Any, **__: Any) -> list[VectorHit]:
        raise ClientError("no route to the store", code="store_unavailable", retryable=True)

    search_lexical = vectors = search


class BrokenMemory:
    """A session memory that is down: every method raises."""

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise ClientError("the memory does not answer", code="memory_unavailable", retryable=True)

        return fail
