"""A folder of judged passages: corpus.jsonl, queries.jsonl (or queries.*.jsonl), qrels.tsv (or qrels.*.tsv)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from observability.evaluation.data import EvaluatedDocument, EvaluationData, EvaluationError, Question
from observability.evaluation.records import Record, read_lines, read_records

CORPUS = "corpus.jsonl"
_GRADES = {"0": 0, "1": 1, "2": 2}


def is_judged(folder: Path) -> bool:
    """Whether the folder is of this form."""
    return (folder / CORPUS).is_file()


def read_judged(folder: Path) -> EvaluationData:
    """The folder's passages and questions; questions without a judgement are left out and counted.

    Raises :class:`EvaluationError` for a missing file, a bad line, and an id that is unknown or given twice.
    """
    passages = _passages(folder / CORPUS)
    questions = _questions(folder)
    grades = _grades(folder, known_questions=set(questions), known_passages=set(passages))
    judged = [replace(one, grades=grades[one.id]) for one in questions.values() if one.id in grades]
    if not judged:
        raise EvaluationError(f"{folder} has no question with a judged passage.")
    return EvaluationData(
        name=folder.resolve().name,
        documents=tuple(passages.values()),
        questions=tuple(judged),
        has_passages=True,
        left_out=len(questions) - len(judged),
    )


def _passages(path: Path) -> dict[str, EvaluatedDocument]:
    passages: dict[str, EvaluatedDocument] = {}
    for record in read_records(path):
        passage = _passage(record)
        if passage.name in passages:
            raise record.line.error(f'the passage "{passage.name}" was given before.')
        passages[passage.name] = passage
    if not passages:
        raise EvaluationError(f"{path} has no passage.")
    return passages


def _passage(record: Record) -> EvaluatedDocument:
    name, domain = record.text("id"), record.text("domain", "") or "general"
    return EvaluatedDocument(
        name=name,
        file_path=f"knowledge_base/{domain}/{name}.md",
        title=record.text("title", "") or name,
        body=record.text("text"),
        domain=domain,
        lang=record.text("lang", ""),
        group=record.text("doc", ""),
        keywords=record.texts("keywords"),
    )


def _questions(folder: Path) -> dict[str, Question]:
    questions: dict[str, Question] = {}
    for path in _files(folder, "queries", "jsonl"):
        for record in read_records(path):
            name = record.text("id")
            if name in questions:
                raise record.line.error(f'the question "{name}" was given before.')
            questions[name] = Question(
                id=name,
                text=record.question("text"),
                kind=record.text("kind", "") or "other",
                lang=record.text("lang", ""),
            )
    return questions


def _grades(folder: Path, *, known_questions: set[str], known_passages: set[str]) -> dict[str, dict[str, int]]:
    """Grades above 0 by question and passage; questions without a right passage are not in it."""
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for path in _files(folder, "qrels", "tsv"):
        for line, text in read_lines(path):
            columns = [column.strip() for column in text.split("\t")]
            if columns[0] == "query_id":
                continue
            if len(columns) != 3:
                raise line.error(f"{len(columns)} columns where query_id, passage_id and grade are expected.")
            question, passage, grade = columns
            if question not in known_questions:
                raise line.error(f'there is no question "{question}".')
            if passage not in known_passages:
                raise line.error(f'there is no passage "{passage}" in {CORPUS}.')
            if grade not in _GRADES:
                raise line.error(f'the grade is "{grade}"; it must be 2 (right), 1 (helpful) or 0.')
            if _GRADES[grade]:
                grades[question][passage] = _GRADES[grade]
    return {question: found for question, found in grades.items() if 2 in found.values()}


def _files(folder: Path, stem: str, ending: str) -> list[Path]:
    found = sorted({*folder.glob(f"{stem}.{ending}"), *folder.glob(f"{stem}.*.{ending}")})
    if not found:
        raise EvaluationError(f"{folder / stem}.{ending} is missing.")
    return found
