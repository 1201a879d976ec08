"""``evaluate levels``: what each level is worth, and what is said where the knowledge base has no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from observability.evaluation.asking import Asked, ask
from observability.evaluation.data import EvaluationData, EvaluationError, Question
from observability.evaluation.intervals import Share, counted, share_of
from observability.evaluation.level_shares import LEVELS, NOT_FOUND, LevelShares, level_shares
from observability.evaluation.metrics import is_within, of_groups, place
from observability.evaluation.progress import Progress
from observability.evaluation.site import EvaluationSite

WITHIN = 3


@dataclass(frozen=True)
class PreciseFigures:
    """PRECISE over all questions, those without an answer included.

    ``wrong``: of all that were called PRECISE. ``literal_wrong``: the same without the check (SPEC section 7).
    ``kept``: of those that are right without the check, how many are still PRECISE with it.
    """

    wrong: Share
    literal_wrong: Share
    kept: Share


@dataclass(frozen=True)
class AnswerableFigures:
    """Questions that documents answer. ``found``: the lookup gave something; the ranking's right document at 1 and 3.

    ``facts``: key facts that the text of one lookup holds word for word, of all, and of all but those ``by_meaning``
    (a translation of the document was served: whether they stand there, only a reader can tell).
    """

    found: Share
    document_at_1: Share
    document_within_3: Share
    facts: Share
    facts_by_meaning: int
    facts_without_these: Share


@dataclass(frozen=True)
class NoAnswerFigures:
    """One kind of questions that no document answers: how many got something all the same, and at which level."""

    kind: str
    found: Share
    levels: dict[str, int]


@dataclass(frozen=True)
class LevelsResult:
    """``levels`` is over the questions that documents answer; ``by_language`` splits ``answerable``."""

    levels: list[LevelShares]
    precise: PreciseFigures
    answerable: AnswerableFigures
    by_language: dict[str, AnswerableFigures]
    no_answer: list[NoAnswerFigures]


@dataclass(frozen=True)
class _Answerable:
    asked: Asked
    place: int | None
    """Of a right document in the ranking, from 1, equal scores against us."""


def evaluate_levels(
    site: EvaluationSite, data: EvaluationData, unanswerable: Sequence[Question], *, progress: TextIO | None = None
) -> LevelsResult:
    """Ask ``data``'s questions and those of ``unanswerable``. ``site`` holds ``data``'s documents."""
    questions = [*data.questions, *unanswerable]
    if not questions:
        raise EvaluationError("There is no question to ask.")
    group_of = data.group_of()
    told = Progress(progress, "Asking", len(questions))
    answerable: list[_Answerable] = []
    others: list[Asked] = []
    for question in questions:
        asked = ask(site, question, group_of)
        if question.right:
            answerable.append(_Answerable(asked, _document_place(site, question, group_of)))
        else:
            others.append(asked)
        told.add()
    languages = sorted({one.asked.question.lang for one in answerable} - {""})
    return LevelsResult(
        levels=level_shares([one.asked for one in answerable], has_passages=data.has_passages),
        precise=_precise([*(one.asked for one in answerable), *others]),
        answerable=_answerable(answerable),
        by_language={
            lang: _answerable([one for one in answerable if one.asked.question.lang == lang]) for lang in languages
        },
        no_answer=_no_answer(others),
    )


def _document_place(site: EvaluationSite, question: Question, group_of: dict[str, str]) -> int | None:
    with site.hide(question.hidden):
        scores = of_groups(site.rank(question.text).fused, group_of)
    return place(scores, {group_of[name] for name in question.right})


def _precise(asked: Sequence[Asked]) -> PreciseFigures:
    precise = [one for one in asked if one.is_precise]
    literal = [one for one in asked if one.literal_right is not None]
    right = [one for one in literal if one.literal_right]
    return PreciseFigures(
        wrong=counted([not one.document_right for one in precise]),
        literal_wrong=counted([not one.literal_right for one in literal]),
        kept=counted([one.is_precise for one in right]),
    )


def _answerable(answerable: Sequence[_Answerable]) -> AnswerableFigures:
    facts = [one.asked.facts for one in answerable]
    all_facts, held = sum(one.all for one in facts), sum(one.held for one in facts)
    by_meaning = sum(one.by_meaning for one in facts)
    return AnswerableFigures(
        found=counted([one.asked.found for one in answerable]),
        document_at_1=counted([is_within(one.place, 1) for one in answerable]),
        document_within_3=counted([is_within(one.place, WITHIN) for one in answerable]),
        facts=share_of(held, all_facts),
        facts_by_meaning=by_meaning,
        facts_without_these=share_of(held, all_facts - by_meaning),
    )


def _no_answer(asked: Sequence[Asked]) -> list[NoAnswerFigures]:
    kinds = sorted({one.question.kind for one in asked})
    return [_of_kind(kind, [one for one in asked if one.question.kind == kind]) for kind in kinds]


def _of_kind(kind: str, asked: Sequence[Asked]) -> NoAnswerFigures:
    names = {level: level.value if level else NOT_FOUND for level in LEVELS}
    return NoAnswerFigures(
        kind=kind,
        found=counted([one.found for one in asked]),
        levels={name: sum(one.level is level for one in asked) for level, name in names.items()},
    )
