"""The lexical embedder: the same everywhere, and honest about what it is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from clients.embedding_hashing import HashingEmbedder


def test_it_says_that_it_is_lexical() -> None:
    embedder = HashingEmbedder()
    assert embedder.lexical
    assert not embedder.own_level_space
    assert embedder.dimension == 1024
    assert embedder.health().status == "degraded"


def test_another_process_with_another_hash_seed_gives_the_same_vector() -> None:
    text = "退款 refund 订单 E-1042"
    code = (
        "import sys; from clients.embedding_hashing import HashingEmbedder;"
        "sys.stdout.buffer.write(HashingEmbedder().embed_query(sys.argv[1]).tobytes())"
    )
    for seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", code, text], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        np.testing.assert_array_equal(np.frombuffer(other, dtype=np.float32), HashingEmbedder().embed_query(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [("ＰＡＹ－１０４２", "pay-1042"), ("STRASSE", "straße"), ("Timeout", "timeout")],
)
def test_width_and_case_make_no_difference(one: str, other: str) -> None:
    embedder = HashingEmbedder()
    np.testing.assert_allclose(embedder.embed_query(one), embedder.embed_query(other), atol=1e-6)


def test_a_word_inside_chinese_text_is_seen_as_a_word() -> None:
    embedder = HashingEmbedder()
    documents = embedder.embed_documents(["订单timeout支付失败", "订单支付失败"])
    query = embedder.embed_query("timeout")
    assert documents[0] @ query > documents[1] @ query + 0.1


def test_a_misspelt_word_is_still_near_and_an_unrelated_one_is_not() -> None:
    embedder = HashingEmbedder()
    documents = embedder.embed_documents(["certificate renewal", "holiday calendar"])
    near, far = documents @ embedder.embed_query("certifcate renewl")
    assert near > far + 0.2
