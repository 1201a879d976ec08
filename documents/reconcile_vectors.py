"""Reconciling vectors and stored chunks with the rows. Both can be made again, so what is in doubt is queued.

Rows are read before and after the store: only what was the same both times is judged, so that a job in work never is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, QuerySet
from django.utils import timezone

from clients.interfaces import ClientError
from clients.registry import get_vector_store
from documents.jobs import LEASE_SECONDS
from documents.models import ApiDocument, DeletedDocument, DocumentChunk
from documents.publishing import locked
from documents.reconcile_findings import Look
from documents.term_recount import count_again, miscounted
from documents.terms import remove_stray_chunks
from documents.transactions import repeated_on_deadlock
from documents.vectors import unflushed, vector_writer
from documents.wakeup import wake_worker

ORPHAN_SECONDS = 2.0 * LEASE_SECONDS
"""Vectors of a document that changed so little time ago may be a job's that does not know yet that it was overtaken."""
_STATES = ApiDocument.Status
_Counts = Mapping[tuple[int, int], int]


class _Row(NamedTuple):
    pk: int
    file_path: str
    revision: int
    indexed_revision: int
    chunk_count: int
    status: str
    error_code: str
    next_attempt_at: datetime | None
    updated_at: datetime
    indexed_at: datetime | None
    missing_since: datetime | None

    @property
    def in_work(self) -> bool:
        """Whether a job has it, or will: then all that is stored of it is written again."""
        retried = self.status == _STATES.FAILED and self.next_attempt_at is not None
        return self.status in (_STATES.PENDING, _STATES.INDEXING) or retried


@dataclass(frozen=True)
class _Stored:
    """What is stored, by (document, revision); ``vectors`` is None where the store did not say."""

    vectors: _Counts | None
    chunks: _Counts
    rows: Mapping[int, _Row]
    steady: Mapping[int, _Row]

    def vectors_of(self, row: _Row) -> int:
        """As many as should be there where the store did not say."""
        return row.chunk_count if self.vectors is None else self.vectors.get((row.pk, row.indexed_revision), 0)

    def chunks_of(self, row: _Row) -> int:
        return self.chunks.get((row.pk, row.indexed_revision), 0)


def vectors_and_chunks(look: Look) -> None:
    """Missing, surplus and orphaned vectors; chunk texts and counts that do not fit."""
    stored = _read(look)
    queued = 0
    for row in stored.steady.values():
        look.keep_turn()
        if row.missing_since is None and row.status == _STATES.INDEXED:
            queued += _judge(look, row, stored)
    _strays(look, stored)
    _orphans(look, stored)
    if queued:
        wake_worker()


def terms(look: Look) -> None:
    """The lexical search's counts of terms against the chunks; a second look under the lock has the last word."""
    wrong = len(miscounted())
    if wrong and look.mend:
        wrong = count_again()
    if wrong:
        look.note("terms_miscounted", "term_count", mended=True, count=wrong)


def _read(look: Look) -> _Stored:
    before = _rows()
    try:
        vectors: _Counts | None = get_vector_store().counts()
    except ClientError as fault:
        # Degradation point: a store that is down is said; chunks can be compared without it.
        vectors = None
        look.note("vectors_unseen", "", mended=False, reason=f"{fault} {fault.hint}".strip())
    look.keep_turn()
    groups = DocumentChunk.objects.order_by().values_list("document_id", "revision").annotate(n=Count("pk"))
    chunks = {(document_id, revision): number for document_id, revision, number in groups}
    after = _rows()
    steady = {pk: row for pk, row in after.items() if before.get(pk) == row and row.status != _STATES.DELETING}
    return _Stored(vectors, chunks, after, steady)


def _rows() -> dict[int, _Row]:
    rows = ApiDocument.objects.order_by("pk").values_list(*_Row._fields).iterator(chunk_size=2_000)
    return {row[0]: _Row(*row) for row in rows}


# ---- Documents that are indexed --------------------------------------------------------------------------------------
def _judge(look: Look, row: _Row, stored: _Stored) -> bool:
    """Whether the document was queued to be indexed again."""
    vectors, chunks = stored.vectors_of(row), stored.chunks_of(row)
    answers = row.indexed_revision == row.revision
    if answers and stored.vectors is not None and vectors == chunks != row.chunk_count and chunks:
        mended = look.mend and bool(_same(row).update(chunk_count=chunks))
        look.note("chunk_count", row.file_path, mended=mended, there=chunks, wanted=row.chunk_count)
        return False
    if vectors != row.chunk_count or not answers:
        kind, there = "vectors_wrong", vectors if answers else 0
    elif chunks != row.chunk_count:
        kind, there = "chunks_wrong", chunks
    else:
        return False
    queued = look.mend and _queue(row, most=max(vectors, row.chunk_count))
    look.note(kind, row.file_path, mended=queued, there=there, wanted=row.chunk_count)
    return queued


def _queue(row: _Row, *, most: int) -> bool:
    """Have it indexed again; what is there answers until then. ``most`` vectors: a surplus is removed by the job."""
    return bool(
        _same(row).update(
            status=_STATES.PENDING, status_reason="", error_code="", attempts=0, next_attempt_at=None,
            lease_owner="", lease_expires_at=None, chunk_count=most,
        )
    )  # fmt: skip


def _same(row: _Row) -> QuerySet[ApiDocument]:
    return ApiDocument.objects.filter(
        pk=row.pk, revision=row.revision, status=row.status, indexed_revision=row.indexed_revision,
        indexed_at=row.indexed_at, chunk_count=row.chunk_count,
    )  # fmt: skip


# ---- What belongs to no revision that answers ------------------------------------------------------------------------
def _strays(look: Look, stored: _Stored) -> None:
    for (document_id, revision), number in stored.chunks.items():
        row = stored.steady.get(document_id)
        if row is None or row.in_work or revision == row.indexed_revision:
            continue
        mended = look.mend and _remove_strays(row)
        look.note("chunks_stray", row.file_path, mended=mended, there=number)


@repeated_on_deadlock
def _remove_strays(row: _Row) -> bool:
    with transaction.atomic(durable=True):
        document = locked(row.pk)
        if document is None or (document.status, document.indexed_revision) != (row.status, row.indexed_revision):
            return False
        remove_stray_chunks(row.pk, keep=row.indexed_revision)
    return True


def _orphans(look: Look, stored: _Stored) -> None:
    latest = timezone.now() - timedelta(seconds=ORPHAN_SECONDS)
    recently = set(DeletedDocument.objects.filter(deleted_at__gt=latest).values_list("document_id", flat=True))
    for (document_id, revision), number in sorted((stored.vectors or {}).items()):
        row = stored.rows.get(document_id)
        if row is None:
            orphaned = document_id not in recently
        else:
            live = revision == row.indexed_revision or (revision == row.revision and row.in_work)
            orphaned = not live and document_id in stored.steady and not latest < row.updated_at <= timezone.now()
        if not orphaned:
            continue
        look.keep_turn()
        subject = f"{row.file_path if row else document_id}, {revision}"
        look.note("vectors_orphaned", subject, mended=look.mend and _discard(document_id, revision), there=number)


def _discard(document_id: int, revision: int) -> bool:
    """Under the writer's lock, and only while no row wants them: an upload may have come since."""
    with vector_writer:
        row = ApiDocument.objects.filter(pk=document_id).values_list("revision", "indexed_revision", "status").first()
        if row is not None and (revision == row[1] or (revision == row[0] and row[2] != _STATES.INDEXED)):
            return True  # it is wanted now
        try:
            get_vector_store().discard(document_id, revision)
        except ClientError:
            # Degradation point: they answer no one, each hit's revision is compared with the row's.
            return False
        unflushed.set()
    return True
