"""What is evaluated: documents, and questions with what is right for each. Plain frozen values, no Django."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RIGHT, HELPFUL = 2, 1
"""Grades of a document for a question; what is not graded is wrong."""


class EvaluationError(Exception):
    """The data or a part cannot be used as it is. The message is one line that names the file, and the line in it."""


@dataclass(frozen=True)
class EvaluatedDocument:
    """One document to load. ``name`` is what questions call it, and what it is hidden by.

    ``group`` is the document that a passage is from, in both languages where it is a translation; "" where the document
    stands for itself.
    """

    name: str
    file_path: str
    title: str
    body: str
    domain: str
    lang: str = ""
    group: str = ""
    keywords: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True)
class Fact:
    """A short text that an answer needs, the documents that it stands in, and their twins in the other language."""

    text: str
    documents: frozenset[str]
    twins: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Question:
    """A question. ``grades`` maps names of documents to 2 (right) or 1 (helpful); empty: none has the answer.

    ``hidden`` are the documents to be taken away while it is asked.
    """

    id: str
    text: str
    kind: str
    lang: str = ""
    grades: Mapping[str, int] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    facts: tuple[Fact, ...] = ()

    @property
    def right(self) -> frozenset[str]:
        """The names of the right documents."""
        return frozenset(name for name, grade in self.grades.items() if grade == RIGHT)


@dataclass(frozen=True)
class EvaluationData:
    """Documents and questions of one folder.

    ``has_passages``: each document is a passage, and ``group`` names its document. ``left_out`` counts questions whose
    right documents nobody named, ``unread`` files that are no documents.
    """

    name: str
    documents: tuple[EvaluatedDocument, ...]
    questions: tuple[Question, ...]
    has_passages: bool = False
    left_out: int = 0
    unread: int = 0

    def joined(self, other: EvaluationData) -> EvaluationData:
        """Both as one knowledge base. :class:`EvaluationError` where a document's name is in both."""
        names = {one.name for one in self.documents}
        twice = next((one.name for one in other.documents if one.name in names), None)
        if twice is not None:
            raise EvaluationError(f'{self.name} and {other.name} both have a document "{twice}".')
        return EvaluationData(
            name=f"{self.name} + {other.name}",
            documents=self.documents + other.documents,
            questions=self.questions + other.questions,
            has_passages=self.has_passages and other.has_passages,
            left_out=self.left_out + other.left_out,
            unread=self.unread + other.unread,
        )

    def group_of(self) -> dict[str, str]:
        """The document of each name: its group, or itself."""
        return {one.name: one.group or one.name for one in self.documents}
