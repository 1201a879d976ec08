"""A model's answer put together from the chunks of a stream, or from the one body of an answer that is not streamed.

Providers differ in what they send: usage in a chunk without choices, all tool calls with index 0 (Ollama), ids that
are null, thoughts in a field of their own or in the text. What belongs to nobody's answer is left out.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clients.llm_providers import Refusal

LONGEST_MODEL = 128
"""Characters of the name by which an endpoint calls its model."""
_THOUGHTS = re.compile(r"\s*<(think|thinking|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_STATUS = re.compile(r"\d{3}")
_END_OF_THOUGHTS = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asks for; ``arguments`` is JSON as the model wrote it, perhaps not valid."""

    id: str
    name: str
    arguments: str


class SaidError(Exception):
    """The endpoint answered 200, and with an error in the body or in the stream."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class AnswerParts:
    """Feed it every chunk in turn, then read its fields. ``size`` counts characters, with the thoughts."""

    model: str = ""
    finish_reason: str = ""
    refusal: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    size: int = 0
    has_choices: bool = False
    _text: list[str] = field(default_factory=list)
    _calls: list[_Call] = field(default_factory=list)
    _current: dict[int, _Call] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What the model said, without its thoughts."""
        return without_thoughts(well_formed("".join(self._text)))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order in which they began; one without an id is given one."""
        return tuple(
            ToolCall(well_formed(call.id) or f"call_{number}", well_formed(call.name), well_formed(call.arguments))
            for number, call in enumerate(self._calls, start=1)
        )

    def feed(self, chunk: Mapping[str, Any]) -> None:
        """Take one chunk (or one whole answer) in. ``SaidError`` where it is an error instead."""
        _raise_said(chunk)
        self.model = self.model or plain_line(str(chunk.get("model") or ""), LONGEST_MODEL)
        self.usage = _usage_of(chunk.get("usage")) or self.usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        self.usage = _usage_of(choice.get("usage")) or self.usage  # some put it here
        self.finish_reason = str(choice.get("finish_reason") or self.finish_reason)
        said = choice.get("delta") or choice.get("message")
        if isinstance(said, dict):
            self.has_choices = True
            self._take(said)

    def _take(self, said: Mapping[str, Any]) -> None:
        text = _text_of(said.get("content"))
        if text:
            self._text.append(text)
        self.refusal += _text_of(said.get("refusal"))
        self.size += len(text) + sum(len(_text_of(said.get(name))) for name in ("reasoning_content", "reasoning"))
        calls = said.get("tool_calls")
        for place, delta in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(delta, dict):
                self._take_call(delta, place)

    def _take_call(self, delta: Mapping[str, Any], place: int) -> None:
        function = delta.get("function")
        named = function if isinstance(function, dict) else {}
        identity, name, arguments = str(delta.get("id") or ""), str(named.get("name") or ""), named.get("arguments")
        written = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        index = delta.get("index")
        key = index if isinstance(index, int) else place
        call = self._current.get(key)
        if call is None or _is_another(call, identity, name):
            call = _Call(identity)
            self._calls.append(call)
            self._current[key] = call
        call.id, call.name = call.id or identity, call.name or name
        call.arguments += written
        self.size += len(written)


def well_formed(text: str) -> str:
    """The text as one that can be stored and sent: JSON may escape half a surrogate pair, which no encoding takes.
    Halves that meet (a stream may cut between them) are one character again; one that is alone becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def plain_line(text: str, limit: int) -> str:
    """An endpoint's own words for messages, logs and columns: one line, at most ``limit`` characters, none unseen."""
    line = " ".join(text.split())[: 4 * limit]
    seen = "".join(mark for mark in well_formed(line) if unicodedata.category(mark) not in ("Cc", "Cf"))
    return seen[:limit]


def without_thoughts(text: str) -> str:
    """A text without the ``<think>`` block that some models begin with, also where its begin or its end is missing."""
    told = _THOUGHTS.sub("", text, count=1) if _THOUGHTS.match(text) else text
    end = _END_OF_THOUGHTS.search(told)
    if told is text and end is not None and "<think>" not in told[: end.start()].lower():
        told = told[end.end() :]  # the template of the model has opened the block
    return text if told is text else told.lstrip()


def _is_another(call: _Call, identity: str, name: str) -> bool:
    """Whether a delta with the index of ``call`` begins another one: it has a name, and an id of its own; where ids
    are missing, another name, or the same one after whole arguments."""
    if not name or (identity and identity == call.id):
        return False
    if identity and call.id:
        return True
    return bool(call.name) and (name != call.name or _is_json(call.arguments))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _raise_said(chunk: Mapping[str, Any]) -> None:
    error = chunk if chunk.get("object") == "error" else chunk.get("error")
    if not error:
        return
    told = error if isinstance(error, dict) else {"message": error}
    code = str(told.get("code") or "")
    status = told.get("status") if isinstance(told.get("status"), int) else int(code) if _STATUS.fullmatch(code) else 0
    raise SaidError(
        Refusal(
            status=status if isinstance(status, int) and 400 <= status < 600 else 0,
            param=str(told.get("param") or ""),
            code=code,
            said=str(told.get("message") or told.get("detail") or told),
        )
    )


def _text_of(content: object) -> str:
    """A message's text: a string, or a list of text parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") in (None, "text")]
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return ""


def _usage_of(usage: object) -> dict[str, int]:
    if not isinstance(usage, dict):
        return {}
    found = {"prompt": usage.get("prompt_tokens"), "completion": usage.get("completion_tokens")}
    return {name: value for name, value in found.items() if isinstance(value, int) and not isinstance(value, bool)}
