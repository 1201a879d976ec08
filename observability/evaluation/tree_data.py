"""A folder with a tree of Markdown documents, read as the scan reads it, and questions in files beside the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from django.conf import settings

from clients.embedding_data import UNANSWERABLE_QUESTIONS
from documents.errors import DocumentError
from documents.frontmatter import field_value, keywords_from
from documents.names import PREFIX
from documents.reading import read_document_bytes
from documents.walk import FoundFile, Refused, walk
from observability.evaluation.data import EvaluatedDocument, EvaluationData, EvaluationError, Question
from observability.evaluation.judged_data import is_judged, read_judged
from observability.evaluation.question_files import Names, read_questions
from observability.evaluation.records import read_records

TREE = "knowledge_base"
SHIPPED_FAR, SHIPPED_NEAR = "shipped far", "shipped near"


def read_for_levels(folder: Path, question_files: Sequence[Path]) -> EvaluationData:
    """Judged passages, or a tree with the ``questions*.jsonl`` beside it; with the questions of further files."""
    if is_judged(folder):
        data = read_judged(folder)
    elif (folder / TREE).is_dir():
        data = read_tree(folder / TREE, name=folder.resolve().name)
        question_files = [*sorted(folder.glob("questions*.jsonl")), *question_files]
    else:
        raise EvaluationError(f"{folder} has neither corpus.jsonl nor a folder {TREE}.")
    data = with_questions(data, question_files)
    if not data.questions:
        raise EvaluationError(f"{folder} has no questions beside it; name a file of them with --questions.")
    return data


def read_tree(folder: Path, *, name: str) -> EvaluationData:
    """Every document below ``folder`` that the scan would take; a document's name is its path below it."""
    documents: list[EvaluatedDocument] = []
    unread = 0
    try:
        for found in walk(folder):
            document = None if isinstance(found, Refused) else _document(found)
            if document is None:
                unread += 1
            else:
                documents.append(document)
    except OSError as fault:
        raise EvaluationError(f"{folder} cannot be read: {fault.strerror or fault}.") from fault
    if not documents:
        raise EvaluationError(f"{folder} has no Markdown document.")
    return EvaluationData(name=name, documents=tuple(documents), questions=(), unread=unread)


def with_questions(data: EvaluationData, paths: Sequence[Path]) -> EvaluationData:
    """The same documents with the questions of these files added."""
    names = Names(data.documents)
    files = [read_questions(path, names) for path in paths]
    return replace(
        data,
        questions=(*data.questions, *(question for file in files for question in file.questions)),
        left_out=data.left_out + sum(file.left_out for file in files),
    )


def shipped_unanswerable() -> tuple[Question, ...]:
    """The questions of ours that no operations documents answer: far from their subjects, and near them."""
    kinds = {"far": SHIPPED_FAR, "near": SHIPPED_NEAR}
    return tuple(
        Question(
            id=f"shipped-{record.line.number}",
            text=record.question("text"),
            kind=kinds[record.text("subject")],
            lang=record.text("lang", ""),
        )
        for record in read_records(UNANSWERABLE_QUESTIONS)
    )


def _document(found: FoundFile) -> EvaluatedDocument | None:
    """None where an upload of these bytes would be refused."""
    try:
        reading = read_document_bytes(found.path.read_bytes(), file_path=found.file_path)
    except DocumentError:
        return None
    metadata = reading.metadata or {}
    summary = field_value(metadata, "summary")
    return EvaluatedDocument(
        name=found.file_path.removeprefix(PREFIX),
        file_path=found.file_path,
        title=reading.title,
        body=reading.body,
        domain=found.category,
        keywords=keywords_from(metadata, settings.KEYWORD_FIELDS),
        summary=summary if isinstance(summary, str) else "",
    )
