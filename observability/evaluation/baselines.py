"""What the product's ranking is held against: plain BM25 and plain rank fusion of it with the dense list. Pure."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from observability.evaluation.data import EvaluatedDocument
from observability.evaluation.metrics import Scores
from retrieval.normalise import is_cjk

K1 = 1.2
B = 0.75
TITLE_TIMES = 2
RANK_FUSION_K = 60
LIST_LENGTH = 100
"""How many of each list are fused; the product's searches begin with as many."""
_WORD = re.compile(r"\w+")


class PlainBM25:
    """BM25 over whole documents: words as they are and pairs of CJK characters, no stop words, no stemming.

    Robertson and Zaragoza (2009), equation 3.15, idf as Lucene has it (above 0); a title counts twice.
    """

    def __init__(self, documents: Iterable[EvaluatedDocument]) -> None:
        self._postings: dict[str, dict[str, int]] = defaultdict(dict)
        self._lengths: dict[str, int] = {}
        for document in documents:
            counts = Counter([*plain_terms(document.title)] * TITLE_TIMES + [*plain_terms(document.body)])
            self._lengths[document.name] = counts.total()
            for term, count in counts.items():
                self._postings[term][document.name] = count
        self._average = sum(self._lengths.values()) / max(len(self._lengths), 1) or 1.0

    def search(self, query: str) -> dict[str, float]:
        """Every document with one of the query's words; a word that is asked twice counts once."""
        scores: dict[str, float] = defaultdict(float)
        for term in dict.fromkeys(plain_terms(query)):
            postings = self._postings.get(term, {})
            idf = math.log1p((len(self._lengths) - len(postings) + 0.5) / (len(postings) + 0.5))
            for name, count in postings.items():
                length = 1 - B + B * self._lengths[name] / self._average
                scores[name] += idf * count * (K1 + 1) / (count + K1 * length)
        return dict(scores)


def plain_terms(text: str) -> Iterator[str]:
    """Words and pairs of CJK characters after NFKC and case folding; a lone CJK character as it is."""
    for found in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = found.group()
        start = 0
        while start < len(word):
            end = start + 1
            while end < len(word) and is_cjk(word[end]) == is_cjk(word[start]):
                end += 1
            run = word[start:end]
            if is_cjk(run[0]) and len(run) > 1:
                yield from (run[at : at + 2] for at in range(len(run) - 1))
            else:
                yield run
            start = end


def rank_fusion(*lists: Scores, k: int = RANK_FUSION_K, length: int = LIST_LENGTH) -> dict[str, float]:
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): the sum of 1 / (k + rank) over the lists.

    Only the first ``length`` of a list count; equal scores share the last of their ranks.
    """
    fused: dict[str, float] = defaultdict(float)
    for scores in lists:
        for name, rank in _ranks(scores, length).items():
            fused[name] += 1.0 / (k + rank)
    return dict(fused)


def _ranks(scores: Scores, length: int) -> dict[str, int]:
    order = sorted(scores, key=lambda name: (-scores[name], name))
    ranks: dict[str, int] = {}
    end = len(order)
    for number in range(len(order) - 1, -1, -1):
        if number + 1 < len(order) and scores[order[number]] != scores[order[number + 1]]:
            end = number + 1
        ranks[order[number]] = end
    return {name: ranks[name] for name in order[:length]}
