"""Tool calls in a stream: put together from what providers make of index, id, name and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from clients.llm_stream import AnswerParts, ToolCall


def calls_of(*deltas: dict[str, Any] | list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    parts = AnswerParts()
    for delta in deltas:
        parts.feed({"choices": [{"delta": {"tool_calls": delta if isinstance(delta, list) else [delta]}}]})
    return parts.tool_calls


def call(arguments: object, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


BOTH = (ToolCall("a", "lookup", '{"q": 1}'), ToolCall("b", "lookup", '{"q": 2}'))


@pytest.mark.parametrize(
    "deltas",
    [
        [
            call("", "lookup", index=0, id="a"),
            call('{"q":', index=0, id=None),
            call(" 1}", index=0),
            call('{"q": 2}', "lookup", index=1, id="b"),
        ],
        [call('{"q": 1}', "lookup", index=0, id="a"), call('{"q": 2}', "lookup", index=0, id="b")],
        [[call('{"q": 1}', "lookup", id="a"), call('{"q": 2}', "lookup", id="b")]],
        [call({"q": 1}, "lookup", id="a"), call({"q": 2}, "lookup", id="b")],
        [
            call("", "lookup", index=0, id="a"),
            call("", "lookup", index=1, id="b"),
            call('{"q": 1}', index=0, id=""),
            call('{"q": 2}', index=1, id=""),
        ],
        [
            call('{"q"', "lookup", index=0, id="a"),
            call(": 1}", index=0, id="another"),
            call('{"q": 2}', "lookup", index=1, id="b"),
        ],
        [
            call('{"q"', "lookup", index=0, id="a"),
            call(": 1}", "lookup", index=0, id="a"),
            call('{"q": 2}', "lookup", index=1, id="b"),
        ],
    ],
    ids=[
        "in pieces",
        "all with index 0",
        "in one delta without index",
        "objects instead of text",
        "taking turns",
        "an id that changes",
        "a name that is repeated",
    ],
)
def test_tool_calls_are_put_together(deltas: list[Any]) -> None:
    assert calls_of(*deltas) == BOTH


def test_tool_calls_without_ids_are_told_apart_and_named() -> None:
    assert calls_of(
        call('{"q": 1}', "lookup", index=0, id=None),
        call('{"q": 2}', "lookup", index=0, id=None),
        call("", "list", index=0),
        call("{}", index=0),
    ) == (
        ToolCall("call_1", "lookup", '{"q": 1}'),
        ToolCall("call_2", "lookup", '{"q": 2}'),
        ToolCall("call_3", "list", "{}"),
    )


def test_two_calls_of_one_tool_without_arguments_are_two() -> None:
    found = calls_of(call("", "list", index=0, id="a"), call("", "list", index=0, id="b"))
    assert found == (ToolCall("a", "list", ""), ToolCall("b", "list", ""))


@pytest.mark.parametrize(
    "delta", [None, "x", {}, {"function": None}, {"function": "x"}, {"index": "0", "function": {}}]
)
def test_broken_deltas_break_nothing(delta: Any) -> None:
    parts = AnswerParts()
    parts.feed({"choices": [{"delta": {"content": "Yes.", "tool_calls": [delta]}}]})
    parts.feed({"choices": [{"delta": {"tool_calls": delta}}]})
    parts.feed({"choices": [delta], "usage": delta, "model": None})
    assert parts.text == "Yes."


def test_arguments_that_are_nested_without_end_break_nothing() -> None:
    parts = AnswerParts()
    for _ in range(2):
        parts.feed({"choices": [{"delta": {"tool_calls": [call("[" * 100_000, "lookup", index=0)]}}]})
    assert [made.name for made in parts.tool_calls] == ["lookup"]
