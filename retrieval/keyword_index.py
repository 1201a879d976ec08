"""L0: the exact keyword index, in memory (SPEC section 5).

One plain class that needs neither a database nor a service. The rules on strings are in ``keyword_matching``, the
tables in ``keyword_postings``; this file joins them, decides which matches count, and keeps many threads apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from retrieval.keyword_entries import EntryPages, KeywordEntry, KeywordMatch, ManyMatches, match_of
from retrieval.keyword_matching import may_match_partially
from retrieval.keyword_postings import KeywordTable, Occurrence, ascending_union
from retrieval.normalise import normalise

__all__ = ["ROWS_AT_A_TIME", "Found", "KeywordEntry", "KeywordIndex", "KeywordMatch", "RowCheck"]

RowCheck = Callable[[Sequence[int]], Iterable[int]]
"""Takes document ids (each asked at most once a query) and gives those that pass: enabled, published, still there."""

ROWS_AT_A_TIME = 50
_ROWS_AT_A_TIME_FOR_ALL = 500
_MANY = 1000


class KeywordIndex:
    """Documents by keyword. Any number of threads may read while others write; each change is seen whole or not at all.

    The row check is never called under the index's lock, so it may take its time, and may itself change the index.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries = EntryPages()
        self._table = KeywordTable()

    def __len__(self) -> int:
        """How many documents are in the index."""
        return len(self._entries)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._entries

    @property
    def keyword_count(self) -> int:
        """How many spellings of keywords are in the index."""
        return len(self._table)

    def put(self, entry: KeywordEntry) -> None:
        """Add a document, or replace it. One without a usable keyword is not in the index (DOC-3).

        ``ValueError`` for a negative id: nothing is changed then.
        """
        if entry.document_id < 0:
            raise ValueError(f"document_id must be 0 or more, not {entry.document_id}")
        with self._lock:
            if self._entries.get(entry.document_id) == entry:
                return
            self._remove(entry.document_id)
            added = (self._table.add(spelling, entry.document_id) for spelling in dict.fromkeys(entry.keywords))
            kept = tuple(spelling for spelling in added if spelling is not None)
            if kept:
                # One string for each spelling and category, however many documents were read from the database with it.
                category = sys.intern(entry.category)
                self._entries.put(
                    KeywordEntry(entry.document_id, entry.file_path, entry.title, kept, entry.summary, category)
                )

    def remove(self, document_id: int) -> bool:
        """Take a document out. False when it was not there."""
        with self._lock:
            return self._remove(document_id)

    def differing(self, other: KeywordIndex) -> list[int]:
        """Documents that the two know differently, or only one of them knows; ascending."""
        with self._lock, other._lock:
            mine, theirs = self._entries.snapshot(), other._entries.snapshot()
        return mine.differing(theirs)

    def match(self, query: str, live: RowCheck | None = None) -> Sequence[KeywordMatch]:
        """Every match in index order (ascending document id); an empty list where there is none.

        A list; of more than 1,000 candidates a read-only sequence that makes each match when it is read. With ``live``
        every candidate's row is checked: a lookup that serves only the first matches wants :meth:`find`.
        """
        return self.find(query, live, wanted=0).all()

    def find(self, query: str, live: RowCheck | None = None, *, wanted: int = 1) -> Found:
        """The first matches in index order, and how many there are; rows are checked 50 at a time until so many pass.

        ``found.matches`` are those known so far (``wanted`` or more, where there are so many), ``found.total`` counts
        the others unchecked (``l0_match_count``), and ``found.more()`` checks the next 50 rows and adds what passes.
        Ask for at least 2 where it matters that a match is the only one: a total below ``wanted`` is exact, since every
        row has been checked then.
        """
        text = normalise(query)
        rows = _Rows(live)
        while True:
            with self._lock:
                candidates = self._candidates(text, rows)
            if isinstance(candidates, Found):
                break
            rows.ask(candidates)
        # Whether the partial direction is asked is decided by living documents: the first of them must be known.
        if not candidates.reach(1) and candidates.exact:
            with self._lock:
                candidates = self._partial(text, rows)
        candidates.reach(wanted)
        return candidates

    def _remove(self, document_id: int) -> bool:
        entry = self._entries.pop(document_id)
        if entry is None:
            return False
        for spelling in entry.keywords:
            self._table.discard(spelling, document_id)
        return True

    def _candidates(self, text: str, rows: _Rows) -> Found | list[int]:
        """What matches, before its rows are checked; or the ids that must be checked before that can be said."""
        occurrences = self._table.occurrences(text) if text else []
        if not occurrences:
            return self._partial(text, rows)
        numbers, unknown = self._counting(occurrences, rows)
        return unknown or self._found(numbers, rows, exact=True)

    def _partial(self, text: str, rows: _Rows) -> Found:
        numbers = self._table.containing(text) if may_match_partially(text) else []
        return self._found(numbers, rows, exact=False)

    def _found(self, numbers: Sequence[int], rows: _Rows, *, exact: bool) -> Found:
        """Documents of these spellings, as they are now."""
        table = self._table
        ids = ascending_union([table.documents[number] for number in numbers])
        spellings = frozenset([table.spellings[number] for number in numbers])
        entries = self._entries.snapshot() if len(ids) > _MANY else {number: self._entries[number] for number in ids}
        return Found(ids, entries, spellings, rows, exact=exact)

    def _counting(self, occurrences: list[Occurrence], rows: _Rows) -> tuple[list[int], list[int]]:
        """The spellings with an occurrence outside every longer identifier-like match of a living document (L0-2).

        The second list is what must be asked first: documents on whose life it depends whether a match hides others. A
        longer occurrence comes before those inside it, so the furthest end so far says whether one is inside.
        """
        identifier = self._table.identifier
        counting: dict[int, None] = {}
        unknown: list[int] = []
        covered = 0
        for place, (_, end, joined, numbers) in enumerate(occurrences):
            if end <= covered:
                continue
            codes = [] if joined else [number for number in numbers if identifier[number]]
            counting.update((number, None) for number in numbers if not (joined and identifier[number]))
            if codes and _holds_another(occurrences, place):
                alive = self._alive(codes, rows)
                if isinstance(alive, list):
                    unknown.extend(alive)
                elif alive:
                    covered = end
        return list(counting), unknown

    def _alive(self, numbers: Sequence[int], rows: _Rows) -> bool | list[int]:
        """Whether a living document holds one of these spellings, or which ids to ask about."""
        if rows.live is None:
            return True
        return rows.any_alive(ascending_union([self._table.documents[number] for number in numbers]))


def _holds_another(occurrences: Sequence[Occurrence], place: int) -> bool:
    """Whether another occurrence lies wholly inside this one. They are sorted by start, the longer first."""
    end = occurrences[place].end
    for following in range(place + 1, len(occurrences)):
        if occurrences[following].start >= end:
            return False
        if occurrences[following].end <= end:
            return True
    return False


class _Rows:
    """The row check with what it has answered in this query."""

    def __init__(self, live: RowCheck | None) -> None:
        self.live = live
        self._asked: set[int] = set()
        self._passing: set[int] = set()

    def ask(self, ids: Sequence[int]) -> None:
        """Check those rows that are not known yet."""
        if self.live is None:
            return
        unknown = [number for number in ids if number not in self._asked] if self._asked else ids
        if unknown:
            self._asked.update(unknown)
            self._passing.update(self.live(unknown))

    def alive(self, ids: Sequence[int]) -> Sequence[int]:
        """Those of the ids that pass; their rows must have been asked for."""
        return ids if self.live is None else [number for number in ids if number in self._passing]

    def any_alive(self, ids: Sequence[int]) -> bool | list[int]:
        """Whether one of the documents passes, or the next ids to ask about where that is not known yet."""
        if not self._passing.isdisjoint(ids):
            return True
        return [number for number in ids if number not in self._asked][:ROWS_AT_A_TIME] or False


class Found:
    """The answer to one query, its rows checked as far as was needed. For one thread; later changes don't show in it.

    ``exact`` says that the query contains the keywords; else it is contained in them (the partial direction).
    """

    def __init__(
        self,
        ids: Sequence[int],
        entries: Mapping[int, KeywordEntry] | EntryPages,
        spellings: frozenset[str],
        rows: _Rows,
        *,
        exact: bool,
    ) -> None:
        self.exact = exact
        self.matches: list[KeywordMatch] = []
        self._ids = ids
        self._entries = entries
        self._spellings = spellings
        self._rows = rows
        self._checked = 0

    @property
    def total(self) -> int:
        """How many documents match, those whose rows have not been checked yet included."""
        return len(self.matches) + len(self._ids) - self._checked

    def more(self, rows: int = ROWS_AT_A_TIME) -> bool:
        """Check the next rows and add what passes to ``matches``. False when every row had been checked before."""
        ids = self._ids[self._checked : self._checked + rows]
        self._rows.ask(ids)
        self.matches.extend([match_of(self._entries[number], self._spellings) for number in self._rows.alive(ids)])
        self._checked += len(ids)
        return bool(ids)

    def reach(self, wanted: int) -> bool:
        """Check rows until there are so many matches. False where there are fewer."""
        while len(self.matches) < wanted and self.more():
            pass
        return len(self.matches) >= wanted

    def all(self) -> Sequence[KeywordMatch]:
        """Check every row; all matches."""
        if self._rows.live is not None:
            for start in range(self._checked, len(self._ids), _ROWS_AT_A_TIME_FOR_ALL):
                self._rows.ask(self._ids[start : start + _ROWS_AT_A_TIME_FOR_ALL])
        if len(self._ids) > _MANY:
            return ManyMatches(self._rows.alive(self._ids), self._entries, self._spellings)
        self.more(len(self._ids))
        return self.matches
