"""Reconcile: file, row, keyword index and vectors compared and put right (``docs/decisions/0019-reconcile.md``).

A light pass each minute, a full one at the start, every hour and when a person asks. One at a time over all processes.
Nothing is destroyed that cannot be made again, and what a job has in work is left alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError

from documents import reconcile_files, reconcile_rows, reconcile_vectors
from documents.failpoints import failpoint
from documents.jobs import due_documents
from documents.models import ApiDocument
from documents.reconcile_findings import Look
from documents.reconcile_lease import Turn, TurnLostError, one_at_a_time
from documents.reconcile_report import AT_START, EACH_MINUTE, ReconcileReport, full_is_due, remember, seen_since
from documents.source import get_keyword_index
from documents.wakeup import wake_worker

__all__ = ["ReconcileReport", "reconcile", "reconcile_by_itself"]
log = logging.getLogger("documents.reconcile")
EVERY_SECONDS = 60.0
Step = Callable[[Look], None]


def reconcile(
    *, by: str, full: bool = True, dry_run: bool = False, asked: bool = True, patience: float = 0.0
) -> ReconcileReport | None:
    """Compare and mend; None where another process is at it still after ``patience`` seconds.

    ``by`` is who asked for it, ``asked`` off for the site itself: it keeps back-offs. ``dry_run`` only looks: it writes
    nothing at all, is not kept, and needs no turn. Takes seconds in full: every file is read. Raises ``DatabaseError``.
    """
    if dry_run:
        return _run(ReconcileReport(by, full, dry_run=True), Look(mend=False, full=full, asked=asked))
    with one_at_a_time(patience) as turn:
        return None if turn is None else _kept(by, turn, full=full, asked=asked)


def reconcile_by_itself(*, at_start: bool = False) -> ReconcileReport | None:
    """The pass of each minute, full where that is due; None where another process was just at it, or is."""
    full = at_start or full_is_due()
    if not full and seen_since(EVERY_SECONDS - 10.0):
        return None
    return reconcile(by=AT_START if at_start else EACH_MINUTE, full=full, asked=False)


def _kept(by: str, turn: Turn, *, full: bool, asked: bool) -> ReconcileReport | None:
    look = Look(mend=True, full=full, asked=asked, turn=turn)
    try:
        report = _run(ReconcileReport(by, full, dry_run=False), look)
    except TurnLostError:
        log.warning("reconcile: it took too long between two steps, and another process has begun; this one stops")
        return None
    remember(report)
    if due_documents(limit=1):
        wake_worker()
    return report


def _run(report: ReconcileReport, look: Look) -> ReconcileReport:
    began = time.monotonic()
    for step in _steps(look):
        look.keep_turn()
        failpoint(f"reconcile.{step.__name__.strip('_')}")
        _guarded(step, look)
    report.findings = look.findings
    report.seconds = time.monotonic() - began
    if look.mend:
        _log(report)
    return report


def _steps(look: Look) -> list[Step]:
    steps: list[Step] = [reconcile_rows.staged]
    if look.asked or look.full or getattr(settings, "WATCH_FOLDER", True):
        steps.append(reconcile_files.files)
    steps += [reconcile_rows.deletions, reconcile_rows.leases, reconcile_rows.domains, reconcile_rows.counter]
    if look.full:
        steps += [reconcile_rows.earlier_revisions, reconcile_vectors.vectors_and_chunks, reconcile_vectors.terms]
        steps.append(_keyword_index)
    return steps


def _guarded(step: Step, look: Look) -> None:
    try:
        step(look)
    except (DatabaseError, TurnLostError):
        raise
    except Exception as fault:
        # Degradation point: a fault that one check meets must not keep the others from mending.
        log.exception("reconcile: the check %s was cut off", step.__name__)
        look.note(
            "check_failed", step.__name__.strip("_"), mended=False, reason=f"{type(fault).__name__}: {fault}"[:300]
        )


def _keyword_index(look: Look) -> None:
    """The keyword index of this process against the rows; those of others look after themselves by the counter."""
    wrong = get_keyword_index().check(mend=look.mend)
    paths = dict(ApiDocument.objects.filter(pk__in=wrong[:500]).values_list("pk", "file_path"))
    for document_id in wrong:
        look.note("keyword_index", paths.get(document_id, document_id), mended=True)


def _log(report: ReconcileReport) -> None:
    for finding in report.findings:
        level = logging.WARNING if finding.wrong else logging.INFO
        log.log(level, "reconcile: %s: %s; %s", finding.subject, finding.what, finding.remedy or "mended")
    level = logging.INFO if report.findings or report.full else logging.DEBUG
    counts = (len(report.findings), report.mended, report.wrong, report.seconds)
    log.log(level, "reconcile: %s found, %s mended, %s still wrong, in %.1f s", *counts)
