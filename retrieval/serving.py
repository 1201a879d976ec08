"""Reads the text of a hit and claims it in the action memory, so that it is served once (AM-2, AM-3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from retrieval.call_memory import CallMemory
from retrieval.chunking import Section
from retrieval.interfaces import ChunkText, DocumentSource, DocumentState
from retrieval.messages import Held
from retrieval.part_scores import PartScores
from retrieval.parts import Revision
from retrieval.passages import (
    Passage,
    around_chunk,
    chosen,
    from_chunks,
    opening,
    section_text,
    section_titles,
    sections_with_text,
)
from retrieval.rows import LiveRows
from retrieval.selection import ScoredSpan, Span
from retrieval.semantic import SemanticHit

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CurrentText:
    """A document's current revision, read."""

    state: DocumentState
    body: str
    sections: Sequence[Section]

    @cached_property
    def section_keys(self) -> tuple[str, ...]:
        return tuple(section.key for section in sections_with_text(self.body, self.sections))

    @property
    def revision(self) -> Revision:
        return current_revision(self.state)


def current_revision(state: DocumentState) -> Revision:
    return Revision(path=state.file_path, content_hash=state.content_hash)


def indexed_revision(hit: SemanticHit) -> Revision:
    """The revision whose text a semantic hit shows: the current one, or an older one whose vectors still answer."""
    state = hit.state
    is_current = hit.chunk.revision == state.revision
    return Revision(state.file_path, state.content_hash if is_current else state.indexed_hash)


class Texts:
    """The texts of one lookup. ``refused`` counts hits that were served before, ``unreadable`` those without a text."""

    def __init__(
        self,
        source: DocumentSource,
        rows: LiveRows,
        memory: CallMemory,
        scores: PartScores | None,
        limit: int,
    ) -> None:
        """``scores`` choose the parts of a long document; without them its head is shown."""
        self._source = source
        self._rows = rows
        self._memory = memory
        self._scores = scores
        self._limit = limit
        self._read: dict[int, CurrentText | None] = {}
        self.refused = 0
        self.unreadable = 0

    # ---- What the memory filters, by the snapshot that this lookup read (a claim asks again, atomically) ----

    def was_given(self, state: DocumentState) -> bool:
        """Was any part of the document, as it is now or as it is indexed, given in this scope?"""
        hashes = {state.content_hash, state.indexed_hash}
        return any(self._memory.marks.given(Revision(state.file_path, one)) for one in hashes if one)

    def exact_is_filtered(self, state: DocumentState) -> bool:
        revision = current_revision(state)
        if not self._memory.marks.given(revision):
            return False
        if self._memory.marks.has_one_of([revision.parts([""])]):
            return True
        text = self.current(state)
        return text is not None and self._memory.marks.has_one_of(_unless_exact(text))

    def semantic_is_filtered(self, hit: SemanticHit) -> bool:
        return self._memory.marks.has_one_of(_unless_semantic(hit))

    # ---- Serving: read first, then claim, so that a claim always stands for a text that was shown ----

    def serve_exact(self, state: DocumentState) -> tuple[DocumentState, Passage] | None:
        """A document, or of a long one the parts that bear on the question."""
        if self.exact_is_filtered(state):
            self.refused += 1
            return None
        text = self.current(state)
        if text is None:
            return None
        passage = self._chosen(text, section="") or opening(text.body, text.sections, self._limit)
        if not self._memory.claim(_unless_exact(text), _marks(text.revision, passage)):
            self.refused += 1
            return None
        return text.state, passage

    def serve_semantic(self, hit: SemanticHit) -> Passage | None:
        """A document that fits, or of a long one the parts that bear on the question, the hit's chunk among them."""
        if self.semantic_is_filtered(hit):
            self.refused += 1
            return None
        passage = self._chunk_passage(hit)
        if passage is None:
            return None
        if not self._memory.claim(_unless_semantic(hit), _marks(indexed_revision(hit), passage)):
            self.refused += 1
            return None
        return passage

    def serve_section(self, text: CurrentText, section: Section) -> Passage | None:
        """A named section, withheld only where it was shown whole and nothing else would be shown with it."""
        passage = self._part_of_section(text, section) or section_text(text.body, text.sections, section, self._limit)
        shown_before = text.revision.whole_sections(passage.shown_whole) if section.key in passage.shown_whole else None
        unless = [shown_before] if shown_before else []
        if not self._memory.claim(unless, _marks(text.revision, passage)):
            self.refused += 1
            return None
        return passage

    def current(self, state: DocumentState) -> CurrentText | None:
        """The current text; ``None`` where it is gone. Read once a lookup."""
        if state.document_id not in self._read:
            self._read[state.document_id] = self._read_current(state)
        return self._read[state.document_id]

    def held(self, state: DocumentState) -> Held:
        """A document as a message names it, with the sections that this scope was not shown whole."""
        text = self.current(state)
        unread: tuple[str, ...] = ()
        if text is not None:
            keys = section_titles(text.section_keys)
            given = self._memory.marks.all
            unread = tuple(key for key in keys if text.revision.whole_section(key) not in given)
        return Held(title=state.title, path=state.file_path, unread_sections=unread)

    def _read_current(self, state: DocumentState) -> CurrentText | None:
        body = self._source.body(state.document_id, state.revision)
        if body is None:
            fresh = self._rows.again(state.document_id)
            if fresh is None:
                return None  # deleted since its row was checked: no longer a hit
            if fresh.revision != state.revision:
                state = fresh  # replaced between the row check and the reading: serve what it says now
                body = self._source.body(state.document_id, state.revision)
        if body is None:
            self._give_up(state)
            return None
        return CurrentText(state, body, self._source.sections(state.document_id, state.revision))

    def _chunk_passage(self, hit: SemanticHit) -> Passage | None:
        state, chunk = hit.state, hit.chunk
        if chunk.revision == state.revision:
            text = self.current(state)
            if text is None:
                return None
            if text.state.revision == chunk.revision:
                return self._around(text, chunk)
        chunks = self._source.revision_chunks(state.document_id, chunk.revision)
        if not chunks:
            self._give_up(state)
            return None
        return from_chunks(chunks, chunk, self._limit)

    def _part_of_section(self, text: CurrentText, section: Section) -> Passage | None:
        """Of a section longer than the limit what bears on the question; None where it fits, or has no parts."""
        if self._scores is None or section.tree_end - section.start <= self._limit:
            return None
        inside = [
            part
            for part in self._scores.of(text.state, text.state.revision)
            if section.start <= part.start and part.end <= section.tree_end
        ]
        return chosen(text.body, text.sections, inside, self._limit, section=section.key)

    def _around(self, text: CurrentText, chunk: ChunkText) -> Passage:
        if self._scores is not None and len(text.body) <= self._limit:
            return replace(opening(text.body, text.sections, self._limit), section=chunk.section)
        chosen_parts = self._chosen(text, section=chunk.section, first=(chunk.start, chunk.end))
        return chosen_parts or around_chunk(text.body, text.sections, chunk, self._limit)

    def _chosen(self, text: CurrentText, *, section: str, first: Span | None = None) -> Passage | None:
        """Of a body longer than the limit the parts that bear on the question; None where they cannot be told."""
        if self._scores is None or len(text.body) <= self._limit:
            return None
        parts = self._scores.of(text.state, text.state.revision)
        if first is not None:
            first = _best_within(first, parts)
        return chosen(text.body, text.sections, parts, self._limit, section=section, first=first)

    def _give_up(self, state: DocumentState) -> None:
        # Degradation point "document_text": the next hit is served in its place.
        self.unreadable += 1
        log.error("the text of %s (revision %d) cannot be read; it is left out", state.file_path, state.revision)


def _best_within(chunk: Span, parts: Sequence[ScoredSpan]) -> Span:
    """The best part of a chunk; the chunk itself where it has none."""
    inside = [part for part in parts if chunk[0] <= part.start and part.end <= chunk[1]]
    best = max(inside, key=lambda part: part.score, default=None)
    return chunk if best is None else (best.start, best.end)


def _unless_exact(text: CurrentText) -> list[frozenset[str]]:
    sets = [text.revision.parts([""]), text.revision.parts(text.section_keys)]
    return [one for one in sets if one]


def _unless_semantic(hit: SemanticHit) -> list[frozenset[str]]:
    whole = frozenset([current_revision(hit.state).whole_document()])
    return [indexed_revision(hit).parts([hit.chunk.section]), whole]


def _marks(revision: Revision, passage: Passage) -> frozenset[str]:
    marks = revision.parts([passage.section, *passage.shown_whole]) | revision.whole_sections(passage.shown_whole)
    return marks | {revision.whole_document()} if passage.whole_document else marks
