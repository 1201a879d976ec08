"""The tool registry: a tool is a function with a name, a description and a JSON schema made from its signature (AG-3).

A tool function takes the call's context first; its other parameters are keyword-only, each
``Annotated[type, "what it is"]``. To add a tool, write such a function in ``agents/tools.py`` and decorate it with
``@tool(...)``.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union

_JSON_TYPES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
F = TypeVar("F", bound=Callable[..., Any])


class ToolError(Exception):
    """A call that whoever made it can mend. ``code`` is stable, the message says what to do."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Parameter:
    """One argument as a model sees it."""

    name: str
    type: type
    description: str
    required: bool
    nullable: bool

    def schema(self) -> dict[str, Any]:
        name = _JSON_TYPES[self.type]
        return {"type": [name, "null"] if self.nullable else name, "description": self.description}


@dataclass(frozen=True)
class Tool:
    """A registered function."""

    name: str
    description: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }

    def check(self, arguments: object) -> dict[str, Any]:
        """The arguments to call the function with; :class:`ToolError` (``invalid_arguments``) where they do not fit."""
        if not isinstance(arguments, Mapping):
            raise ToolError(f"The arguments of {self.name} must be a JSON object.", code="invalid_arguments")
        known = {parameter.name: parameter for parameter in self.parameters}
        unknown = [str(name) for name in arguments if name not in known]
        if unknown:
            raise ToolError(
                f"{self.name} has no argument {_quoted(unknown)}; it takes {_quoted(list(known))}.",
                code="invalid_arguments",
            )
        missing = [one.name for one in self.parameters if one.required and one.name not in arguments]
        if missing:
            raise ToolError(f"{self.name} needs the argument {_quoted(missing)}.", code="invalid_arguments")
        return {name: _checked(known[name], value) for name, value in arguments.items()}


def _checked(parameter: Parameter, value: Any) -> Any:
    """A value of the parameter's type."""
    if value is None and parameter.nullable:
        return None
    # bool is an int to Python and not to JSON; a whole number is a number.
    if type(value) is not parameter.type and not (parameter.type is float and type(value) is int):
        expected = _JSON_TYPES[parameter.type]
        raise ToolError(f'"{parameter.name}" must be of type {expected}.', code="invalid_arguments")
    return value


_tools: dict[str, Tool] = {}


def tool(*, name: str, description: str) -> Callable[[F], F]:
    """Register a function under a name that is still free."""

    def register(function: F) -> F:
        if name in _tools:
            raise ValueError(f"A tool named {name} is registered already.")
        _tools[name] = Tool(name, description, function, parameters_of(function))
        return function

    return register


def registered_tools() -> tuple[Tool, ...]:
    """In the order of their registration."""
    return tuple(_tools.values())


def get_tool(name: str) -> Tool:
    """:class:`ToolError` (``unknown_tool``) where there is none of this name."""
    found = _tools.get(name)
    if found is None:
        raise ToolError(f"There is no such tool; the tools are {_quoted(list(_tools))}.", code="unknown_tool")
    return found


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The keyword-only parameters of a tool function, described by their annotations."""
    hints = typing.get_type_hints(function, include_extras=True)
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    wanted = [one for one in inspect.signature(function).parameters.values() if one.kind is keyword_only]
    return tuple(_parameter(one, hints[one.name]) for one in wanted)


def _parameter(one: inspect.Parameter, hint: Any) -> Parameter:
    description = ""
    if typing.get_origin(hint) is Annotated:
        hint, description = typing.get_args(hint)[:2]
    nullable = False
    if typing.get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        nullable = len(kinds) < len(typing.get_args(hint))
        hint = kinds[0] if len(kinds) == 1 else None
    if hint not in _JSON_TYPES:
        raise TypeError(f"The tool parameter {one.name} must be str, int, float or bool, perhaps | None.")
    return Parameter(one.name, hint, description, required=one.default is one.empty, nullable=nullable)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name[:60]}"' for name in names[:10])
