"""What a dashboard may be narrowed by: time, domain, channel, model. Bad values are refused, never ignored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from documents.models import ToolInvocation

LOOKUP_TOOL = "lookup_knowledge"
KNOWN = ("from", "to", "domain", "channel", "model")
# What people and programs ask; trying things out is left off the pages unless it is asked for.
REAL_CHANNELS = tuple(
    channel
    for channel in ToolInvocation.Channel.values
    if channel not in {ToolInvocation.Channel.ADMIN, ToolInvocation.Channel.DEMO}
)


class BadFilter(Exception):  # noqa: N818 (a refusal)
    """A filter that cannot be understood: its name and what it should be."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.detail = detail


@dataclass(frozen=True)
class Filters:
    """Which lookups a panel counts. Empty means all; ``since`` is inclusive, ``until`` is not."""

    since: datetime | None = None
    until: datetime | None = None
    domain: str = ""
    channels: tuple[str, ...] = ()
    model: str = ""

    def apply(self) -> QuerySet[ToolInvocation]:
        """The recorded lookups that pass."""
        rows = ToolInvocation.objects.filter(tool_name=LOOKUP_TOOL).order_by()
        wanted: dict[str, Any] = {
            "created_at__gte": self.since,
            "created_at__lt": self.until,
            "domain": self.domain or None,
            "channel__in": self.channels or None,
            "model": self.model or None,
        }
        return rows.filter(**{name: value for name, value in wanted.items() if value is not None})


def read_filters(query: QueryDict) -> Filters:
    """Filters from an address. ``channel`` may be repeated or comma-separated. Raises :class:`BadFilter`."""
    unknown = sorted(set(query) - set(KNOWN))
    if unknown:
        raise BadFilter(unknown[0], _("Unknown filter. Known: %(names)s.") % {"names": ", ".join(KNOWN)})
    channels = tuple(part.strip() for value in query.getlist("channel") for part in value.split(",") if part.strip())
    for channel in channels:
        if channel not in ToolInvocation.Channel.values:
            raise BadFilter("channel", _("One of: %(names)s.") % {"names": ", ".join(ToolInvocation.Channel.values)})
    return Filters(
        since=_moment(query, "from"),
        until=_moment(query, "to"),
        domain=_text(query, "domain"),
        channels=channels,
        model=_text(query, "model"),
    )


def _text(query: QueryDict, name: str) -> str:
    value = query.get(name, "").strip()
    if "\0" in value or len(value) > 200:
        raise BadFilter(name, _("At most 200 characters."))
    return value


def _moment(query: QueryDict, name: str) -> datetime | None:
    """An ISO 8601 date or time. A date is its first moment, as ``to`` its last; without an offset, the site's time."""
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        day = parse_date(text)
        if day is not None:
            return _start_of(date.fromordinal(day.toordinal() + 1) if name == "to" else day)
        moment = parse_datetime(text.replace(" ", "+"))
        if moment is not None:
            return (moment if timezone.is_aware(moment) else timezone.make_aware(moment)).astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, or none before or behind it in UTC
        pass
    raise BadFilter(name, _("An ISO 8601 date or time, such as 2026-04-12 or 2026-04-12T09:30:00Z."))


def _start_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min)).astimezone(UTC)
