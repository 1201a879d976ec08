"""A question asked without a model: looked up, answered with the passages found, kept (AG-5, AG-8)."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from agents.answer import language_of, shortened
from agents.chat import MAX_MESSAGE, QuestionRefusedError
from agents.history import SessionNotFoundError, delete_session
from agents.models import ChatSession, Message, Run
from agents.recording import MAX_QUERY
from agents.tools import call_tool
from clients.registry import get_session_memory, get_vector_store
from documents.models import ToolInvocation
from retrieval.action_memory import MemoryScope
from tests.agents.asking import ask, gateway_document
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db


def test_an_exact_question_is_answered_with_the_passage_and_its_source(bob: Any) -> None:
    gateway_document()
    reply = ask("ERR_TIMEOUT", bob).as_dict()
    assert "Query the order first" in reply["answer"]
    assert "[1]" in reply["answer"]
    [citation] = reply["citations"]
    assert citation["index"] == 1
    assert citation["source"] == "knowledge_base/payment/gateway-errors.md"
    assert citation["title"] == "Gateway errors"
    assert "never refund" in citation["excerpt"]
    assert reply["lookups"] == [
        {
            "query": "ERR_TIMEOUT",
            "found": True,
            "relevanceLevel": "PRECISE",
            "dedup_reason": None,
            "sources": ["knowledge_base/payment/gateway-errors.md"],
        }
    ]
    assert reply["status"] == "finished"


@pytest.mark.parametrize(
    ("question", "said"), [("what is ERR_TIMEOUT", "No model is set up"), ("ERR_TIMEOUT 怎么办", "没有配置模型")]
)
def test_without_a_model_it_says_how_to_set_one_in_the_questions_language(question: str, said: str, bob: Any) -> None:
    gateway_document()
    reply = ask(question, bob).as_dict()
    assert said in reply["answer"]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        assert name in reply["answer"]


@pytest.mark.parametrize(
    ("question", "said"), [("how to bake rye bread", "Nothing on this"), ("怎样烤黑麦面包", "知识库里没有")]
)
def test_nothing_found_is_said_plainly(question: str, said: str, bob: Any) -> None:
    gateway_document()
    reply = ask(question, bob).as_dict()
    assert reply["answer"].startswith(said)
    assert reply["citations"] == []
    assert reply["lookups"][0]["found"] is False
    assert reply["lookups"][0]["relevanceLevel"] is None
    assert reply["status"] == "finished"


def test_two_documents_that_share_a_keyword_are_cited_apart(bob: Any) -> None:
    indexed(text("退款", "# 退款\n\n退款三天内到账。\n", "退款"), "refund.md")
    indexed(text("退款", "# 对账\n\n对账单第二天早上到。退款也在里面。\n", "对账"), "reconcile.md")
    reply = ask("退款：对账单第二天早上到，退款也在里面", bob).as_dict()
    assert [citation["index"] for citation in reply["citations"]] == [1, 2]
    assert len({citation["source"] for citation in reply["citations"]}) == 2
    assert "[1]" in reply["answer"]
    assert "[2]" in reply["answer"]


def test_a_documents_own_bracketed_number_is_not_taken_for_a_citation(bob: Any) -> None:
    gateway_document()
    answer = ask("ERR_TIMEOUT", bob)
    assert "calls this \\[1\\]" in answer.message.text


def test_asked_again_it_is_answered_again(bob: Any) -> None:
    gateway_document()
    first = ask("ERR_TIMEOUT", bob)
    again = ask("ERR_TIMEOUT", bob, session_id=str(first.run.session_id))
    assert again.run.session_id == first.run.session_id
    assert again.message.citations == first.message.citations
    assert again.message.lookups[0]["relevanceLevel"] == "PRECISE"


def test_run_message_and_tool_call_belong_together(bob: Any) -> None:
    gateway_document()
    answer = ask("ERR_TIMEOUT", bob, channel="api")
    run = Run.objects.get()
    assert (run.status, run.lookups, run.channel, run.model) == (Run.Status.FINISHED, 1, "api", "")
    assert run.finished_at is not None
    row = ToolInvocation.objects.get()
    assert (row.run_id, row.session_id, row.channel) == (str(run.pk), str(run.session_id), "api")
    assert row.principal == f"user:{bob.pk}"
    roles = Message.objects.filter(session=run.session).order_by("created_at").values_list("role", flat=True)
    assert list(roles) == ["user", "assistant"]
    assert answer.message.run_id == run.pk
    assert ChatSession.objects.get().title == "ERR_TIMEOUT"


def test_the_question_is_kept_and_the_run_marked_failed_when_the_work_breaks(bob: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("agents.answer.call_tool", broken)
    with pytest.raises(ZeroDivisionError):
        ask("ERR_TIMEOUT", bob)
    run = Run.objects.get()
    assert (run.status, run.error_code) == (Run.Status.FAILED, "internal_error")
    assert [message.text for message in Message.objects.all()] == ["ERR_TIMEOUT"]


def test_a_vector_store_that_is_down_is_named_and_keywords_still_answer(bob: Any, monkeypatch: Any) -> None:
    gateway_document()
    monkeypatch.setattr(type(get_vector_store()), "search", _down)
    missed = ask("how long does the bank take", bob).as_dict()
    assert "Search by meaning is down" in missed["answer"]
    assert "Nothing on this" not in missed["answer"]
    assert ask("ERR_TIMEOUT", bob).as_dict()["citations"]


def _down(*_: Any, **__: Any) -> Any:
    from clients.interfaces import ClientError

    raise ClientError("the store is down", code="store_unavailable", retryable=True)


# ---- Who may go on with a conversation -------------------------------------------------------------------------------
def test_another_persons_conversation_does_not_exist(bob: Any, charlie: Any) -> None:
    session_id = str(ask("ERR_TIMEOUT", bob).run.session_id)
    with pytest.raises(SessionNotFoundError):
        ask("ERR_TIMEOUT", charlie, session_id=session_id)
    assert Run.objects.count() == 1


@pytest.mark.parametrize("session_id", ["nonsense", "6f2c0f3a-1111-4222-8333-444455556666"])
def test_an_unknown_conversation_does_not_exist(session_id: str, bob: Any) -> None:
    with pytest.raises(SessionNotFoundError):
        ask("ERR_TIMEOUT", bob, session_id=session_id)
    assert not Message.objects.exists()


def test_a_conversation_deleted_meanwhile_takes_its_answer_with_it(bob: Any, monkeypatch: Any) -> None:
    gateway_document()
    real = call_tool

    def delete_first(*arguments: Any) -> Any:
        ChatSession.objects.all().delete()
        return real(*arguments)

    monkeypatch.setattr("agents.answer.call_tool", delete_first)
    with pytest.raises(SessionNotFoundError):
        ask("ERR_TIMEOUT", bob)
    assert not Message.objects.exists()


def test_deleting_a_conversation_forgets_what_its_runs_were_given(bob: Any) -> None:
    gateway_document()
    run = ask("ERR_TIMEOUT", bob).run
    key = MemoryScope(f"user:{bob.pk}", str(run.pk)).key
    assert get_session_memory().marked(key)
    delete_session(session_id=run.session_id, principal=f"user:{bob.pk}")
    assert not get_session_memory().marked(key)
    assert not Run.objects.exists()


# ---- What may be asked -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "empty_message"),
        (" \n\t", "empty_message"),
        ("a\x00b", "invalid_message"),
        ("half \ud83d", "invalid_message"),
        ("x" * (MAX_MESSAGE + 1), "message_too_long"),
        (None, "invalid_message"),
        (["ERR"], "invalid_message"),
    ],
)
def test_what_is_no_question_is_refused_before_anything_is_kept(message: object, code: str, bob: Any) -> None:
    with pytest.raises(QuestionRefusedError) as refusal:
        ask(message, bob)
    assert refusal.value.code == code
    assert not ChatSession.objects.exists()


def test_a_long_question_is_looked_up_by_its_beginning_and_its_end(bob: Any) -> None:
    gateway_document()
    question = "why does this happen? " + "log line\n" * 500 + " ERR_TIMEOUT"
    answer = ask(question, bob)
    query = answer.message.lookups[0]["query"]
    assert len(query) <= MAX_QUERY
    assert query.startswith("why does this happen?")
    assert query.endswith("ERR_TIMEOUT")
    assert answer.message.citations
    assert answer.run.question == question


def test_a_question_of_just_the_limit_is_looked_up_whole() -> None:
    assert shortened("x" * MAX_QUERY) == "x" * MAX_QUERY


@pytest.mark.parametrize(
    ("question", "reader", "language"),
    [
        ("ERR_TIMEOUT 怎么办", "en", "zh"),
        ("what does this mean", "zh-hans", "en"),
        ("ERR_TIMEOUT", "zh-hans", "zh"),
        ("ERR_TIMEOUT", "en", "en"),
    ],
)
def test_the_answer_follows_the_language_of_the_question(question: str, reader: str, language: str) -> None:
    with translation.override(reader):
        assert language_of(question) == language
