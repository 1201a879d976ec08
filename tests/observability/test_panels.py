"""The three distributions are those of the design documents' SQL, whatever was recorded."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict

from documents.models import ToolInvocation
from observability.filters import BadFilter, Filters, read_filters
from observability.panels import BINS, PANELS

pytestmark = pytest.mark.django_db

LEVELS = ["PRECISE", "HIGHLY_RELEVANT", "REFERENCE", "DEDUPED", None]


def record(**values: Any) -> ToolInvocation:
    moment = values.pop("created_at", None)
    row = ToolInvocation.objects.create(**{"channel": "api", "tool_name": "lookup_knowledge", **values})
    if moment is not None:
        ToolInvocation.objects.filter(pk=row.pk).update(created_at=moment)
    return row


def record_many(count: int, seed: int) -> None:
    pick = random.Random(seed)
    for _number in range(count):
        level = pick.choice(LEVELS)
        record(
            relevance_level=level,
            dedup_reason=pick.choice(["doc_retrieved", "domain_retrieved"]) if level == "DEDUPED" else None,
            l1_top_similarity=pick.choice([None, pick.random(), 0.0, 1.0, 0.5, 0.75, 0.15, 0.35]),
            tool_name=pick.choice(["lookup_knowledge", "lookup_knowledge", "read_document"]),
        )


def sql(statement: str) -> dict[Any, int]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return dict(cursor.fetchall())


@pytest.mark.parametrize(
    ("panel", "column"), [("relevance-levels", "relevance_level"), ("dedup-reasons", "dedup_reason")]
)
def test_a_distribution_equals_its_statement(panel: str, column: str) -> None:
    record_many(120, seed=11)
    statement = f"SELECT {column}, COUNT(*) FROM tool_invocation WHERE tool_name = 'lookup_knowledge' GROUP BY {column}"  # noqa: S608
    rows = PANELS[panel](Filters()).rows
    assert {row[column]: row["count"] for row in rows} == sql(statement)
    assert None in {row[column] for row in rows}


def test_the_similarity_bins_add_up_to_the_statement_over_raw_values() -> None:
    record_many(200, seed=12)
    raw = sql(
        "SELECT l1_top_similarity, COUNT(*) FROM tool_invocation "
        "WHERE tool_name = 'lookup_knowledge' GROUP BY l1_top_similarity"
    )
    expected: dict[float | None, int] = {}
    for value, count in raw.items():
        edge = None if value is None else min(int(value * BINS), BINS - 1) / BINS
        expected[edge] = expected.get(edge, 0) + count
    panel = PANELS["similarity"](Filters())
    assert {row["bin"]: row["count"] for row in panel.rows} == expected
    assert panel.rows[-1]["bin"] is None
    assert set(panel.extra["thresholds"]) == {"highly_relevant", "reference"}


@pytest.mark.parametrize(
    ("value", "edge"), [(0.0, 0.0), (0.049, 0.0), (0.05, 0.05), (0.15, 0.15), (0.75, 0.75), (1.0, 0.95)]
)
def test_a_bin_is_named_by_its_lower_edge(value: float, edge: float) -> None:
    record(l1_top_similarity=value)
    assert PANELS["similarity"](Filters()).rows == [{"bin": edge, "count": 1}]


def test_filters_narrow_by_time_domain_channel_and_model() -> None:
    day = datetime(2026, 4, 12, tzinfo=UTC)
    record(domain="payment", channel="api", model="m1", created_at=day)
    record(domain="payment", channel="demo", model="m1", created_at=day)
    record(domain="api", channel="api", model="m2", created_at=day + timedelta(days=1))

    def count(query: str) -> int:
        return sum(row["count"] for row in PANELS["relevance-levels"](read_filters(QueryDict(query))).rows)

    assert count("") == 3
    assert count("domain=payment") == 2
    assert count("channel=api") == 2
    assert count("channel=api,demo&model=m1") == 2
    assert count("channel=api&channel=demo") == 3
    assert count("from=2026-04-12&to=2026-04-12") == 2
    assert count("from=2026-04-13T00:00:00Z") == 1
    assert count("to=2026-04-12T00:00:00%2B00:00") == 0


@pytest.mark.parametrize(
    "query", ["from=yesterday", "to=2026-13-01", "channel=fax", "colour=red", "domain=" + "x" * 300]
)
def test_a_filter_that_cannot_be_understood_is_refused(query: str) -> None:
    with pytest.raises(BadFilter):
        read_filters(QueryDict(query))


def test_volume_counts_each_day_once() -> None:
    day = datetime(2026, 4, 12, 9, tzinfo=UTC)
    record(created_at=day, relevance_level="PRECISE")
    record(created_at=day, relevance_level=None)
    record(created_at=day + timedelta(days=1), relevance_level="DEDUPED")
    assert PANELS["volume"](Filters()).rows == [
        {"day": "2026-04-12", "lookups": 2, "misses": 1, "deduped": 0},
        {"day": "2026-04-13", "lookups": 1, "misses": 0, "deduped": 1},
    ]


def test_a_day_of_the_volume_is_a_day_of_the_sites_zone(settings: Any) -> None:
    """Nepal is 5:45 ahead: its day ends at 18:15 UTC. New York's clocks went forward on 8 March 2026."""
    record(created_at=datetime(2026, 4, 12, 18, 14, 59, tzinfo=UTC), relevance_level="PRECISE")
    record(created_at=datetime(2026, 4, 12, 18, 15, tzinfo=UTC), relevance_level="PRECISE")
    record(created_at=datetime(2026, 3, 8, 4, 59, tzinfo=UTC), relevance_level="PRECISE")
    record(created_at=datetime(2026, 3, 9, 3, 59, tzinfo=UTC), relevance_level="PRECISE")
    days = {}
    for zone in ("Asia/Kathmandu", "America/New_York"):
        settings.TIME_ZONE = zone
        days[zone] = {row["day"]: row["lookups"] for row in PANELS["volume"](Filters()).rows}
    assert days["Asia/Kathmandu"] == {"2026-03-08": 1, "2026-03-09": 1, "2026-04-12": 1, "2026-04-13": 1}
    assert days["America/New_York"] == {"2026-03-07": 1, "2026-03-08": 1, "2026-04-12": 2}
