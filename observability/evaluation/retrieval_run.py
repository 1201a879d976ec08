"""``evaluate retrieval``: how well the product ranks judged passages, and what its levels are worth there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from observability.evaluation.asking import ask
from observability.evaluation.baselines import PlainBM25, rank_fusion
from observability.evaluation.data import HELPFUL, EvaluationData, EvaluationError, Question
from observability.evaluation.level_shares import LevelShares, level_shares
from observability.evaluation.metrics import Judged, QuestionFigures, Scores, question_figures
from observability.evaluation.progress import Progress
from observability.evaluation.ranking_figures import Comparison, SystemFigures, compare, system_figures
from observability.evaluation.site import EvaluationSite

PRODUCT, BM25, DENSE, RANK_FUSION = "product", "plain BM25", "dense alone", "rank fusion"
UNKNOWN_LANGUAGE = "–"


@dataclass(frozen=True)
class RetrievalResult:
    """Figures of the product and of each baseline, the product against each, and the levels of its lookups."""

    systems: list[SystemFigures]
    comparisons: list[Comparison]
    levels: list[LevelShares]


def evaluate_retrieval(
    site: EvaluationSite, data: EvaluationData, *, progress: TextIO | None = None
) -> RetrievalResult:
    """Ask every question, once for the ranking and once as a lookup. ``site`` holds ``data``'s documents."""
    if not data.questions:
        raise EvaluationError("There is no question to ask.")
    group_of = data.group_of()
    languages = {one.name: one.lang for one in data.documents}
    plain = PlainBM25(data.documents)
    told = Progress(progress, "Asking", len(data.questions))
    figures: dict[str, list[QuestionFigures]] = {}
    asked = []
    for question in data.questions:
        judged = judged_of(question, group_of, languages)
        for name, scores in _lists(site, plain, question).items():
            figures.setdefault(name, []).append(question_figures(scores, judged, group_of))
        asked.append(ask(site, question, group_of))
        told.add()
    labels = [one.lang or UNKNOWN_LANGUAGE for one in data.questions]
    kinds = [one.kind for one in data.questions]
    return RetrievalResult(
        systems=[system_figures(name, of_system, labels, kinds) for name, of_system in figures.items()],
        comparisons=[compare(name, figures[PRODUCT], figures[name]) for name in figures if name != PRODUCT],
        levels=level_shares(asked, has_passages=data.has_passages),
    )


def judged_of(question: Question, group_of: Mapping[str, str], languages: Mapping[str, str]) -> Judged:
    """What is right for the question; twins are helpful passages in another language than its own."""
    helpful = (name for name, grade in question.grades.items() if grade == HELPFUL)
    return Judged(
        grades=question.grades,
        right=question.right,
        groups=frozenset(group_of[name] for name in question.right),
        twins=frozenset(name for name in helpful if question.lang and languages[name] not in ("", question.lang)),
    )


def _lists(site: EvaluationSite, plain: PlainBM25, question: Question) -> dict[str, Scores]:
    ranked = site.rank(question.text)
    words = plain.search(question.text)
    return {
        PRODUCT: ranked.fused,
        BM25: words,
        DENSE: ranked.dense,
        RANK_FUSION: rank_fusion(words, ranked.dense),
    }
