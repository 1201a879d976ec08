"""``manage.py doctor``: what it looks at, its remedies, its exit status, and that it asks the running server."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from clients.interfaces import ClientError, Completion
from documents.data_dir import hold_data_dir
from documents.local_server import LocalServerError, announce_server
from documents.models import ApiDocument
from observability import doctor
from observability.management.commands import doctor as command

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path / "data"


def run() -> tuple[str, int]:
    out = io.StringIO()
    try:
        call_command("doctor", stdout=out)
    except SystemExit as end:
        return out.getvalue(), int(end.code or 0)
    return out.getvalue(), 0


def test_a_healthy_site_ends_with_status_0_and_names_what_it_looked_at() -> None:
    text, status = run()
    assert status == 0, text
    for word in ("DATA_DIR", "Django", "Python", "tables", "vector_store", "embedder", "dimensions", "model", "0 down"):
        assert word in text
    assert "No server runs" in text


def test_a_warning_has_its_remedy_and_no_bad_status() -> None:
    text, status = run()
    assert "warn  embedder" in text
    assert "-> Lexical only" in text
    assert status == 0


def test_what_is_down_ends_with_status_1_and_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        configured = True
        model = "gpt-x"

        def complete(self, *args: Any, **kwargs: Any) -> Any:
            raise ClientError("The key was refused.", code="llm_refused_key", hint="Set OPENAI_API_KEY.")

    monkeypatch.setattr(doctor, "get_llm", Broken)
    text, status = run()
    assert status == 1
    assert "DOWN  model: gpt-x: The key was refused." in text
    assert "-> Set OPENAI_API_KEY." in text


def test_a_model_that_answers_is_said_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Working:
        configured = True
        model = "gpt-x"

        def complete(self, *args: Any, **kwargs: Any) -> Completion:
            return Completion(text="ready", model="gpt-x-2026")

    monkeypatch.setattr(doctor, "get_llm", Working)
    assert "ok    model: gpt-x-2026 answers" in run()[0]


def test_a_store_of_another_embedder_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    class Store:
        def open(self) -> None:
            raise ClientError("The vectors are of bge-m3.", code="collection_mismatch", hint="Run: reindex --all")

    monkeypatch.setattr(doctor, "get_vector_store", Store)
    text, status = run()
    assert status == 1
    assert "-> Run: reindex --all" in text


def test_failed_documents_and_a_missing_folder_are_warnings(settings: Any, tmp_path: Path) -> None:
    ApiDocument.objects.create(
        file_path="knowledge_base/a.md", path_key="k", file_name="a.md", category="a", title="A", content_hash="",
        status="FAILED", updated_at="2026-01-01T00:00:00Z",
    )  # fmt: skip
    settings.KNOWLEDGE_BASE_PATH = tmp_path / "nowhere"
    text, status = run()
    assert status == 0
    assert "1, 1 of them FAILED" in text
    assert "reindex --failed" in text
    assert "warn  KNOWLEDGE_BASE_PATH" in text


def test_passwords_of_addresses_are_not_shown(settings: Any) -> None:
    settings.REDIS_URL = "redis://kbsite:hunter2@cache.example:6379/0"
    settings.CELERY_BROKER_URL = "amqp://u:hunter2@broker.example//"
    text, _status = run()
    assert "hunter2" not in text
    assert "redis://cache.example:6379/0" in text


def test_the_running_server_is_asked_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {"topic": "services", "name": "vector_store", "status": "down", "value": "down", "remedy": "Mend it."}
    called: list[str] = []

    def server(path: str, payload: dict[str, Any]) -> dict[str, Any]:
        called.append(path)
        return {"findings": [finding]}

    monkeypatch.setattr(command, "call_running_server", server)
    text, status = run()
    assert called == ["/internal/doctor/"]
    assert status == 1
    assert text.startswith("The running server says:")
    assert "DOWN  vector_store: down\n        -> Mend it." in text


def test_a_server_that_does_not_answer_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def server(path: str, payload: dict[str, Any]) -> dict[str, Any]:
        raise LocalServerError("The server on http://127.0.0.1:8000 does not answer.")

    monkeypatch.setattr(command, "call_running_server", server)
    text, status = run()
    assert status == 1
    assert "DOWN  server" in text


def test_a_folder_that_another_process_holds_is_said_in_one_line(data_dir: Path) -> None:
    with hold_data_dir(data_dir):
        text, status = run()
    assert status == 1
    assert "DOWN  DATA_DIR" in text


def test_the_servers_own_door_gives_the_findings(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    token = json.loads((data_dir / "server.json").read_text())["token"]
    answer = Client().post(
        "/internal/doctor/", {}, content_type="application/json", headers={"Authorization": f"Bearer {token}"}
    )
    names = {finding["name"] for finding in answer.json()["findings"]}
    assert {"worker", "DATA_DIR", "dimensions"} <= names
    assert Client().post("/internal/doctor/", {}, content_type="application/json").status_code == 404
