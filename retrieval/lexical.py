"""The analyser of the lexical search: text to terms, the same for documents and questions (SPEC L1-6). Pure.

Latin words are folded, freed of stop words and stemmed lightly; identifiers count whole and in parts
(``innodb_lock_wait_timeout``, ``KubePodNotReady``); Chinese counts as words of a tokeniser and as pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import rjieba

from retrieval.normalise import is_cjk
from retrieval.stop_words import CHINESE, ENGLISH

VERSION = 1
"""Raise it with every change of what a text's terms are: stored terms of another version count nothing."""

_LONGEST = 64
"""Characters of a term; a longer run (base64, a hash in a link) is looked up by nobody."""
_JOINED = re.compile(r"[^\W_]+(?:[_.:=\-]+[^\W_]+)*")
_SEPARATORS = re.compile(r"[_.:=\-]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W\dA-Za-z_]+")
_VOWEL = re.compile(r"[aeiouy]")


def analyse(text: str) -> list[str]:
    """The terms of a text in its order, repetitions kept. A text of stop words or punctuation alone gives none."""
    terms: list[str] = []
    for run, is_chinese in _runs(unicodedata.normalize("NFKC", text)):
        terms.extend(_chinese(run) if is_chinese else _latin(run))
    return terms


def content_characters(query: str) -> list[bool]:
    """For each character of a normalised query: does it carry content? Letters, digits and CJK outside stop words."""
    flags = [character.isalnum() for character in query]
    for start, end in _stop_spans(query):
        flags[start:end] = [False] * (end - start)
    return flags


def is_cjk_text(text: str) -> bool:
    """Whether a text is written in Chinese (Japanese, Korean) rather than in an alphabet.

    One CJK letter among ten is enough: technical Chinese is full of Latin names, and English has no CJK at all.
    """
    letters = sum(character.isalnum() for character in text)
    return sum(map(is_cjk, text)) * 10 > letters


def stem(word: str) -> str:
    """A lower-case English word without plural, -ing, -ed or a final e; short words and other alphabets stay."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    return _without_final_e(_without_ending(_without_plural(word)))


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Stretches of CJK letters and of everything else, in order."""
    start = 0
    while start < len(text):
        chinese = is_cjk(text[start])
        end = start + 1
        while end < len(text) and is_cjk(text[end]) == chinese:
            end += 1
        yield text[start:end], chinese
        start = end


def _latin(run: str) -> Iterator[str]:
    for found in _JOINED.finditer(run):
        whole = found.group()
        parts = [piece for part in _SEPARATORS.split(whole) for piece in _camel(part)]
        folded = whole.casefold()
        if len(parts) > 1 and len(folded) <= _LONGEST:
            yield folded
        for part in parts:
            word = part.casefold()
            if len(word) <= _LONGEST and word not in ENGLISH and (len(parts) == 1 or len(word) > 1):
                yield stem(word)


def _camel(part: str) -> list[str]:
    """``KubePodNotReady`` in four; a word in one case, or with one capital in front, as it is."""
    if part.islower() or part.isupper() or part[1:].islower() or not part.isascii():
        return [part]
    return _CAMEL.findall(part)


def _chinese(run: str) -> Iterator[str]:
    """Words of two characters and more, and the pairs of each stretch between stop words; a lone character as it is."""
    stretch = ""
    for word in [*rjieba.cut(run), ""]:
        if word and word not in CHINESE:
            stretch += word
            if len(word) > 2:
                yield word
            continue
        yield from (stretch[place : place + 2] for place in range(len(stretch) - 1))
        if len(stretch) == 1:
            yield stretch
        stretch = ""


def _stop_spans(query: str) -> Iterator[tuple[int, int]]:
    place = 0
    for run, chinese in _runs(query):
        if chinese:
            at = place
            for word in rjieba.cut(run):
                if word in CHINESE:
                    yield at, at + len(word)
                at += len(word)
        else:
            for found in _JOINED.finditer(run):
                if found.group().casefold() in ENGLISH:
                    yield place + found.start(), place + found.end()
        place += len(run)


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and _VOWEL.search(root):
            doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz"
            return root[:-1] if doubled else root
    return word


def _without_final_e(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("e") else word
