"""Plain text tables: the first column to the left, figures to the right, CJK characters two columns wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from observability.evaluation.intervals import Share

NOTHING = "–"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The lines of a table, each beginning with two blanks."""
    every = [heads, *rows]
    widths = [max(width(row[column]) for row in every) for column in range(len(heads))]
    return "\n".join(_line(row, widths) for row in every)


def width(text: str) -> int:
    """Columns that a terminal gives to this text."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def number(value: float | None) -> str:
    """Three decimals."""
    return NOTHING if value is None else f"{value:.3f}"


def signed(value: float) -> str:
    """Three decimals with the sign in front."""
    return f"{value:+.3f}"


def interval(ends: tuple[float, float] | None, *, with_sign: bool = False) -> str:
    """``[low, high]``."""
    if ends is None:
        return NOTHING
    shown = signed if with_sign else number
    return f"[{shown(ends[0])}, {shown(ends[1])}]"


def share(value: Share | None) -> str:
    """The share, what it is of, and its interval."""
    if value is None or value.share is None:
        return NOTHING
    return f"{value.share:.3f}  {value.hits}/{value.of}  [{number(value.low)}, {number(value.high)}]"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [_padded(cell, wide, left=not column) for column, (cell, wide) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(["", *cells]).rstrip()


def _padded(cell: str, wide: int, *, left: bool) -> str:
    blanks = " " * (wide - width(cell))
    return cell + blanks if left else blanks + cell
