"""The rules of L0 on plain strings: what is an identifier, and where a match may begin and end (SPEC L0-2, L0-3).

Texts are normalised (:func:`retrieval.normalise.normalise`) unless a docstring says otherwise.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable

from retrieval.normalise import has_cjk, is_word, word_flags

_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
_JOINERS = frozenset("-.:")
# One run of printable ASCII with a digit or `_`, one of -.:=/ that is neither first nor last, or two capitals.
_IDENTIFIER = re.compile(r"(?=.*[0-9_]|.+[-.:=/].|.*[A-Z].*[A-Z])[!-~]+")


def is_identifier_like(spelling: str) -> bool:
    """Whether a keyword, in its author's spelling, looks like a code: ``ERR_1``, ``sync-log``, ``code=10001``, ``API``.

    Full width letters count as the letters that they stand for: the author typed the same code.
    """
    text = spelling if spelling.isascii() else unicodedata.normalize("NFKC", spelling)
    return _IDENTIFIER.fullmatch(text.strip()) is not None


def is_joined(text: str, start: int, end: int) -> bool:
    """Whether a ``-``, ``.`` or ``:`` joins ``text[start:end]`` to a further ASCII letter or digit, on either side."""
    if end + 1 < len(text) and text[end] in _JOINERS and text[end + 1] in _ALPHANUMERIC:
        return True
    return start > 1 and text[start - 1] in _JOINERS and text[start - 2] in _ALPHANUMERIC


def may_match_partially(query: str) -> bool:
    """Whether a query is long enough to be looked for inside keywords: 2 characters with a CJK one, or any 3."""
    return len(query) >= 3 or (len(query) == 2 and has_cjk(query))


def fragment_test(query: str) -> Callable[[str], bool]:
    """The test whether a keyword contains the query at word boundaries, of which ``_``, ``-``, ``.`` are some."""
    binds_left, binds_right = _binds(query[0]), _binds(query[-1])
    if not (binds_left or binds_right):
        return lambda keyword: query in keyword
    size = len(query)

    def contains(keyword: str) -> bool:
        start = keyword.find(query)
        while start >= 0:
            end = start + size
            if not (binds_left and start and _binds(keyword[start - 1])) and not (
                binds_right and end < len(keyword) and _binds(keyword[end])
            ):
                return True
            start = keyword.find(query, start + 1)
        return False

    return contains


def _binds(character: str) -> bool:
    return character != "_" and is_word(character)


def fragments(text: str) -> set[str]:
    """What a text is indexed by for the partial direction: its whole words, and each pair of neighbours outside them.

    A query that stands in a keyword at word boundaries has no fragment that the keyword has not, since its words are
    whole words there. Where a query is itself its only fragment, the converse holds too.
    """
    words = word_flags(text, underscore=False)
    found: set[str] = set()
    begin = 0
    for place in range(len(text)):
        if words[place]:
            if not (place and words[place - 1]):
                begin = place
            if words[place + 1]:
                continue
            found.add(text[begin : place + 1])
        if place + 1 < len(text):
            found.add(text[place : place + 2])
    return found
