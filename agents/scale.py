"""Similarities on a line from 0 to 1 with the bounds drawn in: what the lookup test page's picture is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.explanation import Hit, Threshold

NEAR = 0.12
"""Two labels of bounds that are nearer than this stand on either side of their lines, not under them."""
NARROW, TINY = 0.2, 0.06


@dataclass(frozen=True)
class Zone:
    """A stretch of the line; places are percentages as text.

    ``soft``: what lies in it needs more than similarity. ``room``: ``narrow`` or ``tiny`` where its name finds
    none on a small screen.
    """

    tone: str
    name: str
    x: str
    width: str
    middle: str
    soft: bool = False
    room: str = ""


@dataclass(frozen=True)
class Cut:
    """A bound: its place, its figure, and on which side of its line the figure stands (``e``, ``s``, "" for under).

    ``low``: a line further down, between two others.
    """

    x: str
    label: str
    side: str = ""
    low: bool = False


@dataclass(frozen=True)
class Dot:
    """One document's similarity."""

    x: str
    tone: str
    label: str
    title: str


@dataclass(frozen=True)
class Scale:
    """The picture. ``zones`` have the levels' names: ``miss``, ``covered``, ``reference``, ``high``."""

    zones: tuple[Zone, ...]
    cuts: tuple[Cut, ...]
    dots: tuple[Dot, ...]

    @property
    def tall(self) -> bool:
        """Does a figure stand a line further down?"""
        return any(cut.low for cut in self.cuts)


def scale_of(hits: Sequence[Hit], thresholds: Sequence[Threshold]) -> Scale:
    """The documents whose similarity is known, the nearest first, between the bounds that decided."""
    dots = sorted((dot for hit in hits if (dot := _dot(hit)) is not None), key=lambda dot: dot.label, reverse=True)
    return Scale(_zones(thresholds), _cuts(thresholds), tuple(dots))


def _zones(thresholds: Sequence[Threshold]) -> tuple[Zone, ...]:
    bounds = {one.name: min(max(one.value, 0.0), 1.0) for one in thresholds}
    agreed = "agreement" in bounds
    high, reference = bounds["agreement"] if agreed else bounds["highly_relevant"], bounds["reference"]
    lowest = min(bounds.get("nearly_all", reference), reference)
    # With agreement asked for, similarity alone never tells the upper two levels apart.
    high = max(high, reference if agreed else lowest)
    reference = min(reference, high)
    stretches = [
        ("none", "miss", 0.0, lowest, False),
        ("ochre", "covered", lowest, reference, True),
        ("ochre", "reference", reference, high, False),
        ("blue", "high", high, 1.0, agreed),
    ]
    return tuple(
        Zone(tone, name, _percent(start), _percent(end - start), _percent((start + end) / 2), soft, _room(end - start))
        for tone, name, start, end, soft in stretches
        if end > start
    )


def _room(width: float) -> str:
    return "tiny" if width < TINY else "narrow" if width < NARROW else ""


def _cuts(thresholds: Sequence[Threshold]) -> tuple[Cut, ...]:
    values = sorted({min(max(one.value, 0.0), 1.0) for one in thresholds})
    cuts = []
    for place, value in enumerate(values):
        near_next = place + 1 < len(values) and values[place + 1] - value < NEAR
        near_last = place > 0 and value - values[place - 1] < NEAR
        side = "" if near_next == near_last else "e" if near_next else "s"
        cuts.append(Cut(_percent(value), f"{value:.2f}", side, low=near_next and near_last))
    return tuple(cuts)


def _dot(hit: Hit) -> Dot | None:
    one = hit.candidate
    if one is None or one.similarity is None:
        return None
    tone = "blue" if one.highly_relevant else "ochre" if one.found else "none"
    return Dot(_percent(min(one.similarity, 1.0)), tone, hit.similarity, hit.document.title)


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"
