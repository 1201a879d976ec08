"""SPEC L0-1 to L0-3 read literally and slowly: what the fast index is compared with.

Written from the requirements alone: nothing of ``retrieval`` is used but the entry that both are given.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence

from retrieval.keyword_index import KeywordEntry

LETTERS_OF_CJK = (
    "CJK UNIFIED",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "HENTAIGANA",
    "KATAKANA",
    "HANGUL",
    "BOPOMOFO",
)
# Written among them as letters are: 々 〆 〇 〻 〼, the old numerals, the repeat marks.
SIGNS_OF_CJK = (
    "COMBINING KATAKANA-HIRAGANA",
    "IDEOGRAPHIC",
    "HANGZHOU NUMERAL",
    "VERTICAL KANA",
    "VERTICAL IDEOGRAPHIC",
    "MASU MARK",
)
Span = tuple[int, int]


def normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    out = ""
    for character in folded:
        if character.isspace():
            out += " " if not out.endswith(" ") else ""
        else:
            out += character
    return out.strip(" ")


def cjk(character: str) -> bool:
    name = unicodedata.name(character, "")
    if name.startswith("CJK RADICAL"):
        return True
    return name.startswith(LETTERS_OF_CJK + SIGNS_OF_CJK) and unicodedata.category(character)[0] in "LNM"


def binds(character: str) -> bool:
    """An ASCII letter, digit or `_`; letters of other scripts and accented ones (their marks too) bound like ASCII."""
    if character == "_":
        return True
    if unicodedata.name(character, "").startswith("VARIATION SELECTOR"):
        return False  # chooses a glyph; neither a letter nor an accent
    return unicodedata.category(character)[0] in "LNM" and not cjk(character)


def ascii_alphanumeric(character: str) -> bool:
    return character in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def identifier_like(spelling: str) -> bool:
    text = unicodedata.normalize("NFKC", spelling).strip()
    printable_without_blanks = text != "" and all(33 <= ord(character) <= 126 for character in text)
    digit = any(character in "0123456789" for character in text)
    inner = any(character in "-.:=/" for character in text[1:-1])
    capitals = len([character for character in text if "A" <= character <= "Z"])
    return printable_without_blanks and (digit or "_" in text or inner or capitals >= 2)


def places(needle: str, text: str) -> list[Span]:
    return [(at, at + len(needle)) for at in range(len(text)) if text[at : at + len(needle)] == needle and needle]


def edges_free(text: str, span: Span, binding: Callable[[str], bool]) -> bool:
    start, end = span
    if binding(text[start]) and start > 0 and binding(text[start - 1]):
        return False
    return not (binding(text[end - 1]) and end < len(text) and binding(text[end]))


def continued(text: str, span: Span) -> bool:
    start, end = span
    after = text[end : end + 2]
    before = text[max(0, start - 2) : start]
    return any(
        len(pair) == 2 and joiner in "-.:" and ascii_alphanumeric(further)
        for pair, joiner, further in ((after, after[:1], after[1:]), (before, before[1:], before[:1]))
        if joiner
    )


def spans_in_query(query: str, keyword: str) -> list[Span]:
    """Where a keyword (in the author's spelling) stands in a normalised query, before longer ones hide shorter ones."""
    text = normal(keyword)
    if text == query and text:
        return [(0, len(query))]
    if len(text) < 2:
        return []
    found = [span for span in places(text, query) if edges_free(query, span, binds)]
    if identifier_like(keyword):
        found = [span for span in found if not continued(query, span)]
    return found


def long_enough(query: str) -> bool:
    return len(query) >= 3 or (len(query) == 2 and any(cjk(character) for character in query))


def contains_query(query: str, keyword: str) -> bool:
    text = normal(keyword)
    return any(
        edges_free(text, span, lambda character: character != "_" and binds(character)) for span in places(query, text)
    )


def match(
    entries: Iterable[KeywordEntry], query: str, live: Callable[[Sequence[int]], Iterable[int]] | None = None
) -> list[tuple[int, tuple[str, ...]]]:
    """(document id, matched keywords in the author's spelling and order), by ascending id."""
    living = sorted(entries, key=lambda entry: entry.document_id)
    if live is not None:
        passing = set(live([entry.document_id for entry in living]))
        living = [entry for entry in living if entry.document_id in passing]
    text = normal(query)
    if not text:
        return []
    all_spans = [
        (entry.document_id, keyword, span)
        for entry in living
        for keyword in entry.keywords
        for span in spans_in_query(text, keyword)
    ]
    hiding = [span for _, keyword, span in all_spans if identifier_like(keyword)]
    counting = {
        (document_id, keyword)
        for document_id, keyword, (start, end) in all_spans
        if not any(a <= start and end <= b and b - a > end - start for a, b in hiding)
    }
    if not counting and long_enough(text):
        counting = {
            (entry.document_id, keyword)
            for entry in living
            for keyword in entry.keywords
            if contains_query(text, keyword)
        }
    result = []
    for entry in living:
        keywords = tuple(k for k in dict.fromkeys(entry.keywords) if (entry.document_id, k) in counting)
        if keywords:
            result.append((entry.document_id, keywords))
    return result
