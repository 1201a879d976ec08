"""What the keyword index holds and gives out: entries, matches, and many matches that are made only when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, overload

_PAGE_BITS = 8


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


def match_of(entry: KeywordEntry, spellings: AbstractSet[str]) -> KeywordMatch:
    """The match of a document of which those spellings that it has are matched."""
    return KeywordMatch(entry, tuple([keyword for keyword in entry.keywords if keyword in spellings]))


class ManyMatches(Sequence[KeywordMatch]):
    """A read-only list of matches, each made when it is read; equal to a list of the same matches.

    Making 50,000 matches at once would take many times longer than finding them, most of it in the garbage collector.
    """

    def __init__(
        self, ids: Sequence[int], entries: Mapping[int, KeywordEntry] | EntryPages, spellings: AbstractSet[str]
    ) -> None:
        self._ids = ids
        self._entries = entries
        self._spellings = spellings

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> KeywordMatch: ...

    @overload
    def __getitem__(self, place: slice) -> list[KeywordMatch]: ...

    def __getitem__(self, place: int | slice) -> KeywordMatch | list[KeywordMatch]:
        if isinstance(place, slice):
            return [match_of(self._entries[number], self._spellings) for number in self._ids[place]]
        return match_of(self._entries[self._ids[place]], self._spellings)

    def __iter__(self) -> Iterator[KeywordMatch]:
        if len(self._spellings) == 1:
            keywords = tuple(self._spellings)  # whoever matches has it
            return (KeywordMatch(self._entries[number], keywords) for number in self._ids)
        return (match_of(self._entries[number], self._spellings) for number in self._ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, ManyMatches)):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} keyword matches>"


class EntryPages:
    """Entries by document id, of which a frozen copy costs next to nothing.

    Entries lie in pages of 256 ids. A snapshot shares them; a page that a snapshot may see is copied before it changes.
    """

    def __init__(self) -> None:
        self._pages: dict[int, dict[int, KeywordEntry]] = {}
        self._own: set[int] = set()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, int) and self.get(document_id) is not None

    def __getitem__(self, document_id: int) -> KeywordEntry:
        return self._pages[document_id >> _PAGE_BITS][document_id]

    def get(self, document_id: int) -> KeywordEntry | None:
        page = self._pages.get(document_id >> _PAGE_BITS)
        return None if page is None else page.get(document_id)

    def put(self, entry: KeywordEntry) -> None:
        page = self._page_to_change(entry.document_id >> _PAGE_BITS)
        self._size += entry.document_id not in page
        page[entry.document_id] = entry

    def differing(self, other: EntryPages) -> list[int]:
        """Ids whose entries are not the same in both, ascending."""
        numbers = {number for pages in (self, other) for page in pages._pages.values() for number in page}
        return sorted(number for number in numbers if self.get(number) != other.get(number))

    def pop(self, document_id: int) -> KeywordEntry | None:
        """Take an entry out and give it; None when there is none."""
        if self.get(document_id) is None:
            return None
        number = document_id >> _PAGE_BITS
        page = self._page_to_change(number)
        entry = page.pop(document_id)
        self._size -= 1
        if not page:
            del self._pages[number]
            self._own.discard(number)
        return entry

    def snapshot(self) -> EntryPages:
        """The entries as they are now, for reading; later changes don't show in it."""
        frozen = EntryPages()
        frozen._pages = self._pages.copy()
        frozen._size = self._size
        self._own.clear()
        return frozen

    def _page_to_change(self, number: int) -> dict[int, KeywordEntry]:
        page = self._pages.get(number)
        if page is None or number not in self._own:
            page = self._pages[number] = {} if page is None else page.copy()
            self._own.add(number)
        return page
