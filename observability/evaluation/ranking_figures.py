"""Figures of one system over many questions, in groups, and of two systems question by question. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from observability.evaluation.intervals import bootstrap_interval
from observability.evaluation.metrics import QuestionFigures

Interval = tuple[float, float] | None


@dataclass(frozen=True)
class RankingFigures:
    """Means over ``count`` questions. ``twin_within_10`` is over the ``twins`` questions that have one, else None."""

    count: int
    recall_at_1: float
    recall_at_3: float
    recall_at_10: float
    mrr: float
    ndcg_at_10: float
    document_recall_at_1: float
    twins: int
    twin_within_10: float | None


@dataclass(frozen=True)
class SystemFigures:
    """One system: its figures, by language and kind too, and 95 % bootstrap intervals of the first two."""

    name: str
    overall: RankingFigures
    by_language: dict[str, RankingFigures]
    by_kind: dict[str, RankingFigures]
    recall_at_1_interval: Interval
    mrr_interval: Interval


@dataclass(frozen=True)
class Comparison:
    """The product against one baseline, question by question.

    Differences are the product's figure minus the baseline's, with their paired bootstrap intervals. ``won`` and
    ``lost`` count the questions whose first answer is right with the product alone and with the baseline alone.
    """

    baseline: str
    recall_at_1: float
    recall_at_1_interval: Interval
    mrr: float
    mrr_interval: Interval
    won: int
    lost: int


def ranking_figures(figures: Sequence[QuestionFigures]) -> RankingFigures:
    """The means; 0 questions give zeros."""
    twins = [one.twin_within_10 for one in figures if one.twin_within_10 is not None]
    return RankingFigures(
        count=len(figures),
        recall_at_1=_mean([one.recall_at_1 for one in figures]),
        recall_at_3=_mean([one.recall_at_3 for one in figures]),
        recall_at_10=_mean([one.recall_at_10 for one in figures]),
        mrr=_mean([one.reciprocal_rank for one in figures]),
        ndcg_at_10=_mean([one.ndcg_at_10 for one in figures]),
        document_recall_at_1=_mean([one.document_at_1 for one in figures]),
        twins=len(twins),
        twin_within_10=_mean(twins) if twins else None,
    )


def system_figures(
    name: str, figures: Sequence[QuestionFigures], languages: Sequence[str], kinds: Sequence[str]
) -> SystemFigures:
    """``languages`` and ``kinds`` are the questions', in the same order."""
    return SystemFigures(
        name=name,
        overall=ranking_figures(figures),
        by_language=_grouped(figures, languages),
        by_kind=_grouped(figures, kinds),
        recall_at_1_interval=bootstrap_interval([float(one.recall_at_1) for one in figures]),
        mrr_interval=bootstrap_interval([one.reciprocal_rank for one in figures]),
    )


def compare(baseline: str, product: Sequence[QuestionFigures], other: Sequence[QuestionFigures]) -> Comparison:
    """Both over the same questions in the same order."""

    def differences(figure: Callable[[QuestionFigures], float]) -> list[float]:
        return [figure(mine) - figure(its) for mine, its in zip(product, other, strict=True)]

    first = differences(lambda one: float(one.recall_at_1))
    reciprocal = differences(lambda one: one.reciprocal_rank)
    return Comparison(
        baseline=baseline,
        recall_at_1=_mean(first),
        recall_at_1_interval=bootstrap_interval(first),
        mrr=_mean(reciprocal),
        mrr_interval=bootstrap_interval(reciprocal),
        won=sum(difference > 0 for difference in first),
        lost=sum(difference < 0 for difference in first),
    )


def _grouped(figures: Sequence[QuestionFigures], labels: Sequence[str]) -> dict[str, RankingFigures]:
    groups: dict[str, list[QuestionFigures]] = {}
    for one, label in zip(figures, labels, strict=True):
        groups.setdefault(label, []).append(one)
    return {label: ranking_figures(groups[label]) for label in sorted(groups)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
