"""Figures of ranked lists. Pure; a list is a mapping of names to scores, and equal scores count against us.

Equal scores have no order of their own: whatever order a program gives them by chance, the figure takes the worst one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

Scores = Mapping[str, float]
"""A ranked list: scores by name, more is better. What is not in it was not found."""

DEPTH = 10


def place(scores: Scores, wanted: AbstractSet[str]) -> int | None:
    """The place, from 1, of the best one of ``wanted``, behind all others of its score; None where none was found."""
    best = max((scores[name] for name in wanted if name in scores), default=None)
    if best is None:
        return None
    return 1 + sum(score >= best for name, score in scores.items() if name not in wanted)


def is_within(found: int | None, depth: int) -> bool:
    """Is that place among the first ``depth``?"""
    return found is not None and found <= depth


def reciprocal_rank(found: int | None) -> float:
    """1 / place, and 0 for what was not found (Voorhees, TREC-8, 1999); its mean over questions is MRR."""
    return 1.0 / found if found is not None else 0.0


def ndcg(scores: Scores, grades: Mapping[str, int], depth: int = DEPTH) -> float:
    """Normalised discounted cumulative gain, 0 to 1 (Järvelin and Kekäläinen, 2002).

    The gain is the grade and the discount log2(place + 1), as trec_eval has it; of equal scores the lowest grade comes
    first. 0 where nothing is graded.
    """
    order = sorted(scores, key=lambda name: (-scores[name], grades.get(name, 0)))
    gained = _discounted([grades.get(name, 0) for name in order[:depth]])
    best = _discounted(sorted(grades.values(), reverse=True)[:depth])
    return gained / best if best else 0.0


def of_groups(scores: Scores, group_of: Mapping[str, str]) -> dict[str, float]:
    """The list of groups, each with the score of its best member."""
    groups: dict[str, float] = {}
    for name, score in scores.items():
        group = group_of[name]
        groups[group] = max(score, groups.get(group, score))
    return groups


@dataclass(frozen=True)
class Judged:
    """What is right for one question: ``grades`` of passages, ``groups`` (documents) of the right ones.

    ``twins``: the helpful passages in the other language, empty where there is none.
    """

    grades: Mapping[str, int]
    right: frozenset[str]
    groups: frozenset[str]
    twins: frozenset[str] = frozenset()


@dataclass(frozen=True)
class QuestionFigures:
    """One question's figures; ``twin_within_10`` is None where the question has no twin."""

    recall_at_1: bool
    recall_at_3: bool
    recall_at_10: bool
    reciprocal_rank: float
    ndcg_at_10: float
    document_at_1: bool
    twin_within_10: bool | None


def question_figures(scores: Scores, judged: Judged, group_of: Mapping[str, str]) -> QuestionFigures:
    """How well a list answers a question. Recall@k: is one of the right passages among the first k?"""
    found = place(scores, judged.right)
    return QuestionFigures(
        recall_at_1=is_within(found, 1),
        recall_at_3=is_within(found, 3),
        recall_at_10=is_within(found, DEPTH),
        reciprocal_rank=reciprocal_rank(found),
        ndcg_at_10=ndcg(scores, judged.grades),
        document_at_1=is_within(place(of_groups(scores, group_of), judged.groups), 1),
        twin_within_10=is_within(place(scores, judged.twins), DEPTH) if judged.twins else None,
    )


def _discounted(gains: list[int]) -> float:
    return sum(gain / math.log2(number + 1) for number, gain in enumerate(gains, start=1))
