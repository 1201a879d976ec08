"""The row check: every hit is held against its document's row before it counts (SPEC L0-4, DOC-5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrieval.interfaces import DocumentSource, DocumentState

BATCH = 50


class LiveRows:
    """Rows read during one lookup, each once, in batches of 50."""

    def __init__(self, source: DocumentSource) -> None:
        self._source = source
        self._states: dict[int, DocumentState | None] = {}
        self._passed: dict[int, DocumentState] = {}

    def state(self, document_id: int) -> DocumentState | None:
        """The row, where it may be served."""
        return self.states([document_id]).get(document_id)

    def states(self, document_ids: Iterable[int]) -> dict[int, DocumentState]:
        """The rows of these ids that may be served."""
        wanted = list(document_ids)
        self._read([document_id for document_id in wanted if document_id not in self._states])
        found = ((document_id, self._states[document_id]) for document_id in wanted)
        return {document_id: state for document_id, state in found if state is not None}

    def checked(self, document_id: int) -> DocumentState:
        """The row of an id that passed the check in this lookup, as it stood then. ``KeyError`` for another."""
        return self._passed[document_id]

    def again(self, document_id: int) -> DocumentState | None:
        """Read one row afresh: its text was gone, so it may have changed since it was read."""
        self._states.pop(document_id, None)
        return self.state(document_id)

    def live(self, document_ids: Sequence[int]) -> list[int]:
        """The row check that the keyword index asks for: which of these ids pass."""
        return list(self.states(document_ids))

    def _read(self, document_ids: Sequence[int]) -> None:
        for start in range(0, len(document_ids), BATCH):
            batch = document_ids[start : start + BATCH]
            rows = self._source.states(batch)
            for document_id in batch:
                row = rows.get(document_id)
                self._states[document_id] = None
                if row is not None and row.servable:
                    self._states[document_id] = self._passed[document_id] = row
