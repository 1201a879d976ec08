"""The report of a reconcile: what it found, kept for the staff's page and for ``/readyz``."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import ngettext

from clients.interfaces import PartHealth
from documents.models import ReconcileRun
from documents.reconcile_findings import LIGHT, Finding, restored

AT_START, EACH_MINUTE, COMMAND = "start", "minute", "command"
"""Who asked for it, beside people, who are there by name."""
FULL_EVERY = timedelta(hours=1)
FULL_AGAIN = timedelta(minutes=5)
"""…where the last full pass left something wrong."""
_FINDINGS_KEPT = 200
_RUNS_KEPT = 50


@dataclass
class ReconcileReport:
    """One pass. ``seconds`` is how long it took, ``began_at`` when it began."""

    by: str
    full: bool
    dry_run: bool
    began_at: datetime = field(default_factory=timezone.now)
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """How many findings stay wrong."""
        return sum(finding.wrong for finding in self.findings)

    @property
    def mended(self) -> int:
        """How many were put right."""
        return sum(finding.mended for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """What ``reconcile --json`` prints."""
        return {
            "by": self.by,
            "full": self.full,
            "dry_run": self.dry_run,
            "began_at": self.began_at.isoformat(),
            "seconds": round(self.seconds, 3),
            "found": len(self.findings),
            "mended": self.mended,
            "wrong": self.wrong,
            "findings": [finding.as_dict() for finding in self.findings],
        }


def remember(report: ReconcileReport) -> None:
    """Keep it. Of quiet minutes only the last one stays, of all others the last fifty."""
    first = sorted(report.findings, key=lambda one: not one.wrong)[:_FINDINGS_KEPT]
    run = ReconcileRun.objects.create(
        began_at=report.began_at,
        seconds=report.seconds,
        by=report.by[:150],
        full=report.full,
        found=len(report.findings),
        wrong=report.wrong,
        findings=[finding.stored() for finding in first],
    )
    earlier = ReconcileRun.objects.filter(pk__lt=run.pk)
    earlier.filter(full=False, found=0).delete()
    oldest = ReconcileRun.objects.order_by("-pk").values_list("pk", flat=True)[_RUNS_KEPT - 1 : _RUNS_KEPT].first()
    if oldest is not None:
        # The last full pass is what the vectors' state is known by: it stays, however many minutes came after it.
        full = ReconcileRun.objects.filter(full=True).order_by("-pk").values_list("pk", flat=True)[:1]
        earlier.filter(pk__lt=oldest).exclude(pk__in=list(full)).delete()


def findings_of(run: ReconcileRun) -> list[Finding]:
    """The findings that were kept with a run, those that stay wrong first."""
    return [finding for stored in run.findings if (finding := restored(stored)) is not None]


def full_is_due() -> bool:
    """Whether the costly checks are to be made again."""
    last = ReconcileRun.objects.filter(full=True).order_by("-pk").first()
    return last is None or _is_past(last.began_at, FULL_AGAIN if last.wrong else FULL_EVERY)


def seen_since(seconds: float) -> bool:
    """Whether any process has made a pass within the last ``seconds``."""
    last = ReconcileRun.objects.order_by("-pk").values_list("began_at", flat=True).first()
    return last is not None and not _is_past(last, timedelta(seconds=seconds))


def still_wrong() -> list[Finding]:
    """What the last passes left wrong: the newest word on each kind of thing."""
    full = ReconcileRun.objects.filter(full=True).order_by("-pk").first()
    newer = ReconcileRun.objects.filter(full=False, pk__gt=full.pk if full else 0).order_by("-pk").first()
    found = findings_of(full) if full else []
    if newer is not None:
        found = [one for one in found if one.kind not in LIGHT] + findings_of(newer)
    return [one for one in found if one.wrong]


def reconcile_state() -> PartHealth:
    """Degraded while the last pass left something wrong; names no document, since ``/readyz`` is public."""
    count = len(still_wrong())
    if not count:
        return PartHealth("ok")
    words = ngettext(
        "%(count)d thing stays wrong between files, rows and vectors: see /admin/reconcile/",
        "%(count)d things stay wrong between files, rows and vectors: see /admin/reconcile/",
        count,
    )
    return PartHealth("degraded", words % {"count": count})


def _is_past(moment: datetime, wait: timedelta) -> bool:
    # A moment that is still to come was written by a clock that has jumped since.
    now = timezone.now()
    return moment < now - wait or moment > now + wait
