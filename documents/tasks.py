"""Celery doors. A message is only a wake-up: the row is the job, and the same claim decides who does it."""

from __future__ import annotations

from celery import shared_task

from documents.history import prune
from documents.scan import scan
from documents.wakeup import RUN_DUE_JOBS
from documents.worker import run_due_jobs


@shared_task(name=RUN_DUE_JOBS, ignore_result=True)  # type: ignore[untyped-decorator]  # celery has no types
def run_due() -> int:
    """Everything that is due: deletions, domains, vectors, what a crash left. Sent at each change, and every minute."""
    return run_due_jobs()


@shared_task(name="documents.prune_history", ignore_result=True)  # type: ignore[untyped-decorator]
def prune_history() -> int:
    """Let go of earlier revisions older than TRASH_DAYS: for the beat, once an hour."""
    return prune()


@shared_task(name="documents.scan", ignore_result=True)  # type: ignore[untyped-decorator]
def scan_folder() -> str:
    """Compare the folder with the rows, as an embedded site does at its start."""
    return str(scan())
