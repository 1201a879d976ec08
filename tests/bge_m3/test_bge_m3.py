"""BGE-M3 through FlagEmbedding as it is: `make bge-m3-test` makes the environment and a tiny checkpoint for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients import embedding_bge_m3_model as model_module
from clients.embedding_bge_m3 import BgeM3Embedder
from clients.embedding_bge_m3_model import load_model
from clients.embedding_cache import CachedQueries
from clients.embedding_lexical import own_lexical_weights
from clients.interfaces import ClientError
from tests.bge_m3.checkpoint import MAX_TOKENS, WIDTH, make_checkpoint
from tests.clients.embedder_contract import PROMISES, TEXTS

# What the libraries say to each other is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")
PATIENCE = 120.0
LONG = " ".join(["the queue of the worker is full"] * 200)


@pytest.fixture(scope="module")
def embedder(checkpoint: Path) -> Iterator[BgeM3Embedder]:
    """Loaded once; the first import takes seconds, for which a question would not wait."""
    made = BgeM3Embedder(model=str(checkpoint), query_patience=PATIENCE)
    made.embed_documents(["begin"])
    yield made
    made.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_it_keeps_the_promises_of_every_embedder(
    embedder: BgeM3Embedder, promise: Callable[[BgeM3Embedder], None]
) -> None:
    promise(embedder)


def test_the_dimension_is_the_checkpoints_before_and_after_loading(embedder: BgeM3Embedder, checkpoint: Path) -> None:
    assert BgeM3Embedder(model=str(checkpoint)).dimension == WIDTH
    assert embedder.dimension == embedder.embed_query("timeout").shape[0] == WIDTH
    assert embedder.health().status == "ok"


def test_the_numbers_are_those_of_the_librarys_own_encode(embedder: BgeM3Embedder, checkpoint: Path) -> None:
    texts = [*TEXTS, LONG]
    theirs = (
        import_module("FlagEmbedding")
        .BGEM3FlagModel(str(checkpoint), use_fp16=False, devices="cpu")
        .encode(texts, batch_size=8, max_length=MAX_TOKENS, return_dense=True, return_sparse=True)
    )
    vectors, weights = embedder.embed_documents_with_lexical(texts)
    np.testing.assert_allclose(vectors, theirs["dense_vecs"], atol=1e-5)
    expected = [{int(token): float(weight) for token, weight in one.items()} for one in theirs["lexical_weights"]]
    assert [one.keys() for one in weights] == [one.keys() for one in expected]
    for ours, their in zip(weights, expected, strict=True):
        assert ours == pytest.approx(their, abs=1e-5)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_size_of_a_batch_changes_nothing(embedder: BgeM3Embedder, checkpoint: Path, batch: int) -> None:
    texts = [f"{text} number {number}" for number in range(4) for text in TEXTS]
    other = BgeM3Embedder(model=str(checkpoint), batch=batch)
    np.testing.assert_allclose(other.embed_documents(texts), embedder.embed_documents(texts), atol=1e-5)


def test_no_more_texts_than_a_batch_reach_the_model_at_once(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = model_module._FlagModel.encode

    def counted(self: Any, texts: Sequence[str], *, max_tokens: int) -> Any:
        sizes.append((len(texts), max_tokens))
        return real(self, texts, max_tokens=max_tokens)

    monkeypatch.setattr(model_module._FlagModel, "encode", counted)
    embedder = BgeM3Embedder(model=str(checkpoint), batch=3, max_tokens=100, query_patience=PATIENCE)
    embedder.embed_documents(["text"] * 7)
    embedder.embed_query("question")
    assert sizes == [(3, 100), (3, 100), (1, 100), (1, 100)]


def test_a_long_text_is_cut_at_the_length_set(checkpoint: Path) -> None:
    embedder = BgeM3Embedder(model=str(checkpoint), max_tokens=32)
    long, longer, other = embedder.embed_documents([LONG, LONG + " and a certificate expires", "certificate " + LONG])
    np.testing.assert_array_equal(long, longer)
    assert not np.allclose(long, other)


def test_a_text_longer_than_the_model_reads_is_cut_where_its_positions_end(checkpoint: Path) -> None:
    embedder = BgeM3Embedder(model=str(checkpoint), max_tokens=100_000)
    rows = embedder.embed_documents([LONG, "short"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_two_threads_load_one_model_and_get_what_one_thread_gets(checkpoint: Path, embedder: BgeM3Embedder) -> None:
    loads = []
    both = threading.Barrier(2)

    def counted(model: str, device: str) -> Any:
        loads.append(model)
        return load_model(model, device)

    shared = BgeM3Embedder(model=str(checkpoint), load=counted, query_patience=PATIENCE)

    def work(number: int) -> tuple[np.ndarray, np.ndarray]:
        both.wait()
        return shared.embed_documents(TEXTS * 5), shared.embed_query(TEXTS[number])

    with ThreadPoolExecutor(max_workers=2) as threads:
        answers = list(threads.map(work, range(2)))
    assert len(loads) == 1
    for number, (rows, row) in enumerate(answers):
        np.testing.assert_allclose(rows, embedder.embed_documents(TEXTS * 5), atol=1e-5)
        np.testing.assert_allclose(row, embedder.embed_query(TEXTS[number]), atol=1e-5)


def test_lexical_weights_stand_for_the_words_of_a_text_and_for_no_special_token(
    embedder: BgeM3Embedder, checkpoint: Path
) -> None:
    tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(str(checkpoint))
    documents = embedder.lexical_documents(TEXTS)
    for text, weights in zip(TEXTS, documents, strict=True):
        assert set(weights) == set(tokenizer(text)["input_ids"]) - set(tokenizer.all_special_ids)
        assert all(isinstance(token, int) and weight > 0 for token, weight in weights.items())
    for number, question in enumerate(["payment gateway bank", "证书到期", "restart the worker queue", "磁盘写满"]):
        query = embedder.lexical_query(question)
        scores = [sum(weight * one.get(token, 0.0) for token, weight in query.items()) for one in documents]
        assert scores.index(max(scores)) == number


def test_an_unknown_letter_has_no_weight_and_no_text_has_none(embedder: BgeM3Embedder, checkpoint: Path) -> None:
    tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(str(checkpoint))
    assert tokenizer.unk_token_id in tokenizer("queue 🙂 queue")["input_ids"]
    assert tokenizer.unk_token_id not in embedder.lexical_documents(["queue 🙂 queue"])[0]
    assert embedder.lexical_documents([""]) == [{}]
    assert embedder.lexical_documents([]) == []
    assert embedder.lexical_query("") == {}


def test_a_cache_around_it_does_not_hide_its_weights(embedder: BgeM3Embedder) -> None:
    assert own_lexical_weights(CachedQueries(embedder)) is embedder


def test_a_missing_folder_is_our_error_with_the_setting_to_change(tmp_path: Path) -> None:
    embedder = BgeM3Embedder(model=str(tmp_path / "nowhere"))
    assert embedder.health().status == "down"
    with pytest.raises(ClientError, match="nowhere") as caught:
        embedder.embed_documents(["timeout"])
    assert caught.value.code == "embedder_unavailable"
    assert "EMBEDDING_MODEL" in caught.value.hint


def test_a_name_on_a_hub_that_cannot_be_reached_is_our_error(tmp_path: Path) -> None:
    embedder = BgeM3Embedder(model="nobody/has-this-model", query_patience=PATIENCE)
    assert embedder.dimension == 1024
    with pytest.raises(ClientError, match="does not load from nobody/has-this-model") as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert embedder.health().status == "down"


def test_a_device_that_is_not_there_is_our_error(checkpoint: Path) -> None:
    with pytest.raises(ClientError) as caught:
        BgeM3Embedder(model=str(checkpoint), device="no-device").embed_documents(["timeout"])
    assert caught.value.code == "embedder_unavailable"
    assert "EMBEDDING_DEVICE" in caught.value.hint


def test_a_folder_without_the_lexical_part_gives_vectors_and_refuses_weights(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "no-heads", texts=TEXTS * 20, heads=False)
    embedder = BgeM3Embedder(model=str(folder), query_patience=PATIENCE)
    assert embedder.embed_documents(["timeout"]).shape == (1, WIDTH)
    with pytest.raises(ClientError, match=r"sparse_linear\.pt") as caught:
        embedder.lexical_query("timeout")
    assert caught.value.code == "embedder_unavailable"


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "spoilt", texts=TEXTS * 20, spoilt=True)
    with pytest.raises(ClientError, match="not finite") as caught:
        BgeM3Embedder(model=str(folder)).embed_documents(["timeout"])
    assert caught.value.code == "embedder_bad_answer"
