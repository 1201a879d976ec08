"""BM25 by sparse vectors is BM25 by the textbook."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from clients.interfaces import COUNTED_TERMS
from retrieval.bm25 import (
    AVERAGE_LENGTH,
    K1,
    B,
    chunk_terms,
    chunk_weights,
    coverage,
    idf,
    query_terms,
    query_weights,
    term_id,
)
from retrieval.lexical import VERSION

TEXTS = [
    "restart the gateway when the connection pool is exhausted",
    "the pool of the gateway is large, the pool of the database is small",
    "数据库连接池耗尽时先看最大连接数",
    "nothing about that here",
]


def literal(query: str, number: int) -> float:
    """Okapi BM25 over lists of terms, written from the formula (times k1 + 1)."""
    documents = [Counter(chunk_terms(text, title="")) for text in TEXTS]
    document = documents[number]
    score = 0.0
    for term in dict.fromkeys(query_terms(query)):
        holding = sum(term in one for one in documents)
        rarity = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
        frequency = document[term]
        length = sum(document.values())
        score += rarity * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / AVERAGE_LENGTH))
    return score


@pytest.mark.parametrize("query", ["gateway connection pool", "连接池耗尽怎么办", "the of", "restart 数据库"])
def test_the_inner_product_is_the_textbook_score(query: str) -> None:
    chunks = [chunk_terms(text, title="") for text in TEXTS]
    counts = {term: sum(term in chunk for chunk in chunks) for term in query_terms(query)}
    weights = query_weights(query_terms(query), counts, len(chunks))
    for number, chunk in enumerate(chunks):
        of_chunk = chunk_weights(chunk)
        product = sum(weight * of_chunk.get(term, 0.0) for term, weight in weights.items())
        assert product * (K1 + 1) == pytest.approx(literal(query, number))


def test_title_and_parent_headings_count_with_each_chunk() -> None:
    terms = Counter(chunk_terms("text", title="Gateway", headings=("Pool",)))
    assert terms[term_id("gateway")] == 2
    assert terms[term_id("pool")] == 1


def test_a_term_id_is_the_same_in_every_process_and_fits_31_bits() -> None:
    assert term_id("gateway") == 0x7B9F310F
    assert all(0 <= term_id(f"term {number}") < 2**31 for number in range(200))


def test_counts_that_are_a_moment_old_do_no_harm() -> None:
    assert idf(10, 5) > 0
    assert idf(0, 0) > 0
    assert idf(1, 1000) > idf(500, 1000) > idf(1000, 1000) > 0


def test_coverage_is_the_share_of_the_questions_weight() -> None:
    weights = {1: 3.0, 2: 1.0}
    assert coverage(weights, [1, 9]) == 0.75
    assert coverage(weights, []) == 0.0
    assert coverage({}, [1]) == 0.0


def test_the_stores_name_for_counted_terms_holds_the_analysers_version() -> None:
    assert f"bm25-{VERSION}" == COUNTED_TERMS
