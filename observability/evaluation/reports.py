"""What ``evaluate`` prints: tables for people, one JSON object for programs, both of the same figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from clients.interfaces import LevelFit
from observability.evaluation.data import EvaluationData
from observability.evaluation.level_shares import LEVELS, NOT_FOUND, LevelShares
from observability.evaluation.levels_run import AnswerableFigures, LevelsResult
from observability.evaluation.ranking_figures import RankingFigures, SystemFigures
from observability.evaluation.retrieval_run import RetrievalResult
from observability.evaluation.site import EvaluationSite
from observability.evaluation.tables import NOTHING, interval, number, share, signed, table
from retrieval.relevance import NEARLY_ALL, LevelRule, found_from

_RANKING_HEADS = ("questions", "recall@1", "recall@3", "recall@10", "MRR", "nDCG@10", "document@1", "twin in 10")
_ANSWERABLE = (
    ("found something", "found"),
    ("right document at 1", "document_at_1"),
    ("right document within 3", "document_within_3"),
    ("key facts in the text, word for word", "facts"),
    ("… without those in a translation", "facts_without_these"),
)


@dataclass(frozen=True)
class Measured:
    """What was measured, and by what."""

    command: str
    data: dict[str, Any]
    embedder: dict[str, Any]
    store: str
    fit: LevelFit
    rule: LevelRule

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def head(self) -> str:
        """The first lines of the report."""
        data, embedder = self.data, self.embedder
        sizes = f"{data['documents']:,} documents, {data['chunks']:,} chunks, {data['questions']:,} questions"
        left_out = f" ({data['left_out']:,} more that nobody judged are left out)" if data["left_out"] else ""
        unread = f"; {data['unread']:,} files are no documents" if data["unread"] else ""
        made_by = f"{embedder['name']} {embedder['version']}, {embedder['dimension']} dimensions"
        lines = [
            f"{data['name']}: {sizes}{left_out}{unread}",
            f"embedder {made_by}; store: {self.store}",
            f"levels: {_rule_text(self.rule)}",
        ]
        if self.fit.fitted_on:
            lines.append(f"  the embedder's fit is of {self.fit.date}: {self.fit.fitted_on}")
        return "\n".join(lines)


def measured(command: str, site: EvaluationSite, data: EvaluationData) -> Measured:
    """Describe a loaded site and its data."""
    made = site.embedder
    return Measured(
        command=command,
        data={
            "name": data.name,
            "documents": len(data.documents),
            "groups": len(set(data.group_of().values())),
            "chunks": site.source.chunk_count,
            "questions": len(data.questions),
            "left_out": data.left_out,
            "unread": data.unread,
        },
        embedder={"name": made.name, "version": made.version, "dimension": made.dimension},
        store=site.store_kind,
        fit=made.fit,
        rule=site.rule,
    )


def retrieval_tables(result: RetrievalResult) -> str:
    """The product beside its baselines, then the product by language and kind, then its levels."""
    product = result.systems[0]
    compared = [
        (
            f"against {one.baseline}",
            signed(one.recall_at_1),
            interval(one.recall_at_1_interval, with_sign=True),
            signed(one.mrr),
            interval(one.mrr_interval, with_sign=True),
            f"+{one.won}/-{one.lost}",
        )
        for one in result.comparisons
    ]
    own = [(one.name, *_intervals(one)) for one in result.systems]
    parts = [
        "Ranking (equal scores count as wrong)",
        table(("", *_RANKING_HEADS), [(one.name, *_ranking(one.overall)) for one in result.systems]),
        "95 % intervals, bootstrap over the questions",
        table(("", "recall@1", "", "MRR", ""), own),
        "The product minus a baseline, paired; questions whose first answer became right / wrong",
        table(("", "recall@1", "", "MRR", "", "won/lost"), compared),
        "The product by language and kind",
        table(("", *_RANKING_HEADS), _groups(product.by_language) + _groups(product.by_kind)),
        "Levels of the lookups: is the first document served the right one? (share, count, 95 % interval)",
        _level_table(result.levels),
    ]
    return _joined(parts)


def levels_tables(result: LevelsResult) -> str:
    """Levels, PRECISE, questions with and without an answer."""
    parts = [
        "P(right | level) over the questions that documents answer (share, count, 95 % interval)",
        _level_table(result.levels),
        "PRECISE over all questions",
        table(
            ("", "share  count  95 % interval"),
            [
                ("false PRECISE, with the check", share(result.precise.wrong)),
                ("false PRECISE, by the literal rule", share(result.precise.literal_wrong)),
                ("right ones that the check keeps", share(result.precise.kept)),
            ],
        ),
        "Questions that documents answer",
        _answerable_table({"all": result.answerable, **result.by_language}),
        "Questions without an answer: those that got something all the same",
        table(
            ("", "found  count  95 % interval", *(level.value if level else NOT_FOUND for level in LEVELS)),
            [(one.kind, share(one.found), *(str(count) for count in one.levels.values())) for one in result.no_answer],
        ),
    ]
    return _joined(parts)


def _rule_text(rule: LevelRule) -> str:
    found = f"found from {rule.reference:g}"
    if rule.covered_reference is not None:
        found += f", or from {rule.covered_reference:g} with {rule.min_coverage:g} of the question covered"
        found += f" and {found_from(rule, NEARLY_ALL):g} with {NEARLY_ALL:g}"
    if rule.agreement is not None:
        support = f" and it adds up to {rule.min_support:g} with the share covered" if rule.min_support else ""
        return f"{found}; highly relevant from {rule.agreement:g} where both searches agree{support}"
    return f"{found}; highly relevant from {rule.highly_relevant:g}"


def _ranking(one: RankingFigures) -> tuple[str, ...]:
    figures = (one.recall_at_1, one.recall_at_3, one.recall_at_10, one.mrr, one.ndcg_at_10, one.document_recall_at_1)
    twin = NOTHING if one.twin_within_10 is None else f"{one.twin_within_10:.3f} of {one.twins}"
    return (str(one.count), *(number(figure) for figure in figures), twin)


def _intervals(one: SystemFigures) -> tuple[str, str, str, str]:
    overall = one.overall
    return (
        number(overall.recall_at_1),
        interval(one.recall_at_1_interval),
        number(overall.mrr),
        interval(one.mrr_interval),
    )


def _groups(groups: Mapping[str, RankingFigures]) -> list[tuple[str, ...]]:
    return [(name, *_ranking(figures)) for name, figures in groups.items()]


def _level_table(levels: list[LevelShares]) -> str:
    rows = [
        (one.level, str(one.count), share(one.passage), share(one.document), share(one.any_document)) for one in levels
    ]
    return table(("", "lookups", "right passage", "right document", "… or the supplement's"), rows)


def _answerable_table(groups: Mapping[str, AnswerableFigures]) -> str:
    rows = [(label, *(share(getattr(one, field)) for one in groups.values())) for label, field in _ANSWERABLE]
    return table(("", *groups), rows)


def _joined(parts: list[str]) -> str:
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return "\n\n".join(f"{title}\n{body}" for title, body in pairs)
