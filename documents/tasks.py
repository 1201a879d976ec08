"""Celery doors. A message is only a wake-up: the row is the job, and the same claim decides who does it."""

from __future__ import annotations

from collections.abc import Callable

from celery import shared_task
from django.core.cache import cache
from django.utils import timezone

from clients.registry import get_llm
from documents.domain_due import seconds_until_due
from documents.domains import seconds_until_ripe
from documents.heartbeat import worker_was_here
from documents.history import prune
from documents.jobs import due_documents
from documents.llm_lane import more_to_do, run_due_llm_jobs
from documents.reconcile import reconcile_by_itself
from documents.scan import scan
from documents.wakeup import RUN_DUE_JOBS, RUN_LLM_JOBS, wake_llm_worker, wake_worker
from documents.worker import run_due_jobs

TURN_SECONDS = 20.0
"""A task that has worked so long hands over to the next message: a worker that is told to stop waits for its tasks."""


@shared_task(name=RUN_DUE_JOBS, ignore_result=True)  # type: ignore[untyped-decorator]  # celery has no types
def run_due() -> int:
    """Everything that is due: deletions, domains, vectors, what a crash left. Sent at each change, and every minute.

    Many changes at once (a scan) send one message; where several documents wait, the next process is woken too.
    """
    worker_was_here()
    if len(due_documents(limit=2)) > 1:
        wake_worker()
    reconcile_by_itself()
    tried = run_due_jobs(seconds=TURN_SECONDS, all_domains=False)
    if due_documents(limit=1):
        wake_worker()
    if tried:
        wake_llm_worker()
    _come_back(wake_worker, seconds_until_ripe())
    return tried


def _come_back(wake: Callable[..., None], seconds: float | None) -> None:
    """Look once more when a domain that changes has become quiet; of many messages one comes back, not each."""
    # The note is gone before that message runs, so that whoever runs then may come back as well.
    if seconds is not None and cache.add(f"documents.{wake.__name__}.coming_back", 1, timeout=seconds * 0.9):
        wake(after=seconds)


@shared_task(name=RUN_LLM_JOBS, ignore_result=True)  # type: ignore[untyped-decorator]
def run_llm() -> int:
    """What the language model is to write. Sent when documents were indexed, at a person's wish, and every minute.

    As many processes as ``LLM_PARALLEL`` allows are woken; one that finds the bound reached wakes nobody.
    """
    if more_to_do(besides=1):
        wake_llm_worker()
    tried = run_due_llm_jobs(seconds=TURN_SECONDS)
    if tried and more_to_do():
        wake_llm_worker()
    if get_llm().configured:
        _come_back(wake_llm_worker, seconds_until_due(timezone.now()))
    return tried


@shared_task(name="documents.prune_history", ignore_result=True)  # type: ignore[untyped-decorator]
def prune_history() -> int:
    """Let go of earlier revisions older than TRASH_DAYS: for the beat, once an hour."""
    return prune()


@shared_task(name="documents.scan", ignore_result=True)  # type: ignore[untyped-decorator]
def scan_folder() -> str:
    """Compare the folder with the rows, as an embedded site does at its start."""
    return str(scan())
