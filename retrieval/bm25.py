"""BM25 as sparse vectors (SPEC L1-6): a chunk's term weights, a question's idf; their inner product is the score.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), equation 3.15, without the
constant factor k1 + 1. Pure.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from retrieval.chunking import Chunk
from retrieval.lexical import analyse

K1 = 1.2
B = 0.75
AVERAGE_LENGTH = 200.0
"""Terms of an average chunk; a constant, so that a stored vector never goes stale. Its value hardly matters."""
TITLE_TIMES = 2
"""A document's title counts this often in each of its chunks."""

Weights = Mapping[int, float]
"""A sparse vector: term ids (0 to 2**31 - 1) and their weights, all above 0."""


def term_id(term: str) -> int:
    """A term as a number of 31 bits, the same in every process (two terms in 100,000 share theirs: harmless)."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "big") & 0x7FFFFFFF


def chunk_terms(text: str, *, title: str, headings: Sequence[str] = ()) -> list[int]:
    """The term ids of a chunk, with repetitions: its text, its document's title, the headings above its own."""
    terms = analyse(text)
    terms += analyse(title) * TITLE_TIMES
    for heading in headings:
        terms += analyse(heading)
    return [term_id(term) for term in terms]


def terms_of_chunks(chunks: Sequence[Chunk], *, title: str) -> list[list[int]]:
    """The term ids of each chunk of one document, as they are stored: with the title and the headings above its own."""
    return [chunk_terms(chunk.text, title=title, headings=chunk.heading_path[:-1]) for chunk in chunks]


def chunk_weights(terms: Iterable[int]) -> dict[int, float]:
    """``tf / (tf + k1 (1 - b + b length / average))`` for each distinct term id."""
    counts = Counter(terms)
    saturation = K1 * (1 - B + B * counts.total() / AVERAGE_LENGTH)
    return {term: count / (count + saturation) for term, count in counts.items()}


def idf(chunks_with_term: int, chunks: int) -> float:
    """``ln(1 + (N - n + 0.5) / (n + 0.5))``; above 0 for every n, also where the counts are a moment old."""
    rest = max(chunks - chunks_with_term, 0)
    return math.log1p((rest + 0.5) / (chunks_with_term + 0.5))


def query_terms(query: str) -> list[int]:
    """The distinct term ids of a question, in its order."""
    return list(dict.fromkeys(term_id(term) for term in analyse(query)))


def query_weights(terms: Iterable[int], counts: Mapping[int, int], chunks: int) -> dict[int, float]:
    """The idf of each term of a question. ``counts``: in how many of the ``chunks`` it stands."""
    return {term: idf(counts.get(term, 0), chunks) for term in terms}


def coverage(query: Weights, terms: Iterable[int]) -> float:
    """The share of a question's idf whose terms are among ``terms``; 0 for a question without terms."""
    total = sum(query.values())
    held = set(terms)
    return sum(weight for term, weight in query.items() if term in held) / total if total else 0.0
