"""Times as people say them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext


def moment(when: datetime | None) -> str:
    """“Today, 09:42”, “Yesterday, 17:20”, “12 April”; with the year where it is another."""
    if when is None:
        return ""
    local = timezone.localtime(when)
    today = timezone.localdate()
    if local.date() == today:
        return gettext("Today, %(time)s") % {"time": f"{local:%H:%M}"}
    if local.date() == today - timedelta(days=1):
        return gettext("Yesterday, %(time)s") % {"time": f"{local:%H:%M}"}
    return date_format(local, gettext("j F") if local.year == today.year else gettext("j F Y"))
