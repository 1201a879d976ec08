"""L0: the exact keyword index, in memory (SPEC section 5).

One plain class that needs neither a database nor a service. The rules on strings are in ``keyword_matching``, the
tables in ``keyword_postings``; this file joins them, decides which matches count, and keeps many threads apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from retrieval.keyword_matching import may_match_partially
from retrieval.keyword_postings import KeywordTable, Occurrence, Posting, ascending_union, ids_of
from retrieval.normalise import normalise

RowCheck = Callable[[Sequence[int]], Iterable[int]]
"""Takes document ids (each asked at most once a query) and gives those that pass: enabled, published, still there."""

ROWS_AT_A_TIME = 50
_ROWS_AT_A_TIME_FOR_ALL = 500
_FEW = 200


@dataclass(frozen=True, slots=True)
class KeywordEntry:
    """One document's place in the index. ``document_id`` is 0 or more; ``keywords`` are in the author's spelling."""

    document_id: int
    file_path: str
    title: str
    keywords: tuple[str, ...]
    summary: str
    category: str


class KeywordMatch(NamedTuple):
    """A document that matched, and which of its keywords did: in the author's spelling and order."""

    entry: KeywordEntry
    keywords: tuple[str, ...]


class KeywordIndex:
    """Documents by keyword. Any number of threads may read while others write; each change is seen whole or not at all.

    The row check is never called under the index's lock, so it may take its time, and may itself change the index.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[int, KeywordEntry] = {}
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
                self._entries[entry.document_id] = replace(entry, keywords=kept, category=sys.intern(entry.category))

    def remove(self, document_id: int) -> bool:
        """Take a document out. False when it was not there."""
        with self._lock:
            return self._remove(document_id)

    def match(self, query: str, live: RowCheck | None = None) -> list[KeywordMatch]:
        """Every match in index order (ascending document id); an empty list where there is none.

        With ``live`` every candidate's row is checked. A lookup that serves only the first matches wants :meth:`find`.
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
        entry = self._entries.pop(document_id, None)
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

    def _found(self, numbers: Iterable[int], rows: _Rows, *, exact: bool) -> Found:
        hits = [(self._table.spellings[number], self._table.posting(number)) for number in numbers]
        ids = ascending_union(posting for _, posting in hits)
        return Found(hits, ids, list(map(self._entries.__getitem__, ids)), rows, exact=exact)

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
        postings = (self._table.documents[number] for number in numbers)
        return rows.any_alive(ascending_union(posting for posting in postings if posting is not None))


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
        self._known: dict[int, bool] = {}

    def ask(self, ids: Sequence[int]) -> None:
        """Check those rows that are not known yet."""
        unknown = [number for number in ids if number not in self._known]
        if self.live is not None and unknown:
            passing = set(self.live(unknown))
            self._known.update((number, number in passing) for number in unknown)

    def alive(self, ids: Sequence[int], start: int, end: int) -> Sequence[int]:
        """The places from ``start`` to ``end`` whose ids pass; their rows must have been asked for."""
        if self.live is None:
            return range(start, end)
        known = self._known
        return [place for place in range(start, end) if known[ids[place]]]

    def any_alive(self, ids: Sequence[int]) -> bool | list[int]:
        """Whether one of the documents passes, or the next ids to ask about where that is not known yet."""
        unknown: list[int] = []
        for number in ids:
            passes = self._known.get(number)
            if passes:
                return True
            if passes is None and len(unknown) < ROWS_AT_A_TIME:
                unknown.append(number)
        return unknown or False


class Found:
    """The answer to one query, its rows checked as far as was needed. For one thread; later changes don't show in it.

    ``exact`` says that the query contains the keywords; else it is contained in them (the partial direction).
    """

    def __init__(
        self,
        hits: Sequence[tuple[str, Posting]],
        ids: list[int],
        entries: list[KeywordEntry],
        rows: _Rows,
        *,
        exact: bool,
    ) -> None:
        self.exact = exact
        self.matches: list[KeywordMatch] = []
        self._hits = hits
        self._spellings = frozenset(spelling for spelling, _ in hits)
        self._ids = ids
        self._entries = entries
        self._rows = rows
        self._checked = 0

    @property
    def total(self) -> int:
        """How many documents match, those whose rows have not been checked yet included."""
        return len(self.matches) + len(self._ids) - self._checked

    def more(self, rows: int = ROWS_AT_A_TIME) -> bool:
        """Check the next rows and add what passes to ``matches``. False when every row had been checked before."""
        if self._checked >= len(self._ids):
            return False
        start, end = self._checked, min(self._checked + rows, len(self._ids))
        self._rows.ask(self._ids[start:end])
        alive = self._rows.alive(self._ids, start, end)
        self.matches.extend(self._of_many(alive) if len(alive) > _FEW else map(self._of_one, alive))
        self._checked = end
        return True

    def reach(self, wanted: int) -> bool:
        """Check rows until there are so many matches. False where there are fewer."""
        while len(self.matches) < wanted and self.more():
            pass
        return len(self.matches) >= wanted

    def all(self) -> list[KeywordMatch]:
        """Check every row; all matches."""
        step = len(self._ids) if self._rows.live is None else _ROWS_AT_A_TIME_FOR_ALL
        for start in range(self._checked, len(self._ids), step or 1):
            self._rows.ask(self._ids[start : start + step])
        self.more(len(self._ids))
        return self.matches

    def _of_one(self, place: int) -> KeywordMatch:
        entry = self._entries[place]
        spellings = self._spellings
        return KeywordMatch(entry, tuple([keyword for keyword in entry.keywords if keyword in spellings]))

    def _of_many(self, places: Sequence[int]) -> list[KeywordMatch]:
        """As :meth:`_of_one`, at a fraction of a microsecond each, since most documents have one matched keyword."""
        keywords: dict[int, tuple[str, ...]] = {}
        several: set[int] = set()
        for spelling, posting in self._hits:
            one = (spelling,)
            if isinstance(posting, int):
                if posting in keywords:
                    several.add(posting)
                keywords[posting] = one
                continue
            if keywords:
                several.update(keywords.keys() & ids_of(posting))
            keywords.update(dict.fromkeys(ids_of(posting), one))
        ids, entries = self._ids, self._entries
        matches = [KeywordMatch(entries[place], keywords[ids[place]]) for place in places]
        for position, place in enumerate(places) if several else ():
            if ids[place] in several:
                matches[position] = self._of_one(place)
        return matches
