"""The chat model: any OpenAI-compatible endpoint, or the stand-in of a site that has none."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import openai

from clients.interfaces import AnswerFormat, ClientError, Completion, FormatRefused, LLMMessage, PartHealth
from clients.llm_errors import TROUBLED, format_refused, from_any, not_set_up, refusal_of, retry_after, shorten_error
from clients.llm_providers import Takes, known_of, learnt, refuses_format, spelled
from clients.llm_stream import AnswerParts, SaidError, plain_line
from clients.llm_wire import CutOffError, LateError, Patience, Progress, UnreadableError, Watch, read_answer
from clients.masking import mask_credentials

logger = logging.getLogger(__name__)
for _name in ("httpx2", "httpcore2", "openai"):  # they would write addresses, headers and prompts to the log
    logging.getLogger(_name).setLevel(logging.WARNING)

DEFAULT_BASE_URL = "https://api.openai.com/v1"
RETRIES = 2
FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0


class NoLLM:
    """No model is configured: the chat shows passages instead, and says how to set one."""

    model = ""
    configured = False

    def complete(
        self,
        messages: Sequence[LLMMessage],
        *,
        temperature: float = 0.2,
        max_tokens: int = 1500,
        response_format: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Always raises ``ClientError`` (``llm_not_configured``)."""
        raise ClientError("No language model is configured.", code="llm_not_configured", hint=self.health().hint)

    def answer_format(self) -> AnswerFormat:
        """The plainest: nothing is ever asked."""
        return "text"

    def remember_format(self, works: AnswerFormat) -> None:
        """Nothing to remember."""

    def health(self) -> PartHealth:
        """Ok: a site without a model is whole, and the hint says how to set one."""
        return PartHealth("ok", "No language model: set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL to have one.")


class OpenAILLM:
    """A model behind an OpenAI-compatible ``/chat/completions``.

    ``base_url`` may be empty (OpenAI's own), ``api_key`` too (a local endpoint). Answers are streamed inside where the
    endpoint does that, so that silence is noticed: ``connect_timeout``, ``first_byte_timeout`` and ``idle_timeout``,
    all in seconds; ``timeout`` bounds one answer with all its retries. Connection errors, 429 and 5xx are tried at most
    twice more, honouring ``Retry-After``, and only while no byte of an answer has come. What the endpoint refuses
    (``clients.llm_providers``) is remembered as long as the instance lives. Proxies and certificates come from the
    usual variables (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``, …), which are read at the first request.
    """

    configured = True

    def __init__(
        self,
        model: str,
        base_url: str = "",
        api_key: str = "",
        *,
        timeout: float = 240.0,
        connect_timeout: float = 5.0,
        first_byte_timeout: float = 30.0,
        idle_timeout: float = 20.0,
    ) -> None:
        self.model = model
        self._address = base_url or DEFAULT_BASE_URL
        self._secret = api_key
        self._patience = Patience(connect_timeout, first_byte_timeout, idle_timeout, timeout)
        self._takes = known_of(self._address, model)
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()
        self._trouble: ClientError | None = None

    def complete(
        self,
        messages: Sequence[LLMMessage],
        *,
        temperature: float = 0.2,
        max_tokens: int = 1500,
        response_format: Mapping[str, Any] | None = None,
    ) -> Completion:
        """One whole answer; codes as in ``clients.interfaces.LLM``."""

        def sent_to(takes: Takes) -> dict[str, Any]:
            return spelled(
                takes,
                model=self.model,
                messages=messages,
                temperature=temperature,
                max_tokens=max_tokens,
                response_format=response_format,
            )

        try:
            completion = self._with_retries(sent_to, time.monotonic() + self._patience.total)
        except FormatRefused:  # says nothing about how the endpoint is
            raise
        except ClientError as error:
            self._trouble = error if error.code in TROUBLED else None
            raise
        self._trouble = None
        return completion

    def answer_format(self) -> AnswerFormat:
        """The strictest format that this endpoint is not known to refuse."""
        return self._takes.answer_format

    def remember_format(self, works: AnswerFormat) -> None:
        """Ask in this format from here on."""
        with self._lock:
            self._takes = replace(self._takes, answer_format=works)

    def health(self) -> PartHealth:
        """How the last answer went: ok, or degraded with its reason. Does not call the model."""
        trouble = self._trouble
        if trouble is None:
            return PartHealth("ok")
        return PartHealth("degraded", f"{trouble} {trouble.hint}".strip())

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _with_retries(self, sent_to: Callable[[Takes], dict[str, Any]], deadline: float) -> Completion:
        wait, tries = FIRST_WAIT, 0
        while True:
            takes, progress = self._takes, Progress()
            sent = sent_to(takes)
            try:
                return self._once(sent, deadline, progress)
            except (openai.OpenAIError, httpx2.HTTPError, SaidError, *_BROKEN) as error:
                if self._learns_from(error, takes, sent):
                    continue
                told, tries = self._told(error, sent), tries + 1
                wait = max(wait, retry_after(error))
                out_of_time = time.monotonic() + wait >= deadline
                in_vain = not told.retryable or progress.begun or _timed_out(error)
                if in_vain or tries > RETRIES or wait > LONGEST_WAIT or out_of_time:
                    raise told from error
                logger.info("language model: %s; trying again in %.1f s", told, wait)
                time.sleep(wait)
                wait *= 2

    def _once(self, sent: dict[str, Any], deadline: float, progress: Progress) -> Completion:
        began = time.monotonic()
        remaining = max(0.1, deadline - began)
        # Without a stream the first byte comes when all is written.
        first_byte = min(self._patience.first_byte, remaining) if "stream" in sent else remaining
        timeout = openai.Timeout(first_byte, connect=min(self._patience.connect, remaining))
        create: Any = self._connected().chat.completions.with_streaming_response.create
        with create(**sent, timeout=timeout) as response:
            raw: httpx2.Response = response.http_response
            with Watch(raw, self._patience, first_by=began + first_byte, deadline=deadline) as watch:
                parts, streamed = read_answer(raw, watch, progress)
        completion = _completion(parts, self.model)
        if "stream" in sent and not streamed:
            self._does_not_stream()
        return completion

    def _does_not_stream(self) -> None:
        """Asked to stream it gave one body: waiting for its first byte is waiting for the whole answer."""
        with self._lock:
            if self._takes.streaming == "taken":
                self._takes = replace(self._takes, streaming="refused")

    def _connected(self) -> openai.OpenAI:
        if not self._address.startswith(("http://", "https://")):
            raise ClientError(
                f"OPENAI_BASE_URL={mask_credentials(self._address)!r} is no address.",
                code="llm_unreachable",
                hint="It begins with http:// or https:// and mostly ends in /v1.",
            )
        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(
                    base_url=self._address,
                    api_key=self._secret or "not-needed",
                    max_retries=0,  # ours are bounded in time
                    http_client=_http_client(self._secret),
                )
            return self._client

    def _learns_from(self, error: Exception, takes: Takes, sent: Mapping[str, Any]) -> bool:
        """Whether the endpoint can be asked otherwise, which is remembered for the next requests."""
        refusal = refusal_of(error)
        lesson = learnt(takes, refusal, sent) if refusal is not None else None
        if lesson is None:
            return False
        with self._lock:
            if self._takes is takes:  # else another thread has learnt in the meantime, and its lesson is tried
                logger.info("language model: asked otherwise from here on: %s", lesson)
                self._takes = lesson
        return True

    def _told(self, error: Exception, sent: Mapping[str, Any]) -> ClientError:
        told = from_any(error, address=self._address, secret=self._secret)
        refusal = refusal_of(error)
        return format_refused(told) if refusal is not None and refuses_format(refusal, sent) else told


_BROKEN = (LateError, CutOffError, UnreadableError)


def _http_client(secret: str) -> httpx2.Client:
    try:
        # A redirect would carry the key away. Proxies and certificates are taken from the environment (trust_env).
        return openai.DefaultHttpxClient(
            follow_redirects=False, trust_env=True, event_hooks={"response": [shorten_error]}
        )
    except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
        raise not_set_up(error, secret) from error


def _timed_out(error: Exception) -> bool:
    """Whether the model was reached and let us wait: asking it again would only wait again."""
    if isinstance(error, openai.APITimeoutError):
        return not isinstance(error.__cause__, httpx2.ConnectTimeout)
    return isinstance(error, httpx2.TimeoutException | LateError)


def _completion(parts: AnswerParts, model: str) -> Completion:
    if not parts.has_choices:
        raise ClientError("The language model's answer has no choices.", code="llm_empty", retryable=True)
    text = parts.text
    if not text.strip():
        raise _nothing_said(parts.refusal, parts.finish_reason)
    return Completion(text=text, model=parts.model or model, finish_reason=parts.finish_reason, usage=dict(parts.usage))


_WHY_EMPTY = {
    "length": "Its limit of tokens was used up before it wrote an answer.",
    "content_filter": "The endpoint's content filter kept the answer back.",
    "tool_calls": "It called a tool although none was offered.",
}


def _nothing_said(refusal: str, reason: str) -> ClientError:
    if refusal.strip():
        said = plain_line(refusal, 300)
        return ClientError(f"The language model refused to answer: {said}", code="llm_empty")
    hint = _WHY_EMPTY.get(reason, "")
    return ClientError("The language model's answer is empty.", code="llm_empty", retryable=True, hint=hint)
