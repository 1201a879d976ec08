"""What endpoints take and refuse, as data: what is known of some hosts, and what an endpoint's own refusals teach.

Ollama, vLLM and llama.cpp take the defaults. What differs only in the answer (all tool calls with index 0, null ids,
thoughts in the text) needs no row here: ``llm_stream`` takes it from anyone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from clients.interfaces import AnswerFormat, LLMMessage

Streaming = Literal["taken", "required", "refused"]


@dataclass(frozen=True)
class Takes:
    """How one model at one endpoint wants to be asked.

    ``limit_names`` are the names for the limit of tokens that are left to try, best first (none: no limit is sent).
    ``system`` false: the system message goes into the first user message.
    """

    answer_format: AnswerFormat = "json_schema"
    streaming: Streaming = "taken"
    stream_options: bool = True
    limit_names: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    temperature: bool = True
    system: bool = True


@dataclass(frozen=True)
class _Known:
    """A row: hosts that are or end in ``host``, models that begin with one of ``models`` (empty: all)."""

    host: str
    takes: Takes
    models: tuple[str, ...] = ()


_OPENAI_LIMITS = ("max_completion_tokens", "max_tokens")
KNOWN: tuple[_Known, ...] = (
    _Known("api.openai.com", Takes(limit_names=_OPENAI_LIMITS, temperature=False), models=("o1", "o3", "o4", "gpt-5")),
    _Known("api.openai.com", Takes(limit_names=_OPENAI_LIMITS)),
    # It answers json_schema with "This response_format type is unavailable now".
    _Known("api.deepseek.com", Takes(answer_format="json_object")),
    # Models that think are refused there without streaming.
    _Known("dashscope.aliyuncs.com", Takes(answer_format="json_object", streaming="required")),
    _Known("dashscope-intl.aliyuncs.com", Takes(answer_format="json_object", streaming="required")),
)


@dataclass(frozen=True)
class Refusal:
    """An endpoint's refusal: HTTP status (0 where it has none), the parameter and code it names (or ""), its words."""

    status: int
    param: str
    code: str
    said: str


def spelled(
    takes: Takes,
    *,
    model: str,
    messages: Sequence[LLMMessage],
    temperature: float,
    max_tokens: int,
    response_format: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The request as this endpoint takes it, without what it refuses."""
    sent: dict[str, Any] = {"model": model, "messages": _spelled_messages(messages, takes)}
    if takes.temperature:
        sent["temperature"] = temperature
    if takes.limit_names:
        sent[takes.limit_names[0]] = max_tokens
    if response_format is not None:
        sent["response_format"] = dict(response_format)
    if takes.streaming != "refused":
        sent["stream"] = True
        if takes.stream_options:
            sent["stream_options"] = {"include_usage": True}
    return sent


def _spelled_messages(messages: Sequence[LLMMessage], takes: Takes) -> list[dict[str, str]]:
    written = [{"role": message.role, "content": message.content} for message in messages]
    if takes.system:
        return written
    rules = [message["content"] for message in written if message["role"] == "system"]
    others = [message for message in written if message["role"] != "system"]
    if not rules:
        return others
    if others and others[0]["role"] == "user":  # two user messages in a row are refused by the same templates
        rules.append(others.pop(0)["content"])
    return [{"role": "user", "content": "\n\n".join(rules)}, *others]


def known_of(base_url: str, model: str) -> Takes:
    """What is known before the first request; the defaults for an endpoint that is in no row."""
    host = (urlsplit(base_url).hostname or "").lower()
    for row in KNOWN:
        its_host = host == row.host or host.endswith("." + row.host)
        if its_host and (not row.models or model.lower().startswith(row.models)):
            return row.takes
    return Takes()


_REFUSING = frozenset({400, 404, 422, 501})
_NOT_TAKEN = re.compile(
    r"unsupported|not (?:\w+ )?(?:support|allow|permit|accept|implement|available|enabled|recogni[sz]ed)|"
    r"(?:isn|doesn|don)'?t support|unknown|unrecogni[sz]ed|unavailable|unexpected|extra (?:inputs?|fields?)|不支持",
    re.IGNORECASE,
)
_FORMAT = re.compile(
    r"response[_ ]?format|json[_ ]?schema|json[_ ]?(?:object|mode)|structured[_ ]output|guided|grammar|"
    r"requested parameters|failed to generate json",
    re.IGNORECASE,
)
_NO_REASON = re.compile(r"\s*(?:<|\Z)")
_SYSTEM = re.compile(r"system (?:role|message|prompt)|role[^.]{0,20}system|developer instruction", re.IGNORECASE)
_SETTINGS = ("max_tokens", "max_completion_tokens", "temperature", "stream_options", "stream")


def refuses_format(refusal: Refusal, sent: Mapping[str, Any]) -> bool:
    """Whether the request's ``response_format`` is what was refused: it is named, or nothing else is."""
    if "response_format" not in sent or refusal.status not in _REFUSING:
        return False
    if refusal.param.startswith("response_format") or _FORMAT.search(refusal.said):
        return True
    if refusal.status in (400, 422) and not refusal.param and _NO_REASON.match(refusal.said):
        return True  # a page of a proxy: whether it was the format is seen without it
    if refusal.param or refusal.status == 404 or not _NOT_TAKEN.search(refusal.said):
        return False
    return not _settings_in(refusal) and not _SYSTEM.search(refusal.said)


def learnt(takes: Takes, refusal: Refusal, sent: Mapping[str, Any]) -> Takes | None:
    """What this refusal of ``sent`` teaches, or None: the endpoint is asked otherwise from then on.

    Each lesson takes something away, so that their number is bounded.
    """
    if refusal.status not in _REFUSING or refusal.status == 404:
        return None
    names = _settings_in(refusal) & set(sent)
    # These two are left out without loss; which values a model bears is not told apart from bearing none.
    if "temperature" in names:
        return replace(takes, temperature=False)
    if "stream_options" in names:
        return replace(takes, stream_options=False)
    if not _NOT_TAKEN.search(f"{refusal.code} {refusal.said}"):  # a limit that is too high is no unknown name
        return None
    if takes.limit_names and takes.limit_names[0] in names:
        return replace(takes, limit_names=takes.limit_names[1:])
    if "stream" in names and takes.streaming == "taken":
        return replace(takes, streaming="refused")
    if takes.system and _SYSTEM.search(refusal.said):
        return replace(takes, system=False)
    return None


def _settings_in(refusal: Refusal) -> set[str]:
    """The settings that a refusal names: as its parameter, else in its words."""
    if refusal.param:
        return {name for name in _SETTINGS if refusal.param == name}
    found = {name for name in _SETTINGS if re.search(rf"(?<!\w){name}(?!\w)", refusal.said, re.IGNORECASE)}
    return found | {"stream"} if re.search(r"\bstreaming\b", refusal.said, re.IGNORECASE) else found
