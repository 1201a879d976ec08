"""The chat model's client against a real HTTP server: answers, refusals, outages, and what must not be told."""

from __future__ import annotations

import email.utils
import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from clients import llm as llm_module
from clients import llm_errors, llm_wire
from clients.interfaces import ClientError, ClientTimeout, LLMMessage
from clients.llm import NoLLM, OpenAILLM
from tests.clients.llm_server import LLMServer, Reply, Request, completion, llm_server

__all__ = ["llm_server"]  # the fixture

KEY = "sk-very-secret-key"
QUESTION = [LLMMessage("system", "Answer shortly."), LLMMessage("user", "支付网关超时怎么办？")]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_module, "FIRST_WAIT", 0.01)


@pytest.fixture
def llm(llm_server: LLMServer) -> Iterator[OpenAILLM]:
    with closing(OpenAILLM("test-model", llm_server.base_url, KEY, timeout=10)) as made:
        yield made


def failure(llm: OpenAILLM) -> ClientError:
    """What a question ends in, when it must end in an error."""
    with pytest.raises(ClientError) as caught:
        llm.complete(QUESTION)
    assert KEY not in f"{caught.value} {caught.value.hint}"
    assert "\n" not in str(caught.value)
    return caught.value


def test_an_answer_comes_back_with_its_usage(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say("先查看 [1]。")
    answer = llm.complete(QUESTION, temperature=0.0, max_tokens=77)
    assert (answer.text, answer.model, answer.finish_reason) == ("先查看 [1]。", "served-model", "stop")
    assert dict(answer.usage) == {"prompt": 12, "completion": 5}
    sent = llm_server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body["messages"] == [
        {"role": "system", "content": "Answer shortly."},
        {"role": "user", "content": "支付网关超时怎么办？"},
    ]
    assert (sent.body["model"], sent.body["temperature"], sent.body["max_tokens"]) == ("test-model", 0.0, 77)
    assert (sent.body["stream"], sent.body["stream_options"]) == (True, {"include_usage": True})
    assert llm.configured
    assert llm.health().status == "ok"


def test_what_providers_leave_out_is_taken_as_empty(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({"choices": [{"message": {"content": "Yes."}}]})
    answer = llm.complete(QUESTION)
    assert (answer.text, answer.model, answer.finish_reason, dict(answer.usage)) == ("Yes.", "test-model", "", {})
    llm_server.json({**completion("No."), "usage": None})
    llm_server.json({**completion("No."), "usage": {"prompt_tokens": None, "completion_tokens": 3}})
    assert [dict(llm.complete(QUESTION).usage) for _ in range(2)] == [{}, {"completion": 3}]


def test_content_in_parts_is_joined_and_reasoning_is_left_out(llm_server: LLMServer, llm: OpenAILLM) -> None:
    parts = [{"type": "text", "text": "One, "}, {"type": "text", "text": "two."}]
    llm_server.json(completion(parts, reasoning_content="Secretly, three."))
    assert llm.complete(QUESTION).text == "One, two."


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_said_and_not_tried_again(llm_server: LLMServer, llm: OpenAILLM, status: int) -> None:
    llm_server.json({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_refused_key", False)
    assert "OPENAI_API_KEY" in error.hint
    assert len(llm_server.requests) == 1
    assert llm.health().status == "degraded"
    assert "OPENAI_API_KEY" in llm.health().hint


def test_a_rate_limit_is_waited_out(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({"error": {"message": "slow down"}}, 429, retry_after="0.05")
    llm_server.say("Now.")
    began = time.monotonic()
    assert llm.complete(QUESTION).text == "Now."
    assert time.monotonic() - began >= 0.05
    assert len(llm_server.requests) == 2


def test_a_rate_limit_that_lasts_is_told_after_three_tries(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({"error": {"message": "slow down"}}, 429)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_rate_limited", True)
    assert len(llm_server.requests) == 3


@pytest.mark.parametrize(
    "asked", ["3600", email.utils.formatdate(time.time() + 3600, usegmt=True)], ids=["in seconds", "as a date"]
)
def test_a_wait_beyond_our_patience_is_not_begun(llm_server: LLMServer, llm: OpenAILLM, asked: str) -> None:
    llm_server.json({"error": {"message": "come back later"}}, 429, retry_after=asked)
    assert failure(llm).code == "llm_rate_limited"
    assert len(llm_server.requests) == 1


@pytest.mark.parametrize("asked", ["Mon, 01 Jan 99999999999 00:00:00 GMT", "9" * 5_000 + "x", "nan", "-1"])
def test_a_wait_that_is_none_is_not_kept(llm_server: LLMServer, llm: OpenAILLM, asked: str) -> None:
    llm_server.json({"error": {"message": "slow down"}}, 429, retry_after=asked)
    llm_server.say("Now.")
    assert llm.complete(QUESTION).text == "Now."


def test_an_error_with_an_endless_code_is_told(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({"error": {"message": "no more", "code": "9" * 5_000}})
    assert "no more" in str(failure(llm))


def test_an_account_without_credit_is_not_tried_again(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, 429)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_rate_limited", False)
    assert "credit" in error.hint
    assert len(llm_server.requests) == 1


def test_a_fault_of_the_server_is_tried_again_and_then_told(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(Reply(b"<html>bad gateway</html>", 502), Reply(b"", 500))
    llm_server.say("Back.")
    assert llm.complete(QUESTION).text == "Back."
    assert len(llm_server.requests) == 3
    llm_server.json({"error": {"message": "out of memory"}}, 503)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_error", True)
    assert str(error).endswith("answered 503: out of memory")
    assert llm.health().status == "degraded"
    llm_server.say("Back again.")
    assert llm.complete(QUESTION).text == "Back again."
    assert llm.health().status == "ok"


@pytest.mark.parametrize(("status", "hint"), [(400, "did not take"), (404, "OPENAI_MODEL"), (422, "did not take")])
def test_a_refused_request_is_not_tried_again(llm_server: LLMServer, llm: OpenAILLM, status: int, hint: str) -> None:
    llm_server.json({"error": {"message": "no such thing"}}, status)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_error", False)
    assert "no such thing" in str(error)
    assert hint in error.hint
    assert len(llm_server.requests) == 1


def test_an_error_without_end_is_not_read_on(
    llm_server: LLMServer, llm: OpenAILLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm_server.reply(Reply(b"no " * 2_000_000, 400))
    assert failure(llm).code == "llm_error"
    monkeypatch.setattr(llm_errors, "LONGEST_ERROR", 0.2)
    llm_server.reply(Reply(b"no " * 90, 400, drip=0.05))
    assert 1 <= str(failure(llm)).count("no") < 60


def test_a_redirect_is_not_followed_with_the_key(llm_server: LLMServer, llm: OpenAILLM) -> None:
    other = LLMServer()
    try:
        other.say("Give me your key.")
        llm_server.reply(Reply(b"", 307, {"Location": f"{other.base_url}/chat/completions"}))
        error = failure(llm)
        assert error.code == "llm_error"
        assert "redirect" in error.hint
        assert other.requests == []
    finally:
        other.stop()


def test_a_model_that_says_nothing_is_a_time_out_and_not_asked_again(llm_server: LLMServer) -> None:
    llm_server.reply(Reply(hang=True))
    error = failure(OpenAILLM("test-model", llm_server.base_url, KEY, timeout=0.3))
    assert isinstance(error, ClientTimeout)
    assert error.code == "llm_timeout"
    assert len(llm_server.requests) == 1


def test_an_answer_in_drips_ends_at_the_time_limit(llm_server: LLMServer) -> None:
    llm_server.reply(Reply(json.dumps(completion("x" * 500)).encode(), drip=0.05))
    assert isinstance(failure(OpenAILLM("test-model", llm_server.base_url, KEY, timeout=0.3)), ClientTimeout)


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>", b'{"choices": [', b"[]", b"null", b"\xff\xfe"])
def test_an_answer_that_is_no_json_object_is_told(llm_server: LLMServer, llm: OpenAILLM, body: bytes) -> None:
    llm_server.reply(Reply(body))
    error = failure(llm)
    assert error.code == "llm_error"
    assert "OPENAI_BASE_URL" in error.hint


def test_an_answer_without_end_is_not_read_on(
    llm_server: LLMServer, llm: OpenAILLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm_wire, "LARGEST_ANSWER", 1_000)
    llm_server.reply(Reply(json.dumps(completion("x" * 2_000)).encode()))
    assert "larger than 1000 bytes" in str(failure(llm))


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        completion(None),
        completion(""),
        completion(" \n"),
        completion(None, reasoning_content="I thought much and said nothing."),
        completion(None, tool_calls=[{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
    ],
)
def test_an_answer_without_text_is_empty(llm_server: LLMServer, llm: OpenAILLM, body: dict[str, object]) -> None:
    llm_server.json(body)
    assert failure(llm).code == "llm_empty"
    assert len(llm_server.requests) == 1
    assert llm.health().status == "ok"


def test_a_refusal_says_what_the_model_said(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json(completion(None, refusal="I can't help with that."))
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_empty", False)
    assert "I can't help with that." in str(error)


def test_a_cut_connection_is_tried_again_and_then_told(llm_server: LLMServer, llm: OpenAILLM) -> None:
    whole = json.dumps(completion("Whole.")).encode()
    llm_server.reply(Reply(whole, cut=0), Reply(whole, cut=0))
    llm_server.say("Whole.")
    assert llm.complete(QUESTION).text == "Whole."
    llm_server.reply(Reply(whole, cut=0))
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_unreachable", True)
    assert len(llm_server.requests) == 6


def test_an_answer_that_is_cut_after_its_first_byte_is_not_asked_for_again(
    llm_server: LLMServer, llm: OpenAILLM
) -> None:
    llm_server.reply(Reply(json.dumps(completion("Whole.")).encode(), cut=20))
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_error", True)
    assert "cut off" in str(error)
    assert len(llm_server.requests) == 1


def test_nobody_at_the_address_is_said_without_the_password() -> None:
    error = failure(OpenAILLM("test-model", "http://someone:s3cret@127.0.0.1:1/v1", KEY))
    assert (error.code, error.retryable) == ("llm_unreachable", True)
    assert "***@127.0.0.1:1" in str(error)
    assert "s3cret" not in f"{error} {error.hint}"


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "ftp://127.0.0.1/v1"])
def test_an_address_that_is_none_is_said(address: str) -> None:
    error = failure(OpenAILLM("test-model", address, KEY))
    assert error.code == "llm_unreachable"
    assert "http://" in error.hint


def test_settings_that_a_model_refuses_are_spelled_otherwise_from_then_on(
    llm_server: LLMServer, llm: OpenAILLM
) -> None:
    def picky(request: Request) -> Reply:
        for name in ("max_tokens", "temperature"):
            if name in request.body:
                said = {"error": {"message": f"Unsupported: {name}", "param": name, "code": "unsupported_parameter"}}
                return Reply(json.dumps(said).encode(), 400, {"Content-Type": "application/json"})
        return Reply(json.dumps(completion("Fine.")).encode())

    llm_server.reply(picky)
    assert llm.complete(QUESTION, max_tokens=50).text == "Fine."
    assert len(llm_server.requests) == 3
    assert llm_server.requests[-1].body["max_completion_tokens"] == 50
    llm.complete(QUESTION)
    assert len(llm_server.requests) == 4


def test_a_local_endpoint_needs_no_key(llm_server: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    llm_server.say("Free.")
    assert OpenAILLM("test-model", llm_server.base_url, "").complete(QUESTION).text == "Free."
    assert "environment" not in llm_server.requests[0].headers["authorization"]


def test_the_log_holds_neither_key_nor_question(
    llm_server: LLMServer, llm: OpenAILLM, caplog: pytest.LogCaptureFixture
) -> None:
    llm_server.json({"error": {"message": f"busy, {KEY}"}}, 500)
    llm_server.say("Done.")
    with caplog.at_level(logging.DEBUG):
        llm.complete(QUESTION)
    assert "trying again" in caplog.text
    assert KEY not in caplog.text
    assert "支付网关" not in caplog.text


def test_a_closed_client_connects_again(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say("One.")
    llm.complete(QUESTION)
    llm.close()
    llm.close()
    assert llm.complete(QUESTION).text == "One."


def test_a_site_without_a_model_is_whole_and_says_what_to_set() -> None:
    llm = NoLLM()
    with pytest.raises(ClientError) as caught:
        llm.complete(QUESTION)
    assert caught.value.code == "llm_not_configured"
    assert not llm.configured
    assert llm.health().status == "ok"
    for said in (caught.value.hint, llm.health().hint):
        assert all(name in said for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"))


@pytest.mark.parametrize(
    ("finish_reason", "named"),
    [("content_filter", "content filter"), ("length", "limit of tokens"), ("tool_calls", "called a tool")],
)
def test_an_empty_answer_says_why_where_the_endpoint_does(
    llm_server: LLMServer, finish_reason: str, named: str
) -> None:
    body = completion("")
    body["choices"][0]["finish_reason"] = finish_reason
    llm_server.json(body)
    with (
        closing(OpenAILLM("test-model", llm_server.base_url, "test-key")) as llm,
        pytest.raises(ClientError) as caught,
    ):
        llm.complete([LLMMessage("user", "Hello")])
    assert caught.value.code == "llm_empty"
    assert named in caught.value.hint
