"""The lane of the language model: one text after another, apart from indexing, which a slow model never holds up.

Documents come before domains: a domain's text is made of what its documents say of themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.utils import timezone

from clients.registry import get_llm
from documents.domain_texts import aggregate_next
from documents.enrichment import enrich_next
from documents.enrichment_due import due_documents, unseen
from documents.llm_jobs import running
from documents.llm_pause import pause


def run_next(stopping: Callable[[], bool] = lambda: False) -> bool:
    """Write one text that is due; False where none is, or the model's endpoint is left alone for a moment.

    Asks the model in this thread, up to some minutes. Raises ``DatabaseError`` at most.
    """
    if pause.resting():
        return False
    return enrich_next(stopping) or aggregate_next()


def run_due_llm_jobs(stopping: Callable[[], bool] = lambda: False, *, seconds: float | None = None) -> int:
    """Write everything that is due, in this thread; how many texts were tried. For the Celery task and tests.

    Ends where ``LLM_PARALLEL`` jobs run already, the endpoint is in trouble, or after ``seconds``.
    """
    until = None if seconds is None else time.monotonic() + seconds
    tried = 0
    while not stopping() and (until is None or time.monotonic() < until) and run_next(stopping):
        tried += 1
    return tried


def more_to_do(*, besides: int = 0) -> bool:
    """Whether another process would find a document to write about and be allowed to, ``besides`` so many jobs that
    are about to begin."""
    if not get_llm().configured or pause.resting() or running(timezone.now()) + besides >= settings.LLM_PARALLEL:
        return False
    unseen.take_up()
    return len(due_documents(limit=besides + 1)) > besides
