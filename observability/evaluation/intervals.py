"""95 % intervals: Wilson's for shares, the bootstrap's for means. Pure; the bootstrap is seeded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z = 1.959964
"""The standard normal quantile at 97.5 %."""
SEED = 42
RESAMPLES = 5_000


@dataclass(frozen=True)
class Share:
    """``hits`` of ``of``, with the share and its interval; these are None where ``of`` is 0."""

    hits: int
    of: int
    share: float | None
    low: float | None
    high: float | None


def share_of(hits: int, of: int) -> Share:
    """A share with Wilson's score interval ("Probable Inference", JASA, 1927), honest also near 0 and 1."""
    if not of:
        return Share(0, 0, None, None, None)
    share = hits / of
    centre = share + Z * Z / (2 * of)
    spread = Z * math.sqrt(share * (1 - share) / of + Z * Z / (4 * of * of))
    scale = 1 + Z * Z / of
    return Share(hits, of, share, max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def counted(flags: Sequence[bool]) -> Share:
    """How many of these are true."""
    return share_of(sum(flags), len(flags))


def bootstrap_interval(
    values: Sequence[float], *, seed: int = SEED, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """The percentile interval of the mean (Efron and Tibshirani, 1993, chapter 13); None without values.

    On the differences of two systems question by question it is the paired one: the questions are drawn, not the
    systems.
    """
    if not values:
        return None
    drawn = np.random.default_rng(seed).integers(0, len(values), size=(resamples, len(values)))
    means = np.asarray(values, dtype=np.float64)[drawn].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
