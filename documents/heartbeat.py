"""Whether the Celery workers answer: whoever takes a task leaves the time, and ``/readyz`` looks how old it is."""

from __future__ import annotations

import time

from django.conf import settings
from django.utils.translation import gettext as _

from clients.interfaces import PartHealth
from documents.counters import put, read

SILENT_SECONDS = 180
"""The beat sends a task every minute: after three a worker, or the beat, is not there."""
_SEEN = "worker_seen"


def worker_was_here() -> None:
    """Note that a worker has taken a task."""
    put(_SEEN, int(time.time()))


def workers_state() -> PartHealth:
    """Degraded where a site with a broker has had no worker for three minutes, with the remedy."""
    if not settings.CELERY_BROKER_URL:
        return PartHealth("ok")
    remedy = _("Start the Celery worker and the beat, and look whether the broker answers.")
    seen = read(_SEEN)
    if not seen:
        return PartHealth("degraded", _("No worker has answered yet.") + " " + remedy)
    silent = time.time() - seen
    if silent <= SILENT_SECONDS:
        return PartHealth("ok")
    said = _("No worker has answered for %(minutes)d minutes.") % {"minutes": int(silent // 60)}
    return PartHealth("degraded", f"{said} {remedy}")
