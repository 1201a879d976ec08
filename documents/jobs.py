"""The row is the job: claiming, keeping and giving back the lease on one document's indexing.

Correctness never rests on a clock: whatever the lease says, a job's result counts only where id, revision, status and
owner still match. The times only say when another worker may try.
"""

from __future__ import annotations

import logging
import os
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from clients.interfaces import ClientError
from documents.errors import DocumentError
from documents.models import ApiDocument

log = logging.getLogger("documents.jobs")
LEASE_SECONDS = 120
_FIRST_RETRY_SECONDS = 5
_LONGEST_RETRY_SECONDS = 600
_CRASHES = 5
INTERRUPTED = "interrupted"
# Owners begin with it: a lease of this process' worker is told from that of one that died.
PROCESS_TOKEN = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
_STATES = ApiDocument.Status


@dataclass(frozen=True)
class Claim:
    """A document that this job may index, as it stood when the lease was taken."""

    document_id: int
    revision: int
    owner: str
    file_path: str
    category: str
    content_hash: str
    attempts: int
    former_indexed_revision: int
    former_chunk_count: int


def due_documents(limit: int = 50) -> list[int]:
    """Ids whose indexing may begin now: fresh changes first, then what failed before."""
    rows = _due(timezone.now()).order_by("attempts", "-updated_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def claim_next() -> Claim | None:
    """Take the lease of a document that is due; None where there is none."""
    for document_id in due_documents(limit=5):
        job = claim(document_id)
        if job is not None:
            return job
    return None


def claim(document_id: int) -> Claim | None:
    """Take the lease (compare and set); None where another has it, or nothing is to do."""
    now = timezone.now()
    row = _due(now).filter(pk=document_id).first()
    if row is None:
        return None
    taken_over = row.status == _STATES.INDEXING
    if row.error_code == INTERRUPTED and row.attempts >= _CRASHES:
        _give_up(row)
        return None
    owner = f"{PROCESS_TOKEN}-{uuid.uuid4().hex[:8]}"
    same = ApiDocument.objects.filter(
        pk=row.pk, revision=row.revision, status=row.status, lease_owner=row.lease_owner, attempts=row.attempts
    )
    taken = same.update(
        status=_STATES.INDEXING,
        lease_owner=owner,
        lease_expires_at=now + timedelta(seconds=LEASE_SECONDS),
        attempts=row.attempts + 1,
        error_code=INTERRUPTED if taken_over else row.error_code,
    )
    if not taken:
        return None
    return Claim(
        document_id=row.pk,
        revision=row.revision,
        owner=owner,
        file_path=row.file_path,
        category=row.category,
        content_hash=row.content_hash,
        attempts=row.attempts + 1,
        former_indexed_revision=row.indexed_revision,
        former_chunk_count=row.chunk_count,
    )


def held(job: Claim) -> QuerySet[ApiDocument]:
    """The row, while this job's result still counts: the condition of every compare and set."""
    return ApiDocument.objects.filter(
        pk=job.document_id, revision=job.revision, status=_STATES.INDEXING, lease_owner=job.owner
    )


def renew(job: Claim) -> bool:
    """Keep the lease; False where it is lost (a new revision, a deletion, another worker)."""
    return bool(held(job).update(lease_expires_at=timezone.now() + timedelta(seconds=LEASE_SECONDS)))


def give_back(job: Claim) -> None:
    """Stop without a result: the next worker begins at once."""
    held(job).update(status=_STATES.PENDING, lease_owner="", lease_expires_at=None, attempts=max(job.attempts - 1, 0))


def fail(job: Claim, fault: Exception) -> bool:
    """FAILED with the reason in words; retried later by itself where that may help. False where the lease was lost.

    What was indexed before still answers, and exact lookups find the document all the while (DOC-3, DOC-4).
    """
    code, reason, retry = in_words(fault)
    wait = min(_FIRST_RETRY_SECONDS * 2 ** min(job.attempts - 1, 20), _LONGEST_RETRY_SECONDS)
    changed = held(job).update(
        status=_STATES.FAILED,
        status_reason=reason[:500],
        error_code=code[:64],
        lease_owner="",
        lease_expires_at=None,
        next_attempt_at=timezone.now() + timedelta(seconds=wait) if retry else None,
    )
    if changed:
        then = f"next try in {wait} s" if retry else "it waits for a person"
        log.warning("%s: not indexed (%s), %s: %s", job.file_path, code, then, reason)
    return bool(changed)


def release_dead_leases() -> int:
    """At the start of a process that alone holds its data folder: leases of processes before it are nobody's."""
    dead = ApiDocument.objects.filter(status=_STATES.INDEXING).exclude(lease_owner__startswith=PROCESS_TOKEN)
    return dead.update(lease_expires_at=timezone.now() - timedelta(seconds=1))


def expired_leases() -> QuerySet[ApiDocument]:
    """Documents that a worker began to index and did not end in time: its process is gone, most likely."""
    return ApiDocument.objects.filter(_expired(timezone.now()), status=_STATES.INDEXING)


def release_expired(document_id: int) -> bool:
    """Let anybody begin with such a document; that it was cut off stays noted. False where that is no longer so."""
    rows = expired_leases().filter(pk=document_id)
    return bool(rows.update(status=_STATES.PENDING, error_code=INTERRUPTED, lease_owner="", lease_expires_at=None))


def _expired(now: datetime) -> Q:
    expired = Q(lease_expires_at__lt=now) | Q(lease_expires_at__gt=now + timedelta(seconds=2 * LEASE_SECONDS))
    return expired | Q(lease_expires_at=None)


def _due(now: datetime) -> QuerySet[ApiDocument]:
    # A time further ahead than was ever given comes from a clock that has jumped since; it holds nothing up.
    retry = Q(next_attempt_at__lte=now) | Q(next_attempt_at__gt=now + timedelta(seconds=2 * _LONGEST_RETRY_SECONDS))
    return ApiDocument.objects.filter(
        Q(status=_STATES.PENDING)
        | (Q(status=_STATES.FAILED) & Q(next_attempt_at__isnull=False) & retry)
        | (Q(status=_STATES.INDEXING) & _expired(now)),
        missing_since=None,
    )


def _give_up(row: ApiDocument) -> None:
    reason = f"indexing was cut off {row.attempts} times; the process may have run out of memory on this document"
    same = ApiDocument.objects.filter(pk=row.pk, status=row.status, lease_owner=row.lease_owner, revision=row.revision)
    if same.update(
        status=_STATES.FAILED, status_reason=reason, lease_owner="", lease_expires_at=None, next_attempt_at=None
    ):
        log.error("%s: %s", row.file_path, reason)


def in_words(fault: Exception) -> tuple[str, str, bool]:
    """Code, reason for people, and whether trying again by itself may help."""
    code, reason, retry = _told(fault)
    # What others say may hold half a character or a NUL, which no database takes: then the row would say nothing.
    return code, reason.encode("utf-8", "replace").decode("utf-8").replace("\x00", ""), retry


def _told(fault: Exception) -> tuple[str, str, bool]:
    if isinstance(fault, ClientError):
        return fault.code, f"{fault} {fault.hint}".strip(), fault.retryable
    if isinstance(fault, DocumentError):
        return fault.code, fault.detail, fault.code == "file_changed"
    if isinstance(fault, OSError):
        return "file_unreadable", f"the file cannot be read: {fault.strerror or fault}", True
    return "internal_error", f"{type(fault).__name__}: {fault}", True
