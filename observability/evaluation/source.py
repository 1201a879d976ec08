"""``DocumentSource`` over documents in memory, of which some can be hidden for a while."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from observability.evaluation.data import EvaluatedDocument, EvaluationError
from retrieval.bm25 import terms_of_chunks
from retrieval.chunking import Chunk, Section, TooManyChunks, chunk_body, split_sections
from retrieval.interfaces import ChunkKey, ChunkText, DocumentState, IndexChanges
from retrieval.keyword_index import KeywordEntry
from retrieval.lexical import is_cjk_text
from retrieval.text_parts import TextParts, take_apart

REVISION = 1
_SECTIONS_KEPT = 256


class MemoryDocumentSource:
    """Each document is indexed as its first revision; ids count from 1 in the order given.

    ``hidden`` are the ids that are away: as if deleted, with their chunks out of the term counts too.
    """

    def __init__(self, documents: Sequence[EvaluatedDocument]) -> None:
        self.documents = dict(enumerate(documents, start=1))
        self.ids = {document.name: number for number, document in self.documents.items()}
        self.hidden: frozenset[int] = frozenset()
        self.terms: dict[ChunkKey, list[int]] = {}
        """The terms of each chunk with their repetitions: what the sparse vectors are made of."""
        self._states = {number: _state(number, document) for number, document in self.documents.items()}
        self._chunks: dict[int, list[ChunkText]] = {}
        self._counts: Counter[int] = Counter()
        for number, document in self.documents.items():
            self._add(number, document)
        self._sections = lru_cache(maxsize=_SECTIONS_KEPT)(self._split)
        self._parts = lru_cache(maxsize=_SECTIONS_KEPT)(lambda number: take_apart(self.documents[number].body))

    @property
    def chunk_count(self) -> int:
        """Chunks of all documents, hidden ones included."""
        return len(self.terms)

    def _add(self, number: int, document: EvaluatedDocument) -> None:
        try:
            chunks = chunk_body(document.body)
        except TooManyChunks as fault:
            raise EvaluationError(f"{document.name}: {fault}.") from fault
        rows = []
        for chunk, terms in zip(chunks, terms_of_chunks(chunks, title=document.title), strict=True):
            row = _chunk_text(number, chunk, terms)
            self.terms[number, REVISION, chunk.number] = terms
            self._counts.update(row.terms)
            rows.append(row)
        self._chunks[number] = rows

    # ---- DocumentSource ----

    def sequence(self) -> int:
        """Nothing changes: hiding is the row check's matter, as on a site."""
        return 1

    def entries_since(self, sequence: int) -> IndexChanges:
        """Every document with keywords, once."""
        if sequence >= 1:
            return IndexChanges(1, [], [])
        entries = [
            KeywordEntry(number, one.file_path, one.title, one.keywords, one.summary, one.domain)
            for number, one in self.documents.items()
            if one.keywords
        ]
        return IndexChanges(1, entries, [])

    def states(self, document_ids: Iterable[int]) -> Mapping[int, DocumentState]:
        """The documents that are not hidden."""
        ids = (number for number in document_ids if number in self._states and number not in self.hidden)
        return {number: self._states[number] for number in ids}

    def body(self, document_id: int, revision: int) -> str | None:
        """The body; None for another revision and for a hidden document."""
        if revision != REVISION or document_id not in self.documents or document_id in self.hidden:
            return None
        return self.documents[document_id].body

    def sections(self, document_id: int, revision: int) -> Sequence[Section]:
        """The sections of that body, in order."""
        return self._sections(document_id) if self.body(document_id, revision) is not None else ()

    def parts(self, document_id: int, revision: int) -> TextParts:
        """The parts of that body."""
        return self._parts(document_id) if self.body(document_id, revision) is not None else TextParts()

    def chunks(self, keys: Sequence[ChunkKey]) -> Mapping[ChunkKey, ChunkText]:
        """Chunk texts by key."""
        return {key: self._chunks[key[0]][key[2]] for key in keys if key in self.terms}

    def term_counts(self, terms: Sequence[int]) -> tuple[Mapping[int, int], int]:
        """In how many chunks each term stands, and how many chunks there are; hidden documents' are not counted."""
        away = [frozenset(row.terms) for number in self.hidden for row in self._chunks[number]]
        counts = {term: self._counts[term] - sum(term in held for held in away) for term in terms}
        return {term: count for term, count in counts.items() if count}, self.chunk_count - len(away)

    def revision_chunks(self, document_id: int, revision: int) -> Sequence[ChunkText]:
        """Every chunk, in order."""
        return self._chunks.get(document_id, ()) if revision == REVISION else ()

    def all_chunks(self) -> Mapping[int, Sequence[ChunkText]]:
        """The chunks of every document, in order."""
        return self._chunks

    def _split(self, document_id: int) -> tuple[Section, ...]:
        return tuple(split_sections(self.documents[document_id].body))


def _state(number: int, document: EvaluatedDocument) -> DocumentState:
    digest = hashlib.sha256(document.body.encode("utf-8", "surrogatepass")).hexdigest()
    return DocumentState(
        document_id=number,
        file_path=document.file_path,
        title=document.title,
        domain=document.domain,
        revision=REVISION,
        content_hash=digest,
        indexed_revision=REVISION,
        indexed_hash=digest,
        servable=True,
        in_cjk=is_cjk_text(document.body),
    )


def _chunk_text(number: int, chunk: Chunk, terms: Iterable[int]) -> ChunkText:
    return ChunkText(
        document_id=number,
        revision=REVISION,
        number=chunk.number,
        section=chunk.section,
        heading_path=chunk.heading_path,
        start=chunk.start,
        end=chunk.end,
        text=chunk.text,
        terms=tuple(sorted(set(terms))),
    )
