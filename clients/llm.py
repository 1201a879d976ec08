"""The chat model: any OpenAI-compatible endpoint, or the stand-in of a site that has none."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import openai

from clients.interfaces import ClientError, ClientTimeout, Completion, LLMMessage, PartHealth
from clients.llm_errors import TROUBLED, from_http, from_openai, retry_after
from clients.masking import mask_credentials

logger = logging.getLogger(__name__)
for _name in ("httpx2", "httpcore2", "openai"):  # they would write addresses, headers and prompts to the log
    logging.getLogger(_name).setLevel(logging.WARNING)

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CONNECT_TIMEOUT = 5.0
RETRIES = 2
FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0
LARGEST_ANSWER = 4 * 1024 * 1024


class NoLLM:
    """No model is configured: the chat shows passages instead, and says how to set one."""

    model = ""
    configured = False

    def complete(
        self, messages: Sequence[LLMMessage], *, temperature: float = 0.2, max_tokens: int = 1500
    ) -> Completion:
        """Always raises ``ClientError`` (``llm_not_configured``)."""
        raise ClientError("No language model is configured.", code="llm_not_configured", hint=self.health().hint)

    def health(self) -> PartHealth:
        """Ok: a site without a model is whole, and the hint says how to set one."""
        return PartHealth("ok", "No language model: set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL to have one.")


class OpenAILLM:
    """A model behind an OpenAI-compatible ``/chat/completions``.

    ``base_url`` may be empty (OpenAI's own), ``api_key`` too (a local endpoint). ``timeout`` in seconds bounds one
    answer with all its retries: connection errors, 429 and 5xx are tried at most twice more, honouring ``Retry-After``.
    """

    configured = True

    def __init__(self, model: str, base_url: str = "", api_key: str = "", *, timeout: float = 60.0) -> None:
        self.model = model
        self._address = base_url or DEFAULT_BASE_URL
        self._secret = api_key
        self._timeout = timeout
        self._client: openai.OpenAI | None = None
        self._refused_settings: frozenset[str] = frozenset()
        self._trouble: ClientError | None = None

    def complete(
        self, messages: Sequence[LLMMessage], *, temperature: float = 0.2, max_tokens: int = 1500
    ) -> Completion:
        """One answer, not streamed; codes as in ``clients.interfaces.LLM``."""
        deadline = time.monotonic() + self._timeout
        body = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        try:
            completion = self._with_retries(body, deadline)
        except ClientError as error:
            self._trouble = error if error.code in TROUBLED else None
            raise
        self._trouble = None
        return completion

    def health(self) -> PartHealth:
        """How the last answer went: ok, or degraded with its reason. Does not call the model."""
        trouble = self._trouble
        if trouble is None:
            return PartHealth("ok")
        return PartHealth("degraded", f"{trouble} {trouble.hint}".strip())

    def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _with_retries(self, body: Mapping[str, Any], deadline: float) -> Completion:
        wait, tries = FIRST_WAIT, 0
        while True:
            try:
                return self._once(body, deadline)
            except openai.BadRequestError as error:
                if not self._learns_from(error):
                    raise self._told(error) from error
            except (openai.OpenAIError, httpx2.HTTPError) as error:
                told, tries = self._told(error), tries + 1
                wait = max(wait, retry_after(error))
                out_of_time = time.monotonic() + wait >= deadline
                if not told.retryable or tries > RETRIES or wait > LONGEST_WAIT or out_of_time or _timed_out(error):
                    raise told from error
                logger.info("language model: %s; trying again in %.1f s", told, wait)
                time.sleep(wait)
                wait *= 2

    def _once(self, body: Mapping[str, Any], deadline: float) -> Completion:
        remaining = max(0.1, deadline - time.monotonic())
        timeout = openai.Timeout(remaining, connect=min(CONNECT_TIMEOUT, remaining))
        create: Any = self._connected().chat.completions.with_streaming_response.create
        with create(**self._spelled(body), timeout=timeout) as response:
            return self._read(_body_of(response, deadline))

    def _connected(self) -> openai.OpenAI:
        if not self._address.startswith(("http://", "https://")):
            raise ClientError(
                f"OPENAI_BASE_URL={mask_credentials(self._address)!r} is no address.",
                code="llm_unreachable",
                hint="It begins with http:// or https:// and mostly ends in /v1.",
            )
        if self._client is None:
            self._client = openai.OpenAI(
                base_url=self._address,
                api_key=self._secret or "not-needed",
                max_retries=0,  # ours are bounded in time
                http_client=openai.DefaultHttpxClient(follow_redirects=False),  # a redirect would carry the key away
            )
        return self._client

    def _spelled(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request as this endpoint takes it: newer models want another name for the limit, and no temperature."""
        sent = {name: value for name, value in body.items() if name not in self._refused_settings}
        if "max_tokens" in self._refused_settings:
            sent["max_completion_tokens"] = body["max_tokens"]
        return sent

    def _learns_from(self, error: openai.BadRequestError) -> bool:
        """Whether the endpoint refused a setting that can be sent otherwise; remembered for the next requests."""
        if error.param not in {"max_tokens", "temperature"} or error.param in self._refused_settings:
            return False
        self._refused_settings |= {error.param}
        return True

    def _told(self, error: Exception) -> ClientError:
        if isinstance(error, openai.OpenAIError):
            return from_openai(error, address=self._address, secret=self._secret)
        return from_http(error, address=self._address, secret=self._secret)

    def _read(self, raw: bytes) -> Completion:
        """The completion in an endpoint's JSON; what it lacks is taken as empty (providers differ)."""
        try:
            answer = json.loads(raw)
        except ValueError as error:
            raise _unreadable("it is not JSON") from error
        if not isinstance(answer, dict):
            raise _unreadable("it is not a JSON object")
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise ClientError("The language model's answer has no choices.", code="llm_empty", retryable=True)
        text = _text_of(message.get("content"))
        reason = str(choice.get("finish_reason") or "")
        if not text.strip():
            raise _nothing_said(message.get("refusal"), reason)
        return Completion(
            text=text, model=str(answer.get("model") or self.model), finish_reason=reason, usage=_usage_of(answer)
        )


def _timed_out(error: Exception) -> bool:
    """Whether the model was reached and let us wait: asking it again would only wait again."""
    if isinstance(error, openai.APITimeoutError):
        return not isinstance(error.__cause__, httpx2.ConnectTimeout)
    return isinstance(error, httpx2.TimeoutException)


def _body_of(response: Any, deadline: float) -> bytes:
    """The whole body, bounded in size and time: a read time-out alone never ends for a body that comes in drips."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise _unreadable(f"it is larger than {LARGEST_ANSWER} bytes")
        if time.monotonic() > deadline:
            raise ClientTimeout("The language model did not finish its answer in time.", code="llm_timeout")
    return bytes(body)


def _text_of(content: object) -> str:
    """A message's text: a string, or a list of text parts. Reasoning is in other fields, which are left alone."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


def _usage_of(answer: Mapping[str, Any]) -> dict[str, int]:
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return {}
    found = {"prompt": usage.get("prompt_tokens"), "completion": usage.get("completion_tokens")}
    return {name: value for name, value in found.items() if isinstance(value, int) and not isinstance(value, bool)}


def _nothing_said(refusal: object, reason: str) -> ClientError:
    if isinstance(refusal, str) and refusal.strip():
        return ClientError(f"The language model refused to answer: {refusal.strip()[:300]}", code="llm_empty")
    hint = "Its limit of tokens was used up before it wrote an answer." if reason == "length" else ""
    return ClientError("The language model's answer is empty.", code="llm_empty", retryable=True, hint=hint)


def _unreadable(why: str) -> ClientError:
    return ClientError(
        f"The language model's answer cannot be read: {why}.",
        code="llm_error",
        retryable=True,
        hint="Does OPENAI_BASE_URL name an OpenAI-compatible endpoint (mostly ending in /v1)?",
    )
