"""The tables behind the keyword index: which spellings there are, where to look for them, who holds them.

Nothing here locks; :class:`retrieval.keyword_index.KeywordIndex` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyroaring import BitMap64

from retrieval.keyword_matching import fragment_test, fragments, is_identifier_like, is_joined
from retrieval.normalise import normalise, word_flags

Posting = int | tuple[int, ...] | BitMap64
"""A set of ids, as small as it can be: one id, a few in a tuple (in order of arrival), or a compressed bitmap. Never
empty: an empty set has no posting."""

_TUPLE_LIMIT = 12
_ENOUGH = 64


def with_id(posting: Posting | None, number: int) -> Posting:
    """The posting with one id more. A bitmap is changed in place."""
    if posting is None:
        return number
    if isinstance(posting, BitMap64):
        posting.add(number)
        return posting
    ids = (posting,) if isinstance(posting, int) else posting
    if number in ids:
        return posting
    if len(ids) < _TUPLE_LIMIT:
        return (*ids, number)
    return BitMap64((*ids, number))


def without_id(posting: Posting, number: int) -> Posting | None:
    """The posting with one id less, None when it was the last. A bitmap is changed in place."""
    if isinstance(posting, int):
        return None if posting == number else posting
    if isinstance(posting, BitMap64):
        posting.discard(number)
        return posting if len(posting) > _TUPLE_LIMIT else tuple(posting)
    left = tuple(other for other in posting if other != number)
    return left[0] if len(left) == 1 else left


def ids_of(posting: Posting) -> Iterable[int]:
    """The ids of a posting."""
    return (posting,) if isinstance(posting, int) else posting


def size_of(posting: Posting) -> int:
    """How many ids a posting holds."""
    return 1 if isinstance(posting, int) else len(posting)


def ascending_union(postings: Iterable[Posting | None]) -> list[int]:
    """Every id of several postings, once, ascending."""
    bitmaps: list[BitMap64] = []
    single: list[int] = []
    for posting in postings:
        if isinstance(posting, int):
            single.append(posting)
        elif isinstance(posting, tuple):
            single.extend(posting)
        elif posting is not None:
            bitmaps.append(posting)
    if not bitmaps and len(single) < _ENOUGH:
        return sorted(set(single))
    if single:
        bitmaps.append(BitMap64(single))
    return list(BitMap64.union(*bitmaps))


class Occurrence(NamedTuple):
    """One place in a query where keywords stand: ``query[start:end]``, at boundaries (L0-2).

    ``numbers`` are the spellings that share this normal form. ``joined`` says that a ``-``, ``.`` or ``:`` continues
    it, so that none of the identifier-like ones among them matches here.
    """

    start: int
    end: int
    joined: bool
    numbers: tuple[int, ...]


class KeywordTable:
    """Every author's spelling of a keyword, numbered, with the documents that hold it.

    Numbers are used again after a spelling has gone, so they mean nothing beyond one look at the table.

    - ``_by_text`` leads from the normal form to the spellings of it.
    - ``_starts`` leads from the first two characters of a normal form to the lengths that such forms have (and how many
      have each), so that a scan of a query tries only lengths that exist.
    - ``_fragments`` leads from a word, or two neighbouring characters outside words, to the spellings that have it: the
      candidates of the partial direction.
    """

    def __init__(self) -> None:
        self.spellings: list[str] = []
        self.texts: list[str] = []
        self.documents: list[Posting | None] = []
        self.identifier = bytearray()
        self._free: list[int] = []
        self._by_text: dict[str, int | tuple[int, ...]] = {}
        self._starts: dict[str, dict[int, int]] = {}
        self._fragments: dict[str, Posting] = {}

    def __len__(self) -> int:
        return len(self.spellings) - len(self._free)

    def add(self, spelling: str, document_id: int) -> str | None:
        """Note that a document has a keyword; gives the one string kept for that spelling, None where it is blank."""
        text = normalise(spelling)
        if not text:
            return None
        number = self._number(text, spelling)
        if number is None:
            number = self._new(text, spelling)
        self.documents[number] = with_id(self.documents[number], document_id)
        return self.spellings[number]

    def discard(self, spelling: str, document_id: int) -> None:
        """Forget that a document has a keyword."""
        number = self._number(normalise(spelling), spelling)
        posting = None if number is None else self.documents[number]
        if number is None or posting is None:
            return
        self.documents[number] = without_id(posting, document_id)
        if self.documents[number] is None:
            self._drop(number)

    def numbers(self, text: str) -> tuple[int, ...]:
        """The spellings whose normal form is ``text``."""
        found = self._by_text.get(text, ())
        return (found,) if isinstance(found, int) else found

    def occurrences(self, query: str) -> list[Occurrence]:
        """Where keywords stand in a normalised query. One of a single character stands only for the whole query (L0-3).

        Sorted by start, and the longer first where two start together.
        """
        size = len(query)
        if size == 1:
            numbers = self.numbers(query)
            return [Occurrence(0, 1, False, numbers)] if numbers else []
        found: list[Occurrence] = []
        words = word_flags(query)
        before = 0
        for start in range(size - 1):
            here = words[start]
            if not (here and before):
                lengths = self._starts.get(query[start : start + 2])
                if lengths:
                    found.extend(self._starting_at(query, words, start, lengths))
            before = here
        return found

    def _starting_at(self, query: str, words: bytes, start: int, lengths: Iterable[int]) -> Iterator[Occurrence]:
        for length in sorted(lengths, reverse=True):
            end = start + length
            if end > len(query) or (words[end - 1] and words[end]):
                continue
            numbers = self.numbers(query[start:end])
            if numbers:
                yield Occurrence(start, end, is_joined(query, start, end), numbers)

    def containing(self, query: str) -> list[int]:
        """The spellings whose normal form contains a normalised query of two or more characters (partial direction)."""
        wanted = fragments(query)
        postings: list[Posting] = []
        for fragment in wanted:
            posting = self._fragments.get(fragment)
            if posting is None:
                return []
            postings.append(posting)
        candidates = _common(postings)
        if wanted == {query}:
            return list(candidates)
        texts = self.texts
        contains = fragment_test(query)
        return [number for number in candidates if contains(texts[number])]

    def _number(self, text: str, spelling: str) -> int | None:
        for number in self.numbers(text):
            if self.spellings[number] == spelling:
                return number
        return None

    def _new(self, text: str, spelling: str) -> int:
        if text == spelling:
            text = spelling  # one string instead of two equal ones
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.spellings)
            self.spellings.append("")
            self.texts.append("")
            self.documents.append(None)
            self.identifier.append(0)
        self.spellings[number] = spelling
        self.texts[number] = text
        self.identifier[number] = is_identifier_like(spelling)
        others = self.numbers(text)
        self._by_text[text] = (*others, number) if others else number
        lengths = self._starts.setdefault(text[:2], {})
        lengths[len(text)] = lengths.get(len(text), 0) + 1
        for fragment in fragments(text):
            self._fragments[fragment] = with_id(self._fragments.get(fragment), number)
        return number

    def _drop(self, number: int) -> None:
        text = self.texts[number]
        others = tuple(other for other in self.numbers(text) if other != number)
        if others:
            self._by_text[text] = others[0] if len(others) == 1 else others
        else:
            del self._by_text[text]
        self._drop_length(text)
        for fragment in fragments(text):
            left = without_id(self._fragments[fragment], number)
            if left is None:
                del self._fragments[fragment]
            else:
                self._fragments[fragment] = left
        self.spellings[number] = self.texts[number] = ""
        self._free.append(number)

    def _drop_length(self, text: str) -> None:
        lengths = self._starts[text[:2]]
        lengths[len(text)] -= 1
        if not lengths[len(text)]:
            del lengths[len(text)]
        if not lengths:
            del self._starts[text[:2]]


def _common(postings: list[Posting]) -> Iterable[int]:
    """Ids that may be in all postings: the rarest posting, narrowed by the next ones while it is large."""
    postings.sort(key=size_of)
    common = postings[0]
    for posting in postings[1:]:
        if isinstance(common, BitMap64) and isinstance(posting, BitMap64) and len(common) > _ENOUGH:
            common = common & posting
        else:
            break
    return ids_of(common)
