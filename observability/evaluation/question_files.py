"""Questions about documents that are known by name: four forms of a line, told apart by their fields.

- ``question``, ``documents`` (empty: none has the answer), ``key_facts``, ``other_language_twin``: for an agent.
- ``question``, ``remove``: a near miss, asked while those documents are away, so that nothing is right; ``half`` names
  a part of the file that is counted on its own.
- ``text``, ``expected``: a question with an identifier.
- ``text`` and the kind ``reading``: on an encyclopedia text, off the subject of documents that do not come with it.

Any other line is a question that nobody judged. The words of a question stand in ``question``, ``text`` or ``query``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from observability.evaluation.data import RIGHT, EvaluatedDocument, Fact, Question
from observability.evaluation.records import Line, Record, read_records

NO_ANSWER = "no answer"
NEAR_MISS = "near miss"
READING = "reading"
_PREFIX = "knowledge_base/"


@dataclass(frozen=True)
class QuestionFile:
    """The questions of one file, and how many more it has that nobody judged."""

    questions: tuple[Question, ...]
    left_out: int


def read_questions(path: Path, names: Names) -> QuestionFile:
    """Read one file. :class:`EvaluationError` for a bad line and for a document that is not there."""
    questions: list[Question] = []
    left_out = 0
    for record in read_records(path):
        question = _question(record, names)
        if question is None:
            left_out += 1
        else:
            questions.append(question)
    return QuestionFile(tuple(questions), left_out)


class Names:
    """The documents by every name that a question may use: its own, with the prefix, and that of its group."""

    def __init__(self, documents: Iterable[EvaluatedDocument]) -> None:
        self._names: dict[str, set[str]] = {}
        for document in documents:
            for name in {document.name, document.group or document.name}:
                self._names.setdefault(name, set()).add(document.name)

    def resolve(self, given: Iterable[str], line: Line) -> frozenset[str]:
        """The documents meant. :class:`EvaluationError` where there is none of that name."""
        found: set[str] = set()
        for name in given:
            meant = self._names.get(unicodedata.normalize("NFC", name).removeprefix(_PREFIX))
            if meant is None:
                raise line.error(f'there is no document "{name}".')
            found |= meant
        return frozenset(found)


def _question(record: Record, names: Names) -> Question | None:
    if "remove" in record:
        hidden = names.resolve(record.texts("remove"), record.line)
        half = record.text("half", "")
        return _made(record, kind=f"{NEAR_MISS}, {half}" if half else NEAR_MISS, hidden=hidden)
    if "documents" in record:
        return _for_agents(record, names)
    if "expected" in record:
        expected = names.resolve(record.texts("expected"), record.line)
        kind = record.text("kind", "") or "identifier"
        return _made(record, kind=kind if expected else NO_ANSWER, right=expected)
    if record.text("kind", "") == READING:
        return _made(record, kind=READING)
    return None


def _for_agents(record: Record, names: Names) -> Question:
    documents = names.resolve(record.texts("documents"), record.line)
    twins = _twins(record, names)
    right = documents.union(*(twins[name] for name in documents if name in twins))
    facts = _facts(record, names, twins)
    return _made(record, kind="agent" if documents else NO_ANSWER, right=right, facts=facts)


def _twins(record: Record, names: Names) -> dict[str, frozenset[str]]:
    """Twins in the other language by the document's name: also fair evidence."""
    given = record.fields.get("other_language_twin") or {}
    if not isinstance(given, dict):
        raise record.line.error('"other_language_twin" must map documents to lists of documents.')
    twins: dict[str, frozenset[str]] = {}
    for name, others in given.items():
        if not isinstance(others, list) or not all(isinstance(one, str) for one in others):
            raise record.line.error('"other_language_twin" must map documents to lists of documents.')
        for document in names.resolve([name], record.line):
            twins[document] = names.resolve(others, record.line)
    return twins


def _facts(record: Record, names: Names, twins: Mapping[str, frozenset[str]]) -> tuple[Fact, ...]:
    given = record.fields.get("key_facts")
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise record.line.error('"key_facts" must be a list of objects with "text" and "in_documents".')
    return tuple(_fact(one, record, names, twins) for one in given)


def _fact(value: dict[str, Any], record: Record, names: Names, twins: Mapping[str, frozenset[str]]) -> Fact:
    part = Record(record.line, value)
    documents = names.resolve(part.texts("in_documents"), record.line)
    of_documents = [twins[name] for name in documents if name in twins]
    return Fact(part.text("text"), documents, frozenset().union(*of_documents))


def _made(
    record: Record,
    *,
    kind: str,
    right: frozenset[str] = frozenset(),
    hidden: frozenset[str] = frozenset(),
    facts: tuple[Fact, ...] = (),
) -> Question:
    return Question(
        id=record.text("id", "") or f"{record.line.path.name}:{record.line.number}",
        text=record.question("question", "text", "query"),
        kind=kind,
        lang=record.text("lang", ""),
        grades=dict.fromkeys(sorted(right), RIGHT),
        hidden=hidden,
        facts=facts,
    )
