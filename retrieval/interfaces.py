"""What retrieval needs from above it: documents as plain frozen values, never as Django models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from retrieval.chunking import Section
from retrieval.keyword_index import KeywordEntry
from retrieval.text_parts import TextParts

ChunkKey = tuple[int, int, int]
"""``(document id, revision, chunk number)``."""


@dataclass(frozen=True)
class DocumentState:
    """The row check: what a lookup must know of a document at this moment.

    ``servable``: enabled, published at least once, not being deleted, its file not missing. ``revision`` and
    ``content_hash`` are the current text's, ``indexed_revision`` (0: none) and ``indexed_hash`` those of the vectors
    that may answer, ``in_cjk`` whether that text is written in Chinese, Japanese or Korean.
    """

    document_id: int
    file_path: str
    title: str
    domain: str
    revision: int
    content_hash: str
    indexed_revision: int
    indexed_hash: str
    servable: bool
    in_cjk: bool = False


@dataclass(frozen=True)
class ChunkText:
    """A chunk as stored in ``document_chunk``. ``section`` is the key of the section that it lies in.

    ``terms`` are the distinct ids of the terms that the lexical search finds it by, its title's among them.
    """

    document_id: int
    revision: int
    number: int
    section: str
    heading_path: tuple[str, ...]
    start: int
    end: int
    text: str
    terms: tuple[int, ...] = ()


@dataclass(frozen=True)
class IndexChanges:
    """What happened to the keyword index's documents since a sequence number."""

    sequence: int
    entries: Sequence[KeywordEntry]
    removed: Sequence[int]


class DocumentSource(Protocol):
    """The documents app, as retrieval sees it (implemented in ``documents/source.py``)."""

    def sequence(self) -> int:
        """The change counter: one cheap read; it moves with every visible change."""
        ...

    def entries_since(self, sequence: int) -> IndexChanges:
        """Entries with keywords that changed after ``sequence``, and ids that must not be in the index."""
        ...

    def states(self, document_ids: Iterable[int]) -> Mapping[int, DocumentState]:
        """The rows' present state by primary key, in one query; ids without a row are missing from the answer."""
        ...

    def body(self, document_id: int, revision: int) -> str | None:
        """The body (no frontmatter) of the current revision, staged or published; None when it is gone."""
        ...

    def sections(self, document_id: int, revision: int) -> Sequence[Section]:
        """The sections of that body, in order."""
        ...

    def parts(self, document_id: int, revision: int) -> TextParts:
        """What a long body is chosen from; no parts where it is gone or too long to take apart."""
        ...

    def chunks(self, keys: Sequence[ChunkKey]) -> Mapping[ChunkKey, ChunkText]:
        """Chunk texts by key, in one query; keys without a row are missing from the answer."""
        ...

    def term_counts(self, terms: Sequence[int]) -> tuple[Mapping[int, int], int]:
        """In how many chunks each of these terms stands (missing: none), and how many chunks there are."""
        ...

    def revision_chunks(self, document_id: int, revision: int) -> Sequence[ChunkText]:
        """Every chunk of one indexed revision, in order: how an older revision's text is put together."""
        ...
