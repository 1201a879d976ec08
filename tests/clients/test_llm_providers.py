"""What endpoints refuse: learnt from their refusals, remembered, and never mistaken for something else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from clients.interfaces import ClientError, FormatRefused, LLMMessage
from clients.llm import OpenAILLM
from clients.llm_providers import Refusal, Takes, known_of, learnt, refuses_format
from tests.clients import llm_personas as personas
from tests.clients.llm_server import LLMServer, Reply, chunks_of, completion, llm_server, streamed

__all__ = ["llm_server"]

QUESTION = [LLMMessage("system", "Answer shortly."), LLMMessage("user", "Why?")]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}


@pytest.fixture
def llm(llm_server: LLMServer) -> Iterator[OpenAILLM]:
    with closing(OpenAILLM("test-model", llm_server.base_url, "key", timeout=20)) as made:
        yield made


@pytest.mark.parametrize(
    ("persona", "refused", "sent", "left_out"),
    [
        (personas.openai_reasoning, 2, {"max_completion_tokens": 50, "stream": True}, ("max_tokens", "temperature")),
        (personas.no_streaming, 1, {"max_tokens": 50}, ("stream", "stream_options")),
        (personas.strict_about_fields, 1, {"stream": True, "max_tokens": 50}, ("stream_options",)),
        (personas.no_system_role, 1, {"messages": [{"role": "user", "content": "Answer shortly.\n\nWhy?"}]}, ()),
        (personas.qwen_thinking, 0, {"stream": True}, ()),
    ],
)
def test_a_provider_is_asked_as_it_takes_it_from_its_first_refusal_on(
    llm_server: LLMServer, llm: OpenAILLM, persona: Any, refused: int, sent: dict[str, Any], left_out: tuple[str, ...]
) -> None:
    llm_server.reply(persona("Because."))
    for requests in (refused + 1, refused + 2):
        assert llm.complete(QUESTION, max_tokens=50).text == "Because."
        assert len(llm_server.requests) == requests
    body = llm_server.requests[-1].body
    assert {name: body.get(name) for name in sent} == sent
    assert not set(left_out) & set(body)
    assert llm.health().status == "ok"


def test_an_endpoint_that_ignores_the_stream_has_the_whole_time_for_its_next_answer(llm_server: LLMServer) -> None:
    llm = OpenAILLM("test-model", llm_server.base_url, "key", timeout=20, first_byte_timeout=0.3)
    whole = json.dumps(completion("Because.")).encode()
    llm_server.reply(Reply(whole), Reply(whole, pause=0.6))
    assert [llm.complete(QUESTION).text for _ in range(2)] == ["Because."] * 2
    assert ["stream" in request.body for request in llm_server.requests] == [True, False]


def test_an_endpoint_that_streams_unasked_is_read(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(personas.refusal("stream is not supported"))
    llm_server.reply(streamed(*chunks_of(completion("Because."))))
    assert llm.complete(QUESTION).text == "Because."


@pytest.mark.parametrize(
    "refusal",
    [
        {"message": "max_tokens is too large: 99. At most 50.", "param": "max_tokens", "code": "invalid_value"},
        {"message": "This model's maximum context length is 4096 tokens."},
        {"message": "Unsupported value in messages[0]", "param": "messages"},
        {"message": "The model is not available"},
    ],
)
def test_a_refusal_that_teaches_nothing_is_told_at_once(
    llm_server: LLMServer, llm: OpenAILLM, refusal: dict[str, Any]
) -> None:
    llm_server.reply(personas.refusal(**refusal))
    with pytest.raises(ClientError, match="answered 400") as caught:
        llm.complete(QUESTION)
    assert (caught.value.code, caught.value.retryable) == ("llm_error", False)
    assert len(llm_server.requests) == 1


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever(llm_server: LLMServer, llm: OpenAILLM) -> None:
    def all_named(request: Any) -> Reply:
        return personas.refusal(f"not supported: {', '.join(sorted(request.body))} and the system role")

    llm_server.reply(all_named)
    with pytest.raises(ClientError):
        llm.complete(QUESTION)
    assert len(llm_server.requests) == 7
    assert set(llm_server.requests[-1].body) == {"model", "messages"}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This response_format type is unavailable now"),
        (400, "This model does not support response format `json_schema`."),
        (400, "Invalid schema for response_format 'x': In context=(), 'additionalProperties' is required"),
        (422, "body.response_format.type: Input should be 'text' or 'json_object'"),
        (404, "No endpoints found that can handle the requested parameters."),
        (501, "structured outputs are not implemented"),
        (400, "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."),
        (400, "unsupported request"),
    ],
)
def test_a_refused_format_is_told_as_that(llm_server: LLMServer, llm: OpenAILLM, status: int, message: str) -> None:
    llm_server.reply(personas.refusal(message, status))
    with pytest.raises(FormatRefused):
        llm.complete(QUESTION, response_format=SCHEMA)
    assert len(llm_server.requests) == 1
    assert llm_server.requests[0].body["response_format"] == SCHEMA
    assert llm.health().status == "ok"
    with pytest.raises(ClientError) as caught:
        llm.complete(QUESTION)
    assert not isinstance(caught.value, FormatRefused)


@pytest.mark.parametrize(
    ("status", "message", "param"),
    [
        (404, "The model `x` does not exist or is not available", ""),
        (400, "This model's maximum context length is 4096 tokens.", ""),
        (400, "unsupported value", "messages"),
        (401, "unsupported key", ""),
        (429, "response_format requests are limited", ""),
        (500, "grammar failed", ""),
    ],
)
def test_another_refusal_is_not_blamed_on_the_format(status: int, message: str, param: str) -> None:
    assert not refuses_format(Refusal(status, param, "", message), {"response_format": SCHEMA})


@pytest.mark.parametrize("page", [b"<html><title>400 Bad Request</title></html>", b""])
def test_a_proxy_that_gives_no_reason_is_asked_without_the_format(
    llm_server: LLMServer, llm: OpenAILLM, page: bytes
) -> None:
    llm_server.reply(Reply(page, 400, {"Content-Type": "text/html"}))
    with pytest.raises(FormatRefused):
        llm.complete(QUESTION, response_format=SCHEMA)
    with pytest.raises(ClientError, match="answered 400") as caught:
        llm.complete(QUESTION)
    assert not isinstance(caught.value, FormatRefused)
    assert len(llm_server.requests) == 2


def test_each_lesson_is_about_what_was_sent() -> None:
    refusal = Refusal(400, "", "", "temperature and streaming are not supported")
    assert learnt(Takes(), refusal, {"stream": True}) == Takes(streaming="refused")
    assert learnt(Takes(), refusal, {"temperature": 0}) == Takes(temperature=False)
    assert learnt(Takes(), refusal, {"max_tokens": 5}) is None
    not_enabled = Refusal(400, "", "", "Developer instruction is not enabled for models/gemma-3-27b-it")
    assert learnt(Takes(), not_enabled, {}) == Takes(system=False)
    assert learnt(Takes(streaming="required"), refusal, {"stream": True}) is None
    assert learnt(Takes(), Refusal(500, "temperature", "", "no"), {"temperature": 0}) is None


@pytest.mark.parametrize(
    ("base_url", "model", "expected"),
    [
        ("https://api.deepseek.com/v1", "deepseek-chat", Takes(answer_format="json_object")),
        ("https://API.DeepSeek.com", "deepseek-reasoner", Takes(answer_format="json_object")),
        ("https://api.deepseek.com.example.org/v1", "deepseek-chat", Takes()),
        ("https://myapi.deepseek.com/v1", "deepseek-chat", Takes()),
        ("http://localhost:11434/v1", "qwen3", Takes()),
        ("not an address", "", Takes()),
    ],
)
def test_what_is_known_goes_by_the_host(base_url: str, model: str, expected: Takes) -> None:
    assert known_of(base_url, model) == expected


def test_what_is_known_of_openai_and_dashscope() -> None:
    newer = known_of("https://api.openai.com/v1", "gpt-5-mini")
    assert (newer.limit_names[0], newer.temperature) == ("max_completion_tokens", False)
    assert known_of("https://api.openai.com/v1", "gpt-4o").temperature
    assert known_of("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3").streaming == "required"


def test_what_one_instance_learnt_is_its_own(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm.remember_format("text")
    assert llm.answer_format() == "text"
    assert OpenAILLM("test-model", llm_server.base_url).answer_format() == "json_schema"
