"""L0 matches of one lookup, held against their rows 50 at a time and only as far as needed (SPEC L0-4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from retrieval.interfaces import DocumentState
from retrieval.keyword_index import Found, RowCheck
from retrieval.rows import LiveRows
from retrieval.stopwatch import Stopwatch

_RECORDED = 50


@dataclass(frozen=True)
class ExactHit:
    """A document that matched by these keywords, and its row."""

    state: DocumentState
    keywords: tuple[str, ...]


class ExactIndex(Protocol):
    """The keyword index as a lookup uses it; :class:`retrieval.keyword_sync.SyncedKeywordIndex` on a site."""

    def refresh(self) -> bool:
        """Take over what changed; False where that is not possible: it then answers from what it has, or nothing."""
        ...

    def find(self, query: str, live: RowCheck | None = None, *, wanted: int = 1) -> Found:
        """The first matches in index order, rows checked until ``wanted`` pass."""
        ...


class ExactMatches:
    """In index order. Iterating checks rows as it goes; what was checked once is not checked again.

    ``outdated``: the index could not be brought up to date, or not be loaded at all (L0-7).
    """

    def __init__(self, found: Found, rows: LiveRows, watch: Stopwatch, *, outdated: bool = False) -> None:
        self.outdated = outdated
        self._found = found
        self._rows = rows
        self._watch = watch

    def __iter__(self) -> Iterator[ExactHit]:
        position = 0
        while True:
            while position >= len(self._found.matches):
                if not self._check_more():
                    return
            yield self._hit(position)
            position += 1

    def first(self) -> ExactHit | None:
        return next(iter(self), None)

    def is_unique(self) -> bool:
        return len(list(islice(self, 2))) == 1

    @property
    def count(self) -> int:
        """Matches after the row check; those not checked yet are counted as they are."""
        return self._found.total

    def recorded(self) -> list[ExactHit]:
        """The first of them, as far as they were checked."""
        return [self._hit(position) for position in range(min(len(self._found.matches), _RECORDED))]

    def _hit(self, position: int) -> ExactHit:
        match = self._found.matches[position]
        return ExactHit(state=self._rows.checked(match.entry.document_id), keywords=match.keywords)

    def _check_more(self) -> bool:
        with self._watch.stage("l0"):
            return self._found.more()
