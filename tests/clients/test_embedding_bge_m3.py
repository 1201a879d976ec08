"""What is ours of BGE-M3: turns, patience, errors, the server that holds the model for many processes, the settings."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.embedding_bge_m3 import QUERY_TOKENS, BgeM3Embedder
from clients.embedding_bge_m3_model import HEADS
from clients.embedding_bge_m3_server import BgeM3ServerEmbedder
from clients.embedding_cache import CachedQueries
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_lexical import identity_of, own_lexical_weights
from clients.interfaces import COUNTED_TERMS, ClientError, ClientTimeout, CollectionIdentity
from clients.one_at_a_time import Loader, NotInTime
from tests.clients.bge_m3_stand_in import StandInForBgeM3
from tests.clients.embedding_endpoint import EmbeddingEndpoint

ROOT = Path(__file__).resolve().parents[2]


def _wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Until it holds; the limit only keeps a broken test from hanging."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


@pytest.fixture
def model() -> StandInForBgeM3:
    return StandInForBgeM3()


@pytest.fixture
def embedder(model: StandInForBgeM3) -> BgeM3Embedder:
    return BgeM3Embedder(model="/weights/bge-m3", batch=2, max_tokens=1000, load=lambda *_: model)


# ---- Batches, lengths, questions -------------------------------------------------------------------------------------
def test_passages_go_in_batches_and_questions_are_read_less_far(
    embedder: BgeM3Embedder, model: StandInForBgeM3
) -> None:
    embedder.embed_documents(["one", "two", "three"])
    embedder.embed_query("question")
    assert model.calls == [(["one", "two"], 1000), (["three"], 1000), (["question"], QUERY_TOKENS)]


def test_model_and_device_are_what_the_loading_is_told() -> None:
    made: list[StandInForBgeM3] = []

    def load(model: str, device: str) -> StandInForBgeM3:
        made.append(StandInForBgeM3(model, device))
        return made[0]

    embedder = BgeM3Embedder(model="/weights/bge-m3", device="cuda:0", load=load)
    assert made == []
    embedder.embed_documents(["one"])
    embedder.embed_documents(["two"])
    assert [one.made_with for one in made] == [("/weights/bge-m3", "cuda:0")]


def test_the_same_question_is_embedded_once_and_gives_its_weights_too(
    embedder: BgeM3Embedder, model: StandInForBgeM3
) -> None:
    first = embedder.embed_query("question")
    assert embedder.embed_query("question") is first
    weights = embedder.lexical_query("question")
    assert weights == {7: 0.5}
    weights.clear()
    assert embedder.lexical_query("question") == {7: 0.5}
    assert len(model.calls) == 1
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


def test_one_pass_gives_vectors_and_weights(embedder: BgeM3Embedder, model: StandInForBgeM3) -> None:
    rows, weights = embedder.embed_documents_with_lexical(["one", "two"])
    assert rows.shape == (2, 1024)
    assert weights == [{7: 0.5}] * 2
    assert len(model.calls) == 1


def test_a_weight_that_no_store_can_hold_is_left_out(embedder: BgeM3Embedder, model: StandInForBgeM3) -> None:
    model.weights = {7: 0.5, 8: 1e-45, 9: 0.0}
    assert embedder.lexical_documents(["one"]) == [{7: 0.5}]


def test_a_weight_that_is_no_number_is_refused(embedder: BgeM3Embedder, model: StandInForBgeM3) -> None:
    model.weights = {7: float("nan")}
    with pytest.raises(ClientError, match="not finite") as caught:
        embedder.embed_query("question")
    assert caught.value.code == "embedder_bad_answer"


def test_weights_of_its_own_are_found_where_there_are_some(embedder: BgeM3Embedder) -> None:
    assert own_lexical_weights(embedder) is embedder
    assert own_lexical_weights(HashingEmbedder()) is None


def test_the_dimension_is_what_the_folder_says(tmp_path: Path) -> None:
    assert BgeM3Embedder(model=str(tmp_path)).dimension == 1024
    for text in ("", "[]", '{"hidden_size": "wide"}'):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        assert BgeM3Embedder(model=str(tmp_path)).dimension == 1024
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 64}), encoding="utf-8")
    assert BgeM3Embedder(model=str(tmp_path)).dimension == 64


# ---- Turns -----------------------------------------------------------------------------------------------------------
def test_a_question_goes_before_the_passages_that_wait(embedder: BgeM3Embedder, model: StandInForBgeM3) -> None:
    model.gate = threading.Event()
    with ThreadPoolExecutor(max_workers=3) as threads:
        first = threads.submit(embedder.embed_documents, ["a", "b", "c", "d"])
        model.inside.wait(20)
        second = threads.submit(embedder.embed_documents, ["e"])
        question = threads.submit(embedder.embed_query, "question")
        _wait_for(lambda: embedder._turns._questions == 1)
        model.gate.set()
        for call in (first, second, question):
            call.result()
    assert [texts for texts, _ in model.calls][:2] == [["a", "b"], ["question"]]
    assert len(model.calls) == 4


def test_a_question_does_not_wait_for_ever_and_passages_go_on(model: StandInForBgeM3) -> None:
    embedder = BgeM3Embedder(query_patience=0.05, load=lambda *_: model)
    model.gate = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as threads:
        passages = threads.submit(embedder.embed_documents, ["a"])
        model.inside.wait(20)
        with pytest.raises(ClientTimeout) as caught:
            embedder.embed_query("question")
        model.gate.set()
        assert passages.result().shape == (1, 1024)
    assert caught.value.code == "embedder_busy"
    assert embedder.embed_query("question").shape == (1024,)


def test_a_question_does_not_wait_for_the_loading_which_goes_on(model: StandInForBgeM3) -> None:
    gate = threading.Event()

    def load(*_: str) -> StandInForBgeM3:
        gate.wait(20)
        return model

    embedder = BgeM3Embedder(query_patience=0.05, load=load)
    with pytest.raises(ClientTimeout) as caught:
        embedder.embed_query("question")
    assert caught.value.code == "embedder_loading"
    assert embedder._loader.loading
    gate.set()
    _wait_for(lambda: not embedder._loader.loading)
    assert embedder.embed_query("question").shape == (1024,)


def test_an_error_ends_its_turn(embedder: BgeM3Embedder, model: StandInForBgeM3) -> None:
    model.error = RuntimeError("out of\nmemory")
    with pytest.raises(ClientError, match="out of memory") as caught:
        embedder.embed_documents(["one"])
    assert (caught.value.code, caught.value.retryable) == ("embedder_error", True)
    assert "EMBEDDING_BATCH" in caught.value.hint
    model.error = None
    assert embedder.embed_query("one").shape == (1024,)


# ---- Loading that fails ----------------------------------------------------------------------------------------------
def test_what_did_not_load_is_tried_again_but_not_at_once() -> None:
    tries = []

    def load() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ClientError(f"try {len(tries)}", code="embedder_unavailable")
        return "loaded"

    patient = Loader(load, again_after=60.0)
    for _ in range(3):
        with pytest.raises(ClientError, match="try 1"):
            patient.get()
    assert str(patient.problem) == "try 1"
    at_once = Loader(load, again_after=0.0)
    with pytest.raises(ClientError, match="try 2"):
        at_once.get()
    assert at_once.get() == "loaded"
    assert at_once.get() == "loaded"
    assert len(tries) == 3
    assert at_once.problem is None


def test_a_caller_without_patience_is_told_so() -> None:
    gate = threading.Event()
    loader = Loader(lambda: gate.wait(20))
    with pytest.raises(NotInTime):
        loader.get(0.01)
    gate.set()
    assert loader.get() is True


def test_without_flagembedding_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    embedder = BgeM3Embedder()
    assert embedder.embed_documents([]).shape == (0, 1024)
    with pytest.raises(ClientError) as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert "requirements/bge-m3.txt" in caught.value.hint
    assert embedder.health().status == "down"


def test_weights_that_do_not_load_are_our_error_with_the_setting_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("no such folder")

    package = types.ModuleType("FlagEmbedding")
    package.BGEM3FlagModel = refuse  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "FlagEmbedding", package)
    embedder = BgeM3Embedder(model="name/on-a-hub")
    assert embedder.health().status == "ok"
    with pytest.raises(ClientError, match="no such folder") as caught:
        embedder.embed_query("timeout")
    assert caught.value.code == "embedder_unavailable"
    assert "EMBEDDING_MODEL" in caught.value.hint
    assert "no such folder" in embedder.health().hint
    missing = BgeM3Embedder(model="/nowhere").health()
    assert (missing.status, missing.hint.split(".")[0]) == ("down", "There is no folder /nowhere")


def test_it_has_the_thresholds_of_the_specification() -> None:
    fit = BgeM3Embedder().fit
    assert (fit.highly_relevant, fit.reference) == (0.75, 0.5)


# ---- The server that holds the model ---------------------------------------------------------------------------------
@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    server = EmbeddingEndpoint()
    yield server
    server.stop()


@pytest.fixture
def served(endpoint: EmbeddingEndpoint) -> Iterator[BgeM3ServerEmbedder]:
    embedder = BgeM3ServerEmbedder(base_url=endpoint.url, api_key="key-of-the-test", batch=2)
    yield embedder
    embedder.close()


def test_the_server_is_bge_m3_to_the_store_and_to_the_levels(served: BgeM3ServerEmbedder) -> None:
    local = BgeM3Embedder()
    assert (served.name, served.version, served.dimension) == (local.name, local.version, local.dimension)
    assert served.fit == local.fit
    assert own_lexical_weights(served) is None


def test_the_terms_of_the_server_and_of_the_loaded_model_are_never_in_one_collection(
    served: BgeM3ServerEmbedder,
) -> None:
    assert identity_of(CachedQueries(BgeM3Embedder())) == CollectionIdentity("bge-m3", "BAAI/bge-m3", 1024, "bge-m3")
    assert identity_of(CachedQueries(served)) == CollectionIdentity("bge-m3", "BAAI/bge-m3", 1024, "bm25-1")


def test_a_folder_without_the_lexical_part_has_its_words_counted(tmp_path: Path) -> None:
    without = BgeM3Embedder(model=str(tmp_path))
    assert own_lexical_weights(without) is None
    assert identity_of(without).terms == COUNTED_TERMS
    for head in HEADS:
        (tmp_path / head).touch()
    assert identity_of(BgeM3Embedder(model=str(tmp_path))).terms == "bge-m3"


def test_the_server_is_asked_in_batches_with_the_key_of_its_own(
    served: BgeM3ServerEmbedder, endpoint: EmbeddingEndpoint
) -> None:
    texts = ["one", "two", "three"]
    np.testing.assert_allclose(served.embed_documents(texts), HashingEmbedder().embed_documents(texts), atol=1e-6)
    assert [request["input"] for request in endpoint.requests] == [["one", "two"], ["three"]]
    assert {request["model"] for request in endpoint.requests} == {"BAAI/bge-m3"}
    assert set(endpoint.keys) == {"Bearer key-of-the-test"}


def test_hints_name_the_settings_of_this_embedder(served: BgeM3ServerEmbedder, endpoint: EmbeddingEndpoint) -> None:
    endpoint.status = 401
    with pytest.raises(ClientError) as caught:
        served.embed_query("timeout")
    assert caught.value.hint == "Look at EMBEDDING_API_KEY."
    assert "EMBEDDING_API_KEY" in served.health().hint


# ---- The settings: which process may load the model ------------------------------------------------------------------
def run_settings(**variables: str) -> subprocess.CompletedProcess[str]:
    """What a start with this environment would take for its embedder."""
    return subprocess.run(
        [sys.executable, "-c", "import kbsite.settings as s; print(s.CLIENTS['embedder'])"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "SECRET_KEY": "x" * 60, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def embedder_of(**variables: str) -> dict[str, Any]:
    chosen: dict[str, Any] = ast.literal_eval(run_settings(**variables).stdout)
    return chosen


BROKER = "redis://127.0.0.1:6379/1"


def test_many_processes_and_no_server_is_refused_with_what_to_do() -> None:
    refused = run_settings(EMBEDDER="bge-m3", CELERY_BROKER_URL=BROKER)
    assert refused.returncode != 0
    assert "EMBEDDING_BASE_URL" in refused.stderr.splitlines()[-1]


def test_with_a_server_no_process_loads_the_model() -> None:
    for broker in ("", BROKER):
        chosen = embedder_of(
            EMBEDDER="bge-m3",
            CELERY_BROKER_URL=broker,
            EMBEDDING_BASE_URL="http://127.0.0.1:8080/v1",
            EMBEDDING_API_KEY="key",
            OPENAI_API_KEY="other",
        )
        assert chosen["BACKEND"].endswith("BgeM3ServerEmbedder")
        assert chosen["OPTIONS"]["base_url"] == "http://127.0.0.1:8080/v1"
        assert chosen["OPTIONS"]["api_key"] == "key"


def test_the_one_process_of_an_embedded_site_loads_it_as_set() -> None:
    chosen = embedder_of(
        EMBEDDER="bge-m3",
        EMBEDDING_MODEL="/weights",
        EMBEDDING_BATCH="4",
        EMBEDDING_MAX_TOKENS="512",
        EMBEDDING_DEVICE="cuda:0",
    )
    assert chosen["BACKEND"].endswith("BgeM3Embedder")
    assert chosen["OPTIONS"] == {"model": "/weights", "device": "cuda:0", "batch": 4, "max_tokens": 512}


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({}, ("http://llm/v1", "llm-key")),
        ({"EMBEDDING_API_KEY": "own"}, ("http://llm/v1", "own")),
        ({"EMBEDDING_BASE_URL": "http://own/v1"}, ("http://own/v1", "")),
        ({"EMBEDDING_BASE_URL": "http://own/v1", "EMBEDDING_API_KEY": "own"}, ("http://own/v1", "own")),
    ],
)
def test_the_key_of_one_address_is_never_sent_to_another(own: dict[str, str], sent: tuple[str, str]) -> None:
    options = embedder_of(EMBEDDER="openai", OPENAI_BASE_URL="http://llm/v1", OPENAI_API_KEY="llm-key", **own)[
        "OPTIONS"
    ]
    assert (options["base_url"], options["api_key"]) == sent


def test_a_bad_value_is_refused_with_its_name() -> None:
    for name in ("EMBEDDING_BATCH", "EMBEDDING_MAX_TOKENS"):
        refused = run_settings(**{name: "0"})
        assert name in refused.stderr.splitlines()[-1]
