"""One function a panel: rows counted by SQL, as the three statements of the design documents count them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, QuerySet
from django.db.models.functions import Floor

from clients.registry import get_embedder
from documents.models import ToolInvocation
from observability.filters import Filters
from observability.local_days import by_quarter, day_of
from observability.thresholds import level_thresholds

BINS = 20
"""The similarity histogram has bins of 1/20; 1.0 is counted in the last one."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Panel:
    """A panel's figures. ``columns`` is the order of the CSV; ``extra`` stands beside ``rows`` in the JSON."""

    name: str
    columns: tuple[str, ...]
    rows: Rows
    extra: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """``{rows: […], …}``, as API.md has it."""
        return {"rows": self.rows, **self.extra}


def volume(filters: Filters) -> Panel:
    """Lookups a day, in the site's time zone, and how many of them found nothing or were repeated."""
    quarters = by_quarter(filters.apply(), "created_at").values("hour", "quarter", "relevance_level")
    table: dict[str, dict[str, Any]] = {}
    for row in quarters.annotate(count=Count("pk")):
        day = day_of(row).isoformat()
        entry = table.setdefault(day, {"day": day, "lookups": 0, "misses": 0, "deduped": 0})
        entry["lookups"] += row["count"]
        entry["misses"] += row["count"] if row["relevance_level"] is None else 0
        entry["deduped"] += row["count"] if row["relevance_level"] == "DEDUPED" else 0
    return Panel("volume", ("day", "lookups", "misses", "deduped"), [table[day] for day in sorted(table)], {})


def relevance_levels(filters: Filters) -> Panel:
    """``SELECT relevance_level, COUNT(*) … GROUP BY relevance_level``; null is a miss."""
    return _grouped("relevance-levels", filters.apply(), "relevance_level")


def dedup_reasons(filters: Filters) -> Panel:
    """``SELECT dedup_reason, COUNT(*) … GROUP BY dedup_reason``; null is a lookup that was not repeated."""
    return _grouped("dedup-reasons", filters.apply(), "dedup_reason")


def similarity(filters: Filters) -> Panel:
    """``l1_top_similarity`` in bins of 0.05 by lower edge; null counts the lookups that did not search by meaning."""
    binned = filters.apply().annotate(slot=Floor(F("l1_top_similarity") * float(BINS))).values("slot")
    counts: dict[int | None, int] = {}
    for row in binned.annotate(count=Count("pk")):
        slot = None if row["slot"] is None else min(int(row["slot"]), BINS - 1)
        counts[slot] = counts.get(slot, 0) + row["count"]
    slots = sorted(slot for slot in counts if slot is not None)
    rows: Rows = [{"bin": slot / BINS, "count": counts[slot]} for slot in slots]
    if None in counts:
        rows.append({"bin": None, "count": counts[None]})
    return Panel("similarity", ("bin", "count"), rows, {"thresholds": level_thresholds(get_embedder())})


def _grouped(name: str, rows: QuerySet[ToolInvocation], column: str) -> Panel:
    grouped = rows.values(column).annotate(count=Count("pk")).order_by("-count", column)
    return Panel(name, (column, "count"), [{column: row[column], "count": row["count"]} for row in grouped], {})


PANELS: dict[str, Callable[[Filters], Panel]] = {
    "volume": volume,
    "relevance-levels": relevance_levels,
    "dedup-reasons": dedup_reasons,
    "similarity": similarity,
}
