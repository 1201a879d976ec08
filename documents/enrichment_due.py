"""Which documents the language model is to look at: the rows are the outbox, nothing is added to an upload.

A document is due where it has no row yet, where its file is another one than was looked at last, or where its row says
so (``llm_jobs.due_now``). What is new is found by the change counter, as the keyword index does it.
"""

from __future__ import annotations

import threading

from django.db import transaction
from django.db.models import F, Q, QuerySet

from documents.counters import read
from documents.llm_jobs import due_rows
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from documents.transactions import repeated_on_deadlock

BATCH = 500
_STATE = LlmJob.State
_LIVE = {"enabled": True, "missing_since": None, "published_revision__gt": 0}
READABLE = Q(**_LIVE) & ~Q(status=ApiDocument.Status.DELETING)
"""Documents that answer lookups: a hidden one is nobody's to be told of."""
OF_ROW = Q(**{f"document__{name}": value for name, value in _LIVE.items()}) & ~Q(
    document__status=ApiDocument.Status.DELETING
)
"""The same, asked of a document's row of ``DocumentEnrichment``."""


class Unseen:
    """Finds documents that changed since this process looked last, and makes their rows WAITING.

    The first look of a process goes over all documents, each further one over those with a higher ``seq``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._after = -1

    def forget(self) -> None:
        """Look at all documents again: after a restore, and between tests."""
        with self._lock:
            self._after = -1

    def take_up(self) -> int:
        """Make up to 500 rows wait; how many. Costs one read of a counter where nothing changed."""
        with self._lock:
            now = read()  # before the rows: what commits meanwhile is found next time
            if now < self._after:
                self._after = -1  # another database, or a restored one
            if now == self._after:
                return 0
            # No order: it would lead the database through every row, where the index of seq knows the few.
            ids = list(_unseen(self._after).order_by().values_list("pk", flat=True)[:BATCH])
            _wait(ids)
            if len(ids) < BATCH:
                self._after = now
            return len(ids)


unseen = Unseen()


def due_documents(limit: int) -> list[int]:
    """Documents whose turn it is, fresh ones first."""
    return due_rows(DocumentEnrichment, limit, OF_ROW)


def _unseen(after: int) -> QuerySet[ApiDocument]:
    """No row, or one that has come to an end for another file. A row that waits or runs sees to it itself."""
    other_file = ~Q(enrichment__seen_hash=F("content_hash")) & Q(enrichment__state__in=(_STATE.DONE, _STATE.FAILED))
    rows = ApiDocument.objects.filter(READABLE, seq__gt=after)
    return rows.filter(Q(enrichment=None) | other_file)


@repeated_on_deadlock
def _wait(document_ids: list[int]) -> None:
    """The reason stays: whether the model is asked is decided by the job, which knows the body."""
    with transaction.atomic():
        rows = DocumentEnrichment.objects.filter(pk__in=document_ids)
        known = set(rows.values_list("pk", flat=True))
        rows.filter(state__in=(_STATE.DONE, _STATE.FAILED)).update(
            state=_STATE.WAITING, attempts=0, next_attempt_at=None
        )
        there = ApiDocument.objects.filter(pk__in=set(document_ids) - known).values_list("pk", flat=True)
        fresh = [DocumentEnrichment(pk=document_id) for document_id in sorted(there)]
        DocumentEnrichment.objects.bulk_create(fresh, ignore_conflicts=True)
