"""The thresholds that levels are decided by at present, and whether the store has outgrown their fit."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError

from agents.level_fit import present_fit
from agents.tools import retrieval_settings
from clients.interfaces import Embedder
from documents.terms import term_counts
from retrieval.relevance import LevelRule, rule_for

OUTGROWN = 10
"""The best of more is higher: a fit holds until the store has so many times the chunks that it was made on."""


@dataclass(frozen=True)
class Growth:
    """The store has ``chunks``, and the thresholds in force were fitted on ``fitted``."""

    chunks: int
    fitted: int


def rule_in_force(embedder: Embedder) -> LevelRule:
    """The environment's where set, then what ``calibrate --apply`` saved, then the shipped fit (SPEC section 7)."""
    return rule_for(retrieval_settings(embedder), embedder.fit)


def level_thresholds(embedder: Embedder) -> dict[str, float]:
    """The lines in the similarity chart: what HIGHLY_RELEVANT takes of similarity at least, and REFERENCE.

    A fit may ask for more than similarity besides, so that a lookup above a line need not have the level.
    """
    rule = rule_in_force(embedder)
    high = rule.highly_relevant if rule.agreement is None else max(rule.agreement, rule.reference)
    return {"highly_relevant": high, "reference": rule.reference}


def chunks_at_hand() -> int:
    """How many chunks the store has, by the rows; one cheap query."""
    _counts, chunks = term_counts([])
    return chunks


def growth_beyond_fit(embedder: Embedder) -> Growth | None:
    """Where the store has grown tenfold since the fit in force; None too where no threshold comes from a fit."""
    if None not in (settings.RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD, settings.RETRIEVAL_REFERENCE_THRESHOLD):
        return None
    fitted = present_fit(embedder).chunks
    if not fitted:  # nobody wrote down on how many
        return None
    try:
        chunks = chunks_at_hand()
    except DatabaseError:  # its own part of /readyz says so
        return None
    return Growth(chunks, fitted) if chunks >= OUTGROWN * fitted else None
