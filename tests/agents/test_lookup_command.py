"""``manage.py lookup``: in this process, and through the running server."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from documents.local_server import LocalServerError
from documents.models import ToolInvocation
from tests.documents.library import text, upload

SERVER = "agents.management.commands.lookup.call_running_server"


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("lookup", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_json_is_exactly_what_a_model_sees() -> None:
    upload(text("ERR_TIMEOUT"))
    printed = json.loads(run("ERR_TIMEOUT", "--json"))
    assert list(printed) == [
        "found",
        "primary",
        "supplement",
        "relevanceLevel",
        "completenessHint",
        "retrievedDomainsThisSession",
        "message",
    ]
    assert printed["relevanceLevel"] == "PRECISE"
    assert printed["completenessHint"] == "知识库中不存在比上述结果更精准的文档"


@pytest.mark.django_db
def test_json_is_not_escaped_to_ascii() -> None:
    upload(text("ERR_TIMEOUT"))
    assert "知识库中不存在" in run("ERR_TIMEOUT", "--json")


@pytest.mark.django_db
def test_without_json_the_result_is_readable() -> None:
    upload(text("ERR_TIMEOUT"))
    printed = run("ERR_TIMEOUT")
    assert "found: yes   level: PRECISE" in printed
    assert "--- primary: knowledge_base/payment/timeouts.md (exact_L0)" in printed
    assert "The gateway gives up" in printed
    assert "found: no   level: -" in run("ERR_404")


@pytest.mark.django_db
def test_a_section_can_be_asked_for() -> None:
    upload(text("ERR_TIMEOUT"))
    printed = json.loads(run("ERR_TIMEOUT", "--section", "what to do", "--json"))
    assert printed["primary"]["content"] == "## What to do\n\nAsk the bank."


@pytest.mark.django_db
def test_a_session_is_remembered_and_recorded_as_of_the_command_line() -> None:
    upload(text("ERR_TIMEOUT"))
    levels = [json.loads(run("ERR_TIMEOUT", "--session", "s", "--json"))["relevanceLevel"] for _ in range(2)]
    assert levels == ["PRECISE", "DEDUPED"]
    row = ToolInvocation.objects.latest("id")
    assert (row.channel, row.session_id, row.principal) == ("cli", "s", "cli:local")


def test_a_running_server_is_asked_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answer: dict[str, Any] = {
        "found": False,
        "primary": None,
        "supplement": None,
        "relevanceLevel": None,
        "completenessHint": None,
    }
    answer |= {"retrievedDomainsThisSession": [], "message": "没有"}

    def server(path: str, payload: dict[str, Any]) -> dict[str, Any]:
        asked.append((path, payload))
        return answer

    monkeypatch.setattr(SERVER, server)
    assert json.loads(run("ERR_1", "--session", "s", "--section", "t", "--json")) == answer
    assert asked == [("/internal/lookup/", {"query": "ERR_1", "section_title": "t", "session_id": "s"})]


def test_a_server_that_refuses_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def server(path: str, payload: dict[str, Any]) -> dict[str, Any]:
        raise LocalServerError("The server is stopping. Try again.")

    monkeypatch.setattr(SERVER, server)
    with pytest.raises(CommandError, match=r"^The server is stopping\. Try again\.$"):
        run("ERR_1")


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["", " ", "a" * 2001, "a\x00"])
def test_a_query_that_cannot_be_asked_ends_in_one_line(query: str) -> None:
    with pytest.raises(CommandError, match="query"):
        run(query)


def test_a_session_id_that_cannot_be_one_ends_in_one_line() -> None:
    with pytest.raises(CommandError, match="--session"):
        run("ERR_1", "--session", "a b")


@pytest.mark.django_db
def test_a_database_that_does_not_answer_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise DatabaseError("no such table: api_document")

    monkeypatch.setattr("agents.tools.look_up", fail)
    with pytest.raises(CommandError, match="migrate"):
        run("ERR_1")
