"""P(right | level): how often each level's promise was kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from observability.evaluation.asking import Asked
from observability.evaluation.intervals import Share, counted
from retrieval.relevance import RelevanceLevel

LEVELS = (RelevanceLevel.PRECISE, RelevanceLevel.HIGHLY_RELEVANT, RelevanceLevel.REFERENCE, None)
NOT_FOUND = "not found"


@dataclass(frozen=True)
class LevelShares:
    """One level's questions: is the first document served the right passage, the right document; is either of both?

    ``passage`` is None where the documents are no passages.
    """

    level: str
    count: int
    passage: Share | None
    document: Share
    any_document: Share


def level_shares(asked: Sequence[Asked], *, has_passages: bool) -> list[LevelShares]:
    """A row for each level, misses last."""
    return [
        _shares([one for one in asked if one.level is level], level.value if level else NOT_FOUND, has_passages)
        for level in LEVELS
    ]


def _shares(asked: Sequence[Asked], level: str, has_passages: bool) -> LevelShares:
    return LevelShares(
        level=level,
        count=len(asked),
        passage=counted([one.passage_right for one in asked]) if has_passages else None,
        document=counted([one.document_right for one in asked]),
        any_document=counted([one.any_document_right for one in asked]),
    )
