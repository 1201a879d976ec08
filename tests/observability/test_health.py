"""``/healthz`` and ``/readyz``: what is said to whom, and that nothing broken keeps them from answering."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from clients.folder_events import LIMIT
from clients.interfaces import ClientError, PartHealth
from clients.registry import get_embedder, reset_clients
from documents.watch_state import remember_unwatched
from observability import health

pytestmark = pytest.mark.django_db
PARTS = ["database", "keyword_index", "vector_store", "embedder", "memory", "worker", "llm"]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_kept", None)


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Have one part stand as told: a state, or an exception to raise."""

    def change(name: str, state: Any) -> None:
        def check() -> PartHealth:
            if isinstance(state, Exception):
                raise state
            return PartHealth(*state)

        monkeypatch.setitem(health.CHECKS, name, check)

    return change


def ready() -> Any:
    return Client().get("/readyz")


def test_healthz_says_that_it_runs_and_nothing_else() -> None:
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert "Server" not in answer
    assert Client().post("/healthz").status_code == 405


def test_readyz_has_exactly_the_parts_of_the_contract() -> None:
    answer = ready()
    assert answer.status_code == 200
    assert list(answer.json()) == ["status", "parts"]
    assert list(answer.json()["parts"]) == PARTS
    for state in answer.json()["parts"].values():
        assert list(state) == ["status", "hint"]
        assert state["status"] in {"ok", "degraded", "down"}


def test_the_lexical_embedder_is_said_to_be_degraded() -> None:
    answer = ready().json()
    assert answer["parts"]["embedder"]["status"] == "degraded"
    assert "lexical only" in answer["parts"]["embedder"]["hint"].lower()
    assert answer["status"] == "degraded"


def test_bge_m3_without_its_folder_is_down(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clients.embedding_bge_m3.find_spec", lambda _name: object())
    options = {"model": str(tmp_path / "nowhere")}
    chosen = {"BACKEND": "clients.embedding.BgeM3Embedder", "OPTIONS": options, "QUERY_CACHE": {"redis_url": ""}}
    settings.CLIENTS = {**settings.CLIENTS, "embedder": chosen}
    reset_clients()
    embedder = ready().json()["parts"]["embedder"]
    assert embedder["status"] == "down"
    assert "EMBEDDING_MODEL" in embedder["hint"]


def test_an_embeddings_endpoint_that_does_not_answer_shows_from_then_on(settings: Any) -> None:
    options = {"model": "m", "base_url": "http://kb:hunter2@127.0.0.1:1/v1", "dimension": 8, "query_timeout": 0.2}
    settings.CLIENTS = {
        **settings.CLIENTS,
        "embedder": {"BACKEND": "clients.embedding.OpenAIEmbedder", "OPTIONS": options},
    }
    reset_clients()
    assert ready().json()["parts"]["embedder"] == {"status": "ok", "hint": ""}
    with pytest.raises(ClientError):
        get_embedder().embed_query("timeout")
    health._kept = None
    answer = ready()
    assert answer.json()["parts"]["embedder"]["status"] == "degraded"
    assert "cannot be reached" in answer.json()["parts"]["embedder"]["hint"]
    assert b"hunter2" not in answer.content


def test_what_an_embedder_says_of_itself_and_an_outgrown_fit_stand_together(monkeypatch: pytest.MonkeyPatch) -> None:
    said = PartHealth("down", "It failed at http://kb:hunter2@host/v1.")
    monkeypatch.setattr(health, "get_embedder", lambda: SimpleNamespace(lexical=False, health=lambda: said))
    monkeypatch.setattr(health, "growth_beyond_fit", lambda _embedder: SimpleNamespace(chunks=90, fitted=9))
    embedder = ready().json()["parts"]["embedder"]
    assert embedder["status"] == "down"
    assert embedder["hint"].startswith("It failed at http://***@host/v1. The store has 90 chunks")


def test_no_model_is_ok_with_a_hint() -> None:
    llm = ready().json()["parts"]["llm"]
    assert llm["status"] == "ok"
    assert "OPENAI_MODEL" in llm["hint"]


def test_when_all_parts_are_ok_so_is_the_whole(part: Any) -> None:
    for name in PARTS:
        part(name, ("ok",))
    assert ready().json()["status"] == "ok"


@pytest.mark.parametrize("name", [name for name in PARTS if name != "database"])
@pytest.mark.parametrize("state", ["down", "degraded"])
def test_a_part_that_is_down_degrades_the_whole_without_a_503(part: Any, name: str, state: str) -> None:
    for each in PARTS:
        part(each, ("ok",))
    part(name, (state, "Do this."))
    answer = ready()
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["parts"][name] == {"status": state, "hint": "Do this."}


def test_without_the_database_the_whole_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise OperationalError("could not connect to db.internal as kbsite:hunter2")

    monkeypatch.setattr(health, "connection", SimpleNamespace(cursor=gone))
    answer = ready()
    assert answer.status_code == 503
    assert answer.json()["status"] == "down"
    assert answer.json()["parts"]["database"]["status"] == "down"
    assert b"hunter2" not in answer.content
    assert b"db.internal" not in answer.content


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    "fault", [RuntimeError("the token is hunter2"), ClientError("x hunter2"), OSError(5, "hunter2")]
)
def test_a_check_that_fails_is_down_without_its_words(part: Any, name: str, fault: Exception) -> None:
    part(name, fault)
    answer = ready()
    assert answer.json()["parts"][name]["status"] == "down"
    assert b"hunter2" not in answer.content


def test_a_crowd_of_probes_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def count() -> PartHealth:
        looks.append(1)
        return PartHealth("ok")

    monkeypatch.setitem(health.CHECKS, "vector_store", count)
    for _ in range(5):
        ready()
    assert len(looks) == 1
    monkeypatch.setattr(health, "CACHE_SECONDS", -1.0)
    ready()
    assert len(looks) == 2


def test_a_mass_vanishing_of_files_shows_at_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    held_back = PartHealth("degraded", "12 files vanished at once: scan --prune --yes")
    monkeypatch.setattr(health, "scan_state", lambda: held_back)
    worker = ready().json()["parts"]["worker"]
    assert worker == {"status": "degraded", "hint": "12 files vanished at once: scan --prune --yes"}


def test_a_folder_that_cannot_be_watched_shows_at_the_worker(settings: Any) -> None:
    settings.WATCH_FOLDER = True
    remember_unwatched(LIMIT)
    worker = ready().json()["parts"]["worker"]
    assert worker["status"] == "degraded"
    assert "inotify" in worker["hint"]
    assert "30 seconds" in worker["hint"]


def test_a_worker_of_this_process_is_asked(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.EMBEDDED_WORKER = True
    states = {"down": "restart", "degraded": "log", "ok": "7 documents"}
    for state, word in states.items():
        worker = SimpleNamespace(
            health=lambda state=state: PartHealth(state, "hunter2"), progress=lambda: SimpleNamespace(waiting=7)
        )
        monkeypatch.setattr(health, "get_worker", lambda worker=worker: worker)
        monkeypatch.setattr(health, "_kept", None)
        shown = ready().json()["parts"]["worker"]
        assert shown["status"] == state
        assert word in shown["hint"]
        assert "hunter2" not in shown["hint"]
