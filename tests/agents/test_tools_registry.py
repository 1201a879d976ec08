"""The tool registry: a schema from a signature, and arguments held against it (AG-3)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from agents.registry import ToolError, get_tool, parameters_of, registered_tools, tool
from agents.tools import LOOKUP_TOOL


def weather(
    context: Any,
    *,
    place: Annotated[str, "Where."],
    days: Annotated[int, "How many days."] = 1,
    share: Annotated[float, "A share."] = 0.5,
    warm: Annotated[bool | None, "Warm or not."] = None,
    note: str | None = None,
) -> str:
    return f"{place} {days} {share} {warm} {note}"


def test_lookup_knowledge_registers_itself_with_the_schema_of_its_signature() -> None:
    found = get_tool(LOOKUP_TOOL)
    assert found in registered_tools()
    schema = found.schema()
    assert schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": schema["properties"]["query"]["description"]},
            "section_title": {
                "type": ["string", "null"],
                "description": schema["properties"]["section_title"]["description"],
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert all(one["description"] for one in schema["properties"].values())


def test_its_description_says_that_it_matches_exactly_first_and_adds_meaning_by_itself() -> None:
    description = get_tool(LOOKUP_TOOL).description
    assert "matches exactly first" in description
    assert "adds search by meaning by itself" in description


def test_types_defaults_and_descriptions_make_the_schema() -> None:
    place, days, share, warm, note = parameters_of(weather)
    assert place.schema() == {"type": "string", "description": "Where."}
    assert place.required
    assert days.schema() == {"type": "integer", "description": "How many days."}
    assert not days.required
    assert share.schema()["type"] == "number"
    assert warm.schema()["type"] == ["boolean", "null"]
    assert note.schema() == {"type": ["string", "null"], "description": ""}


@pytest.mark.parametrize("hint", [list[str], str | int, dict[str, Any], object])
def test_a_parameter_that_no_schema_can_say_is_refused(hint: Any) -> None:
    def odd(context: Any, *, value: Any) -> None: ...

    odd.__annotations__["value"] = hint
    with pytest.raises(TypeError, match="value"):
        parameters_of(odd)


def test_a_name_can_be_registered_once() -> None:
    with pytest.raises(ValueError, match=LOOKUP_TOOL):
        tool(name=LOOKUP_TOOL, description="again")(weather)


def test_an_unknown_tool_names_those_that_are_there() -> None:
    with pytest.raises(ToolError, match=LOOKUP_TOOL) as raised:
        get_tool("search_web")
    assert raised.value.code == "unknown_tool"


@pytest.mark.parametrize("arguments", [{"query": "a"}, {"query": "a", "section_title": None}])
def test_arguments_that_fit_pass_as_they_are(arguments: dict[str, Any]) -> None:
    assert get_tool(LOOKUP_TOOL).check(arguments) == arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": None},
        {"query": 5},
        {"query": True},
        {"query": ["a"]},
        {"query": {"a": "b"}},
        {"query": "a", "section_title": 5},
        {"query": "a", "topK": 3},
        {"section_title": "a"},
        "a",
        None,
        ["query"],
        5,
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_a_sentence(arguments: object) -> None:
    with pytest.raises(ToolError) as raised:
        get_tool(LOOKUP_TOOL).check(arguments)
    assert raised.value.code == "invalid_arguments"
    assert str(raised.value)


def test_a_boolean_is_no_number_and_a_whole_number_is_one() -> None:
    days = next(one for one in parameters_of(weather) if one.name == "days")
    share = next(one for one in parameters_of(weather) if one.name == "share")
    from_signature = get_tool(LOOKUP_TOOL).__class__("weather", "", weather, (days, share))
    assert from_signature.check({"share": 1}) == {"share": 1}
    with pytest.raises(ToolError):
        from_signature.check({"days": True})
    with pytest.raises(ToolError):
        from_signature.check({"days": 1.5})
