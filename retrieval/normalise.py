"""How the keyword index reads letters: one normal form, and which characters make up words (SPEC section 5)."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from functools import lru_cache

# First and last code point of each stretch of Chinese, Japanese and Korean letters, ascending. Punctuation is left out:
# it is no letter anywhere.
_CJK_RANGES = (
    (0x1100, 0x11FF),  # Hangul letters
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3021, 0x302F),
    (0x3031, 0x3035),
    (0x3038, 0x303C),
    (0x3041, 0x309F),  # Hiragana
    (0x30A1, 0x30FA),  # Katakana, without the middle dot
    (0x30FC, 0x30FF),
    (0x3105, 0x312F),  # Bopomofo
    (0x3131, 0x318E),
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),  # Hangul syllables
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),  # half width Kana and Hangul
    (0x1AFF0, 0x1B16F),  # further Kana
    (0x1D372, 0x1D376),  # tally marks
    (0x20000, 0x323AF),  # Han, extensions B and later
)
_CJK_FIRST = tuple(first for first, _ in _CJK_RANGES)
_ASCII_WORD = bytes(code < 128 and (chr(code).isalnum() or chr(code) == "_") for code in range(256))
_ASCII_ALPHANUMERIC = bytes(code < 128 and chr(code).isalnum() for code in range(256))


def normalise(text: str) -> str:
    """The form in which keywords and queries are compared: NFKC, case folded, white space runs to one space, trimmed.

    Nothing else is folded: ``café`` is not ``cafe``, and the Turkish ``İstanbul`` is not ``istanbul`` (case folding
    keeps its dot as a combining mark). A curator who wants both spellings found writes both.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def is_cjk(character: str) -> bool:
    """Whether a character is a letter of Chinese, Japanese (Kana) or Korean (Hangul)."""
    code = ord(character)
    place = bisect_right(_CJK_FIRST, code) - 1
    return place >= 0 and code <= _CJK_RANGES[place][1]


def has_cjk(text: str) -> bool:
    """Whether a text has at least one CJK letter."""
    return not text.isascii() and any(map(is_cjk, text))


@lru_cache(maxsize=8192)
def is_word(character: str) -> bool:
    """Whether a character binds to its neighbour: a letter or digit of any script but CJK, a combining mark, or ``_``.

    Marks belong to the letter before them (``ǰ`` and ``İ`` fold to a letter and a mark, and Indic vowels are marks).
    Variation selectors only choose a glyph and bind nothing.
    """
    if character.isascii():
        return character.isalnum() or character == "_"
    if is_cjk(character) or "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return False
    return character.isalnum() or unicodedata.category(character).startswith("M")


def word_flags(text: str, *, underscore: bool = True) -> bytes:
    """One byte a character, 1 where :func:`is_word`, and a closing 0; with ``underscore=False`` a ``_`` is no word."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_WORD if underscore else _ASCII_ALPHANUMERIC) + b"\0"
    if underscore:
        return bytes([*map(is_word, text), 0])
    return bytes([*(character != "_" and is_word(character) for character in text), 0])
