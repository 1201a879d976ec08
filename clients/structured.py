"""Answers with a shape: a JSON object from a model, on whatever its endpoint takes, checked and repaired once.

    answer = ask_structured(get_llm(), messages, Shape("frontmatter", SCHEMA, check))

The ladder: ``json_schema``, else ``json_object``, else in the text. Where a step is refused the next one is asked for,
and what worked is remembered by the ``LLM``. No step is trusted: every answer is read and checked in the same way.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clients.interfaces import LLM, AnswerFormat, ClientError, Completion, FormatRefused, LLMMessage
from clients.llm_json import NoObjectError, object_in

logger = logging.getLogger(__name__)

_NEXT: Mapping[AnswerFormat, AnswerFormat] = {"json_schema": "json_object", "json_object": "text"}
QUOTED_ANSWER = 6_000
"""Characters of a bad answer that are sent back with the request to repair it."""
NAMED_PROBLEMS = 20


@dataclass(frozen=True)
class Checked:
    """What a check found in an object: ``values`` are the fields that hold, ``problems`` has one English sentence for
    each field that does not."""

    values: Mapping[str, Any]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What an answer must look like.

    ``name`` is one that endpoints take (letters, digits, ``_``). ``schema`` is a strict JSON schema: every property
    required, ``additionalProperties`` false. ``check`` looks at each field by itself, and must bear any JSON in it.
    """

    name: str
    schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], Checked]


@dataclass(frozen=True)
class StructuredAnswer:
    """The fields that hold, and a sentence for each that does not. ``repaired``: a second request was answered, and
    ``usage`` counts both (an empty answer tells no usage)."""

    values: Mapping[str, Any]
    problems: tuple[str, ...]
    model: str
    usage: Mapping[str, int]
    repaired: bool


def ask_structured(
    llm: LLM, messages: Sequence[LLMMessage], shape: Shape, *, max_tokens: int = 1500
) -> StructuredAnswer:
    """The answer to ``messages`` in this shape; at least one of its fields holds.

    ``max_tokens`` bounds one answer; it is doubled for the second request where the first one was cut off. Raises
    what ``LLM.complete`` raises, and ``ClientError`` with code ``llm_bad_answer`` (retryable) where also the repaired
    answer has no field that holds.
    """
    try:
        first = _read(_ask(llm, messages, shape, max_tokens), shape, max_tokens)
    except ClientError as error:
        if error.code != "llm_empty" or not error.retryable:
            raise
        return _after_nothing(llm, messages, shape, 2 * max_tokens)
    if not first.checked.problems:
        return _answer((first,), first, repaired=False)
    logger.info("language model: %s: %s; asking it to repair its answer", shape.name, first.checked.problems[0])
    second = _repaired(llm, messages, shape, first, max_tokens)
    better = first if second is None or len(second.checked.values) < len(first.checked.values) else second
    if better.checked.problems and not better.checked.values:
        raise _unusable(second or first)
    return _answer((first,) if second is None else (first, second), better, repaired=second is not None)


def _after_nothing(llm: LLM, messages: Sequence[LLMMessage], shape: Shape, limit: int) -> StructuredAnswer:
    """The same question once more: there is no answer to repair, perhaps since thoughts took all the room."""
    only = _read(_ask(llm, messages, shape, limit), shape, limit)
    if only.checked.problems and not only.checked.values:
        raise _unusable(only)
    return _answer((only,), only, repaired=True)


@dataclass(frozen=True)
class _Read:
    completion: Completion
    checked: Checked


def _ask(llm: LLM, messages: Sequence[LLMMessage], shape: Shape, max_tokens: int) -> Completion:
    """The first format from the known one downwards that the endpoint takes."""
    known = asked = llm.answer_format()
    while True:
        try:
            completion = llm.complete(
                _with_schema(messages, shape, asked),
                temperature=0.0,
                max_tokens=max_tokens,
                response_format=_response_format(shape, asked),
            )
        except FormatRefused as refused:
            if asked not in _NEXT:
                raise
            logger.info("language model: no %s here (%s)", asked, refused)
            asked = _NEXT[asked]
            continue
        if asked != known:
            llm.remember_format(asked)
        return completion


def _repaired(llm: LLM, messages: Sequence[LLMMessage], shape: Shape, first: _Read, max_tokens: int) -> _Read | None:
    """The answer once more; None where that cannot be had and the first answer has something to go on with."""
    cut = first.completion.finish_reason == "length"
    limit = 2 * max_tokens if cut else max_tokens
    try:
        return _read(_ask(llm, [*messages, *_complaint(first, shape)], shape, limit), shape, limit)
    except ClientError as error:
        if not first.checked.values:
            raise
        logger.warning("language model: %s could not be repaired: %s", shape.name, error)
        return None


def _read(completion: Completion, shape: Shape, max_tokens: int) -> _Read:
    try:
        return _Read(completion, shape.check(object_in(completion.text)))
    except NoObjectError as error:
        reason = f"The answer {error}."
        if completion.finish_reason == "length":
            reason = f"The answer was cut off at its limit of {max_tokens} tokens: it {error}."
        return _Read(completion, Checked({}, (reason,)))


def _complaint(first: _Read, shape: Shape) -> list[LLMMessage]:
    problems = "\n".join(f"- {' '.join(problem.split())[:300]}" for problem in first.checked.problems[:NAMED_PROBLEMS])
    return [
        LLMMessage("assistant", first.completion.text[:QUOTED_ANSWER]),
        LLMMessage(
            "user",
            f"This answer cannot be used as it is:\n{problems}\n\n"
            "Give the whole answer again with that put right, as short as it can be: one JSON object that fits this "
            f"JSON schema, and nothing else.\n{_written(shape.schema)}",
        ),
    ]


def _with_schema(messages: Sequence[LLMMessage], shape: Shape, asked: AnswerFormat) -> list[LLMMessage]:
    """The messages; where the endpoint is not given the schema, it and the word JSON (which some insist on) stand at
    the end of the last system message."""
    told = list(messages)
    if asked == "json_schema":
        return told
    rule = (
        "Answer with one JSON object and nothing else: no explanation, no code fence. "
        f"It must fit this JSON schema:\n{_written(shape.schema)}"
    )
    places = [place for place, message in enumerate(told) if message.role == "system"]
    if not places:
        return [LLMMessage("system", rule), *told]
    told[places[-1]] = LLMMessage("system", f"{told[places[-1]].content}\n\n{rule}")
    return told


def _response_format(shape: Shape, asked: AnswerFormat) -> Mapping[str, Any] | None:
    if asked == "json_schema":
        return {"type": asked, "json_schema": {"name": shape.name, "strict": True, "schema": dict(shape.schema)}}
    return {"type": asked} if asked == "json_object" else None


def _written(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _answer(asked: Sequence[_Read], used: _Read, *, repaired: bool) -> StructuredAnswer:
    usage: dict[str, int] = {}
    for one in asked:
        for name, count in one.completion.usage.items():
            usage[name] = usage.get(name, 0) + count
    return StructuredAnswer(
        values=used.checked.values,
        problems=used.checked.problems,
        model=used.completion.model,
        usage=usage,
        repaired=repaired,
    )


def _unusable(last: _Read) -> ClientError:
    cut = last.completion.finish_reason == "length"
    return ClientError(
        f"The language model's answer cannot be used: {' '.join(last.checked.problems)[:600]}",
        code="llm_bad_answer",
        retryable=True,
        hint="The limit of tokens is too low for this answer." if cut else "A larger model may keep to the format.",
    )
