"""Answers that come in a stream: put together, cut, late, broken, and what is asked for again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from clients import llm as llm_module
from clients import llm_wire
from clients.interfaces import ClientError, ClientTimeout, LLMMessage
from clients.llm import OpenAILLM
from clients.llm_stream import without_thoughts
from tests.clients.llm_server import LLMServer, Reply, chunks_of, completion, events, llm_server, streamed

__all__ = ["llm_server"]

QUESTION = [LLMMessage("user", "支付网关超时怎么办？")]
WHOLE = chunks_of(completion("先查看 [1]，再 refund."))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_module, "FIRST_WAIT", 0.01)


@pytest.fixture
def llm(llm_server: LLMServer) -> Iterator[OpenAILLM]:
    with closing(OpenAILLM("test-model", llm_server.base_url, "key", timeout=20)) as made:
        yield made


def impatient(server: LLMServer, **patience: float) -> OpenAILLM:
    return OpenAILLM("test-model", server.base_url, "key", **{"timeout": 20, **patience})


def failure(llm: OpenAILLM) -> ClientError:
    with pytest.raises(ClientError) as caught:
        llm.complete(QUESTION)
    return caught.value


def with_text(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


def test_a_stream_is_put_together_with_its_usage(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(streamed(*WHOLE))
    answer = llm.complete(QUESTION)
    assert (answer.text, answer.model, answer.finish_reason) == ("先查看 [1]，再 refund.", "served-model", "stop")
    assert dict(answer.usage) == {"prompt": 12, "completion": 5}


@pytest.mark.parametrize(
    "body",
    [
        events([": keep-alive", *WHOLE[:2], ": still here", *WHOLE[2:]]),
        events(WHOLE).replace(b"\n", b"\r\n"),
        events(WHOLE).replace(b"\n\n", b"\n"),
        events(WHOLE).replace(b"data: ", b"data:"),
        events(WHOLE).replace(b"data: {", b"event: chunk\nid: 7\ndata: {"),
        b"\n\n" + events(WHOLE),
        events(WHOLE, done=False),
        events(WHOLE, done=False).rstrip(b"\n"),
        events([json.dumps(chunk, indent=1).replace("{", "data: {", 1).replace("\n", "\ndata: ") for chunk in WHOLE]),
        events([{"choices": [], "prompt_filter_results": []}, *WHOLE]),
        events([{**chunk, "choices": chunk["choices"] or None} for chunk in WHOLE]),
    ],
    ids=[
        "comments",
        "line ends of two characters",
        "no empty lines",
        "no spaces",
        "event names",
        "empty lines first",
        "no DONE",
        "no end of line",
        "events of several lines",
        "a first chunk without choices",
        "choices that are null",
    ],
)
def test_streams_that_are_written_otherwise_say_the_same(llm_server: LLMServer, llm: OpenAILLM, body: bytes) -> None:
    llm_server.reply(Reply(body))
    answer = llm.complete(QUESTION)
    assert (answer.text, answer.finish_reason) == ("先查看 [1]，再 refund.", "stop")
    assert dict(answer.usage) == {"prompt": 12, "completion": 5}


def test_a_stream_in_single_bytes_is_read_the_same(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(streamed(*WHOLE, drip=0.0001))
    assert llm.complete(QUESTION).text == "先查看 [1]，再 refund."


def test_the_reason_for_the_end_is_passed_on(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(streamed(with_text("Half an ans", finish_reason="length")))
    assert llm.complete(QUESTION).finish_reason == "length"


@pytest.mark.parametrize(
    "chunks",
    [
        [{"choices": [{"delta": {"reasoning_content": "Secretly."}}]}, *WHOLE],
        [{"choices": [{"delta": {"reasoning": "Secretly."}}]}, *WHOLE],
        [with_text("<think>Secre"), with_text("tly.</th"), with_text("ink>\n\n"), *WHOLE],
        [with_text("\n<THINK>Secretly, of <b>.</THINK>"), *WHOLE],
        [with_text("Secretly.\n</think>\n\n"), *WHOLE],
    ],
    ids=["a field", "another field", "a block in pieces", "a block in capitals", "a block without its begin"],
)
def test_thoughts_are_no_part_of_the_answer(llm_server: LLMServer, llm: OpenAILLM, chunks: list[object]) -> None:
    llm_server.reply(streamed(*chunks))
    assert llm.complete(QUESTION).text == "先查看 [1]，再 refund."


@pytest.mark.parametrize("said", ["Write `<think>` and `</think>` around it.", "  indented", "a </think> b", "<thin"])
def test_an_answer_about_thoughts_is_left_as_it_is(said: str) -> None:
    assert without_thoughts(said) == said


def test_thoughts_without_an_end_are_no_answer(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(streamed(with_text("<think>Long thoughts", finish_reason="length")))
    error = failure(llm)
    assert error.code == "llm_empty"
    assert "limit of tokens" in error.hint


@pytest.mark.parametrize(
    "chunks", [[], [{"choices": []}], [{"choices": [], "usage": {"prompt_tokens": 1}}], [{"choices": [{"delta": {}}]}]]
)
def test_a_stream_without_text_is_empty(llm_server: LLMServer, llm: OpenAILLM, chunks: list[object]) -> None:
    llm_server.reply(streamed(*chunks))
    assert failure(llm).code == "llm_empty"


@pytest.mark.parametrize(
    "reply",
    [
        streamed(*WHOLE[:3], done=False),
        streamed(*WHOLE, cut=300),
        Reply(events(WHOLE[:3], done=False) + b'data: {"choices": [{"delta": {"cont'),
        streamed(with_text("Half"), with_text("", finish_reason="insufficient_system_resource")),
    ],
    ids=["a clean end too early", "a lost connection", "half an event", "a model that gave up"],
)
def test_a_stream_that_is_cut_is_an_error_and_not_asked_for_again(
    llm_server: LLMServer, llm: OpenAILLM, reply: Reply
) -> None:
    llm_server.reply(reply)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_error", True)
    assert "cut off" in str(error)
    assert len(llm_server.requests) == 1
    assert llm.health().status == "degraded"


def test_comments_are_no_byte_of_an_answer(llm_server: LLMServer, llm: OpenAILLM) -> None:
    waiting = events([": processing", ": processing", *WHOLE])
    llm_server.reply(Reply(waiting, cut=20))
    llm_server.reply(Reply(waiting))
    assert llm.complete(QUESTION).text == "先查看 [1]，再 refund."
    assert len(llm_server.requests) == 2


def test_usage_counts_wherever_it_stands(llm_server: LLMServer, llm: OpenAILLM) -> None:
    used = {"prompt_tokens": 3, "completion_tokens": True}
    llm_server.reply(
        streamed({**with_text("Yes."), "usage": used}, {**with_text("", finish_reason="stop"), "usage": None}),
        streamed(with_text("Yes.", usage=used), with_text("", finish_reason="stop")),
    )
    assert [dict(llm.complete(QUESTION).usage) for _ in range(2)] == [{"prompt": 3}] * 2


def test_an_answer_that_was_whole_before_the_connection_was_lost_counts(llm_server: LLMServer, llm: OpenAILLM) -> None:
    lost_end = streamed(*WHOLE, cut=len(events(WHOLE)) - len(b"data: [DONE]\n\n"))
    llm_server.reply(lost_end)
    assert llm.complete(QUESTION).text == "先查看 [1]，再 refund."


def test_a_connection_that_does_not_end_after_the_last_words_is_not_waited_for(llm_server: LLMServer) -> None:
    llm_server.reply(streamed(*WHOLE, hang_after=len(events(WHOLE))))
    llm = impatient(llm_server, idle_timeout=15)
    began = time.monotonic()
    assert llm.complete(QUESTION).text == "先查看 [1]，再 refund."
    assert time.monotonic() - began < 10


def test_silence_before_the_first_byte_is_a_time_out_that_says_so(llm_server: LLMServer) -> None:
    for reply in (Reply(hang=True), streamed(*WHOLE, hang_after=0)):
        llm_server.requests.clear()
        llm_server.reply(reply)
        error = failure(impatient(llm_server, first_byte_timeout=0.2))
        assert isinstance(error, ClientTimeout)
        assert error.code == "llm_timeout"
        assert len(llm_server.requests) == 1
    assert "did not begin its answer within 0.2 seconds" in str(error)


def test_silence_in_the_middle_is_a_time_out_that_says_so(llm_server: LLMServer) -> None:
    llm_server.reply(streamed(*WHOLE, hang_after=300))
    error = failure(impatient(llm_server, first_byte_timeout=15, idle_timeout=0.2))
    assert isinstance(error, ClientTimeout)
    assert "fell silent for 0.2 seconds in the middle" in str(error)
    assert len(llm_server.requests) == 1


def test_the_first_byte_has_a_longer_time_than_the_next(llm_server: LLMServer) -> None:
    llm_server.reply(streamed(*WHOLE, pause=0.6))  # the headers are there at once
    assert impatient(llm_server, first_byte_timeout=15, idle_timeout=0.3).complete(QUESTION).text


def test_time_between_bytes_is_not_counted_as_time_to_the_first(llm_server: LLMServer) -> None:
    llm_server.reply(streamed(with_text("Yes."), with_text("", finish_reason="stop"), drip=0.01))
    assert impatient(llm_server, first_byte_timeout=1, idle_timeout=15).complete(QUESTION).text == "Yes."


def test_a_stream_that_never_ends_ends_at_the_time_limit(llm_server: LLMServer) -> None:
    llm_server.reply(Reply(b": keep-alive\n" * 2_000, drip=0.02))
    error = failure(impatient(llm_server, timeout=0.4))
    assert isinstance(error, ClientTimeout)
    assert "did not finish its answer within 0.4 seconds" in str(error)


def test_no_watch_outlives_its_answer(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(streamed(*WHOLE), streamed(*WHOLE, cut=300))
    llm.complete(QUESTION)
    failure(llm)
    assert [thread for thread in threading.enumerate() if thread.name == "llm-watch"] == []


@pytest.mark.parametrize(
    ("error", "code", "retryable", "requests"),
    [
        ({"error": {"message": "overloaded", "code": 502}}, "llm_error", True, 3),
        ({"error": {"message": "slow down", "code": "429"}}, "llm_rate_limited", True, 3),
        ({"error": {"message": "overloaded"}}, "llm_error", True, 3),
        ({"error": "overloaded"}, "llm_error", True, 3),
        ({"error": {"message": "no such model", "code": 404}}, "llm_error", False, 1),
        ({"object": "error", "message": "too long", "code": 400}, "llm_error", False, 1),
        ({"error": {"message": "bad key", "code": 401}}, "llm_refused_key", False, 1),
    ],
)
def test_an_error_in_the_stream_is_told_as_one_and_tried_again_where_that_helps(
    llm_server: LLMServer, llm: OpenAILLM, error: dict[str, Any], code: str, retryable: bool, requests: int
) -> None:
    llm_server.reply(streamed(": processing", error))
    told = failure(llm)
    assert (told.code, told.retryable) == (code, retryable)
    assert len(llm_server.requests) == requests
    llm_server.requests.clear()
    llm_server.reply(streamed(*WHOLE[:3], error))
    assert failure(llm).code == code
    assert len(llm_server.requests) == 1  # a part of the answer had come


def test_an_error_in_a_body_that_says_all_is_well_is_told(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({"error": {"message": "said with a 200"}})
    error = failure(llm)
    assert error.code == "llm_error"
    assert "said with a 200" in str(error)


@pytest.mark.parametrize("event", ["data: <html>", "data: [1]", 'data: {"a": ', "data: " + "[" * 50_000])
def test_an_event_that_is_no_object_is_told(llm_server: LLMServer, llm: OpenAILLM, event: str) -> None:
    llm_server.reply(streamed(*WHOLE[:2], event))
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_error", True)
    assert len(llm_server.requests) == 1


def test_a_stream_without_end_is_not_read_on(
    llm_server: LLMServer, llm: OpenAILLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm_wire, "LARGEST_ANSWER", 1_000)
    llm_server.reply(streamed(*[{"choices": [{"delta": {"reasoning_content": "x" * 300}}]}] * 9, *WHOLE))
    assert "longer than 1000 characters" in str(failure(llm))
    llm_server.reply(streamed("data: " + "x" * 3_000))
    assert "larger than 1000 bytes" in str(failure(llm))
    monkeypatch.setattr(llm_wire, "LARGEST_STREAM", 2_000)
    llm_server.reply(streamed(*[with_text("x")] * 99))
    assert "larger than 2000 bytes" in str(failure(llm))


def test_halves_of_a_character_that_meet_are_joined_and_a_lone_one_is_replaced(
    llm_server: LLMServer, llm: OpenAILLM
) -> None:
    llm_server.reply(streamed(*chunks_of(completion("ok \ud83d")), *chunks_of(completion("\ude00, \udc00."))))
    assert llm.complete(QUESTION).text == "ok \U0001f600, \ufffd."


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "bad \ud800 \x00 \u202eword"}}, 400),
        ({"error": {"message": "bad \ud800 \x00 \u202eword"}}, 200),
        (completion(None, refusal="bad \ud800 \x00 \u202eword"), 200),
    ],
)
def test_what_an_endpoint_says_of_its_trouble_can_be_stored_and_shown(
    llm_server: LLMServer, llm: OpenAILLM, body: dict[str, Any], status: int
) -> None:
    for _ in range(3):
        llm_server.json(body, status)
    with pytest.raises(ClientError) as caught:
        llm.complete(QUESTION)
    assert "bad" in str(caught.value)
    assert "word" in str(caught.value)
    assert not {"\ud800", "\x00", "\u202e"} & set(str(caught.value))


def test_a_models_name_is_one_short_line(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.json({**completion("fine"), "model": "m\ud800\x00\n" + "x" * 100_000})
    name = llm.complete(QUESTION).model
    assert name.startswith("m\ufffd xxx")
    assert len(name) == 128
