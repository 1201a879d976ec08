"""The chat over HTTP: asking, the own conversations, refusals as problems."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache

from agents.models import ChatSession
from tests.agents.asking import ask, gateway_document
from tests.doors import browser, program

pytestmark = pytest.mark.django_db
CHAT = "/api/v1/chat/"
SESSIONS = "/api/v1/sessions/"


@pytest.fixture(autouse=True)
def _fresh_throttles() -> None:
    cache.clear()


@pytest.fixture
def caller(bob: Any) -> Any:
    """A program of Bob's that may chat."""
    return program("chat", user=bob)


def test_asking_gives_the_answer_with_its_citations_and_lookups(caller: Any) -> None:
    gateway_document()
    answer = caller.post(CHAT, {"message": "ERR_TIMEOUT"}, format="json")
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"session_id", "run_id", "message_id", "answer", "citations", "lookups", "status"}
    assert set(body["citations"][0]) == {"index", "source", "title", "section", "excerpt"}
    assert set(body["lookups"][0]) == {"query", "found", "relevanceLevel", "dedup_reason", "sources"}
    assert body["status"] == "finished"
    assert "超" not in body["answer"]


def test_text_is_not_ascii_escaped(caller: Any) -> None:
    answer = caller.post(CHAT, {"message": "怎样烤面包"}, format="json")
    assert "怎样烤面包" in answer.content.decode()


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"message": ""}, "message", "empty_message"),
        ({"message": "  "}, "message", "empty_message"),
        ({"message": "x" * 8001}, "message", "message_too_long"),
        ({}, "message", "required"),
        ({"message": 7}, "message", "invalid"),
        ({"message": None}, "message", "null"),
        ({"message": "a", "stream": True}, "stream", "not_streamed"),
        ({"message": "a", "session_id": "nonsense"}, "session_id", "invalid"),
        ({"message": "a", "temperature": 1}, "temperature", "unknown_field"),
    ],
)
def test_a_bad_request_is_a_problem_that_names_the_field(
    body: dict[str, Any], field: str, code: str, caller: Any
) -> None:
    answer = caller.post(CHAT, body, format="json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert [(error["field"], error["code"]) for error in answer.json()["errors"]] == [(field, code)]
    assert not ChatSession.objects.exists()


@pytest.mark.parametrize("message", ["a\x00b", "half \ud83d of a character"])
def test_what_is_no_text_is_a_400(message: str, caller: Any) -> None:
    answer = caller.post(
        CHAT,
        f'{{"message": "{message.encode("unicode_escape").decode()}"}}'.replace("\\x00", "\\u0000"),
        content_type="application/json",
    )
    assert answer.status_code == 400


def test_a_conversation_goes_on_with_its_id(caller: Any) -> None:
    first = caller.post(CHAT, {"message": "ERR_TIMEOUT"}, format="json").json()
    second = caller.post(CHAT, {"message": "and then", "session_id": first["session_id"]}, format="json").json()
    assert second["session_id"] == first["session_id"]
    assert second["run_id"] != first["run_id"]


@pytest.mark.parametrize("session_id", ["0b9d9c4e-6a57-4f2e-9d0c-3f1d5f1c7a11", None])
def test_a_conversation_that_is_not_the_callers_is_a_404(session_id: str | None, caller: Any, charlie: Any) -> None:
    other = session_id or str(ask("ERR_TIMEOUT", charlie).run.session_id)
    answer = caller.post(CHAT, {"message": "a", "session_id": other}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
    for method in ("get", "delete"):
        assert getattr(caller, method)(f"{SESSIONS}{other}/").status_code == 404


def test_a_browser_needs_its_csrf_token(bob: Any) -> None:
    answer = browser(bob).post(CHAT, {"message": "a"}, content_type="application/json")
    assert answer.status_code == 403


def test_a_key_without_a_person_has_conversations_of_its_own(bob: Any) -> None:
    key = program("chat")
    key.post(CHAT, {"message": "ERR_TIMEOUT"}, format="json")
    assert key.get(SESSIONS).json()["count"] == 1
    assert program("chat").get(SESSIONS).json()["count"] == 0
    assert ChatSession.objects.get().user is None


def test_the_list_has_the_own_conversations_the_last_used_first(caller: Any, bob: Any, charlie: Any) -> None:
    first = ask("first question", bob).run.session_id
    ask("second question", bob)
    ask("not Bob's", charlie)
    ask("again", bob, session_id=str(first))
    page = caller.get(SESSIONS).json()
    assert [row["title"] for row in page["results"]] == ["first question", "second question"]
    assert set(page["results"][0]) == {"id", "title", "created_at", "updated_at"}


def test_a_conversation_comes_back_with_messages_and_citations(caller: Any) -> None:
    gateway_document()
    asked = caller.post(CHAT, {"message": "ERR_TIMEOUT"}, format="json").json()
    body = caller.get(f"{SESSIONS}{asked['session_id']}/").json()
    question, answer = body["messages"]
    assert (question["role"], question["text"]) == ("user", "ERR_TIMEOUT")
    assert (answer["role"], answer["id"]) == ("assistant", asked["message_id"])
    assert answer["text"] == asked["answer"]
    assert answer["citations"] == asked["citations"]
    assert answer["lookups"] == asked["lookups"]


def test_a_conversation_can_be_renamed_and_deleted(caller: Any, bob: Any) -> None:
    address = f"{SESSIONS}{ask('ERR_TIMEOUT', bob).run.session_id}/"
    assert caller.patch(address, {"title": "Time-outs"}, format="json").json()["title"] == "Time-outs"
    assert caller.patch(address, {"title": ""}, format="json").status_code == 400
    assert caller.delete(address).status_code == 204
    assert caller.get(address).status_code == 404


def test_too_many_questions_are_a_429_with_the_time_to_wait(caller: Any, settings: Any) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"chat": "2/min"}}
    codes = [caller.post(CHAT, {"message": "a"}, format="json").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert int(caller.post(CHAT, {"message": "a"}, format="json")["Retry-After"]) >= 1
