"""Bar charts as plain SVG figures: geometry as attributes, so that the strict CSP holds without style attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PLOT_TOP = 34.0
PLOT_BASE = 176.0
"""Heights in the 212 px of ``k-chart``: the axis lies at 176, labels below it; thresholds are named above 34."""


@dataclass(frozen=True)
class Bar:
    """One bar: x and width in percent of the plot, y and height in pixels."""

    x: str
    width: str
    middle: str
    y: str
    height: str
    tone: str
    label: str
    value: int
    value_y: str


@dataclass(frozen=True)
class Tick:
    """One line of the grid."""

    y: str
    text_y: str
    label: str


@dataclass(frozen=True)
class Cut:
    """A threshold drawn into the plot."""

    x: str
    label: str
    key: str


@dataclass(frozen=True)
class Chart:
    """What the template draws."""

    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    cuts: Sequence[Cut] = ()


def nice_step(highest: int) -> int:
    """A step of 1, 2 or 5 times a power of ten that gives at most five lines."""
    if highest <= 5:
        return 1
    raw = highest / 5
    power = 10 ** math.floor(math.log10(raw))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= raw))


def _scale(highest: int) -> tuple[float, list[Tick]]:
    step = nice_step(max(highest, 1))
    top = step * math.ceil(max(highest, 1) / step)
    unit = (PLOT_BASE - PLOT_TOP) / top
    ticks = [
        Tick(y=f"{PLOT_BASE - value * unit:.1f}", text_y=f"{PLOT_BASE - value * unit + 4:.1f}", label=f"{value:,}")
        for value in range(0, top + 1, step)
    ]
    return unit, ticks


def bar_chart(items: Sequence[tuple[str, str, int]]) -> Chart:
    """Bars side by side from ``(label, tone, value)``."""
    unit, ticks = _scale(max((value for _label, _tone, value in items), default=0))
    slot = 100 / max(len(items), 1)
    bars = [_bar(slot * number + slot * 0.2, slot * 0.6, unit, *item) for number, item in enumerate(items)]
    return Chart(bars, ticks)


def histogram(counts: Sequence[tuple[float, int]], bins: int, cuts: Sequence[tuple[str, float]]) -> Chart:
    """Bins from 0 to 1 by lower edge. A bin's tone says which level its similarities would get."""
    unit, ticks = _scale(max((count for _edge, count in counts), default=0))
    width = 100 / bins
    limits = dict(cuts)
    bars = [
        _bar(edge * 100 + width * 0.08, width * 0.84, unit, f"{edge:.2f}", _tone(edge, limits), count)
        for edge, count in counts
    ]
    # Where HIGHLY_RELEVANT takes no more similarity than REFERENCE, two labels would lie on one line.
    drawn = [(key, value) for key, value in cuts if key == "reference" or value != limits["reference"]]
    return Chart(bars, ticks, [Cut(x=f"{value * 100:.2f}%", label=f"{value:.2f}", key=key) for key, value in drawn])


def _tone(edge: float, limits: dict[str, float]) -> str:
    if edge >= limits["highly_relevant"]:
        return "blue"
    return "ochre" if edge >= limits["reference"] else "plum"


def _bar(x: float, width: float, unit: float, label: str, tone: str, value: int) -> Bar:
    height = value * unit
    return Bar(
        x=f"{x:.2f}%",
        width=f"{width:.2f}%",
        middle=f"{x + width / 2:.2f}%",
        y=f"{PLOT_BASE - height:.1f}",
        height=f"{height:.1f}",
        tone=tone,
        label=label,
        value=value,
        value_y=f"{PLOT_BASE - height - 5:.1f}",
    )
