"""Reading lines of JSON: every fault is one sentence that names the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from observability.evaluation.data import EvaluationError

MAX_QUESTION = 2_000
"""Characters; what every door of the site takes at most."""


@dataclass(frozen=True)
class Line:
    """One line of a file, numbered from 1."""

    path: Path
    number: int

    def error(self, problem: str) -> EvaluationError:
        """What is wrong with this line."""
        return EvaluationError(f"{self.path}, line {self.number}: {problem}")


@dataclass(frozen=True)
class Record:
    """A JSON object and where it stands."""

    line: Line
    fields: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def text(self, name: str, default: str | None = None) -> str:
        """The text of a field; without a default it must be there and not be blank. Never half a character or NUL."""
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.line.error(f'"{name}" must be a text.' if default is not None else f'"{name}" must hold a text.')
        self._check(name, [value])
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list; empty where the field is missing. The same of each as :meth:`text`."""
        value = self.fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.line.error(f'"{name}" must be a list of texts.')
        self._check(name, value)
        return tuple(value)

    def question(self, *names: str) -> str:
        """The question, by the first of these names that is there."""
        text = self.text(next((name for name in names if name in self), names[0]))
        if len(text) > MAX_QUESTION:
            raise self.line.error(f"the question has {len(text):,} characters; {MAX_QUESTION:,} are taken at most.")
        return text

    def _check(self, name: str, texts: Iterable[str]) -> None:
        if not all(map(is_text, texts)):
            raise self.line.error(f'"{name}" holds characters that are no text (NUL, half a character).')


def is_text(value: str) -> bool:
    """Whether there is no NUL in it and no half of a surrogate pair: no database, embedder or server takes those."""
    return "\x00" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)


def read_text(path: Path) -> str:
    """The file as UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as fault:
        raise EvaluationError(f"{path} cannot be read: {fault.strerror or fault}.") from fault
    except UnicodeDecodeError as fault:
        raise EvaluationError(f"{path} is not UTF-8 text (byte {fault.start}).") from fault


def read_lines(path: Path) -> Iterator[tuple[Line, str]]:
    """The lines that are not blank."""
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if text.strip():
            yield Line(path, number), text.rstrip("\r")


def read_records(path: Path) -> Iterator[Record]:
    """The JSON objects of a file, one a line."""
    for line, text in read_lines(path):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise line.error(f"not JSON ({fault}).") from fault
        if not isinstance(value, dict):
            raise line.error("not a JSON object.")
        yield Record(line, value)
