"""Providers that the scripted server can play: what each refuses, in the words that it is known for.

llm_server.reply(deepseek('{"title": "x"}'))
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.clients.llm_server import Reply, Request, as_asked, completion

Answer = Callable[[Request], Reply]


def refusal(message: str, status: int = 400, **more: Any) -> Reply:
    """An error as OpenAI gives it."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}
    return Reply(json.dumps(body).encode(), status, {"Content-Type": "application/json"})


def refusing(says: Callable[[dict[str, Any]], Reply | None], text: str) -> Answer:
    """An endpoint that refuses what ``says`` finds wrong with a request's body, and else answers ``text``."""

    def answer(request: Request) -> Reply:
        return says(request.body) or as_asked(completion(text))(request)

    return answer


def openai_reasoning(text: str) -> Answer:
    """OpenAI's newer models: another name for the limit, no temperature."""

    def says(body: dict[str, Any]) -> Reply | None:
        if "max_tokens" in body:
            said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
            return refusal(said, param="max_tokens", code="unsupported_parameter")
        if "temperature" in body:
            said = "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is."
            return refusal(said, param="temperature", code="unsupported_value")
        return None

    return refusing(says, text)


def deepseek(text: str) -> Answer:
    """No json_schema; json_object only where the prompt has the word."""

    def says(body: dict[str, Any]) -> Reply | None:
        asked = body.get("response_format", {}).get("type")
        if asked == "json_schema":
            return refusal("This response_format type is unavailable now", code="invalid_request_error")
        prompt = json.dumps(body["messages"])
        if asked == "json_object" and "json" not in prompt.lower():
            return refusal("Prompt must contain the word 'json' in some form to use 'response_format'")
        return None

    return refusing(says, text)


def qwen_thinking(text: str) -> Answer:
    """Models that think, at DashScope: only streamed."""

    def says(body: dict[str, Any]) -> Reply | None:
        if not body.get("stream"):
            return refusal("parameter.enable_thinking must be set to false for non-streaming calls")
        return None

    return refusing(says, text)


def no_streaming(text: str) -> Answer:
    """A gateway that forwards whole answers only."""

    def says(body: dict[str, Any]) -> Reply | None:
        return refusal("Streaming is not supported by this endpoint.") if body.get("stream") else None

    return refusing(says, text)


def strict_about_fields(text: str) -> Answer:
    """An endpoint that validates the request as pydantic does, and does not know ``stream_options``."""

    def says(body: dict[str, Any]) -> Reply | None:
        if "stream_options" not in body:
            return None
        detail = [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs not permitted"}]
        return Reply(json.dumps({"detail": detail}).encode(), 422, {"Content-Type": "application/json"})

    return refusing(says, text)


def no_system_role(text: str) -> Answer:
    """vLLM with the chat template of a model that knows no system message."""

    def says(body: dict[str, Any]) -> Reply | None:
        if any(message["role"] == "system" for message in body["messages"]):
            return refusal("System role not supported")
        return None

    return refusing(says, text)


def text_only(text: str) -> Answer:
    """An endpoint that knows no response_format at all, and does not say what it means."""

    def says(body: dict[str, Any]) -> Reply | None:
        return refusal("unsupported request") if "response_format" in body else None

    return refusing(says, text)
