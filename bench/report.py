"""Figures beside their targets."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = float | int | str


@dataclass
class Report:
    """Collects figures and prints each with its verdict."""

    title: str
    missed: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Print the heading."""
        print(self.title, flush=True)

    def figure(self, name: str, value: Value, unit: str = "", *, target: str = "", good: bool | None = None) -> None:
        """One line; ``good`` is None where there is no target."""
        shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        verdict = "" if good is None else ("  ok" if good else "  MISSED")
        print(f"  {name:<58} {shown:>12} {unit:<10} {target:<22}{verdict}", flush=True)
        if good is False:
            self.missed.append(name)

    def at_most(self, name: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that must not be above ``limit``."""
        self.figure(name, value, unit, target=f"at most {limit:g}", good=value <= limit)

    def at_least(self, name: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that must not be below ``limit``."""
        self.figure(name, value, unit, target=f"at least {limit:.4g}", good=value >= limit)

    def equal(self, name: str, value: Value, wanted: Value, unit: str = "") -> None:
        """A figure that must be just this."""
        self.figure(name, value, unit, target=str(wanted), good=value == wanted)

    def code(self) -> int:
        """The exit code: 1 where a target was missed."""
        return 1 if self.missed else 0


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile of unsorted values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]
