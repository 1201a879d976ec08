"""Which day of the site's time zone a moment belongs to, counted without the database's help.

MySQL and MariaDB convert between zones only where somebody has loaded their zone tables, and answer NULL elsewhere. So
rows are counted by quarters of an hour in UTC (no zone's offset is finer), and Python says which day a quarter is in.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import ExtractMinute, Floor, TruncHour
from django.utils import timezone


def by_quarter(rows: QuerySet[Any], column: str) -> QuerySet[Any]:
    """The rows with ``hour`` (in UTC) and ``quarter`` (0 to 3) of a moment, to be counted by."""
    minute = ExtractMinute(column, tzinfo=UTC)
    counted: QuerySet[Any] = rows.annotate(
        hour=TruncHour(column, tzinfo=UTC), minute=minute, quarter=Floor(F("minute") / 15.0)
    )
    return counted


def day_of(row: dict[str, Any]) -> date:
    """The local day of a counted row."""
    hour: datetime = row["hour"]
    return timezone.localdate(hour + timedelta(minutes=15 * int(row["quarter"])))
