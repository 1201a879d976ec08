"""Deleting a document: hidden at once, then vectors, file and row, in that order (CONSISTENCY: delete)."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from clients.interfaces import ClientError
from clients.registry import get_vector_store
from documents import history, storage
from documents.counters import bump
from documents.domains import mark_dirty
from documents.failpoints import failpoint
from documents.models import ApiDocument, DeletedDocument, DocumentHistory
from documents.publishing import locked
from documents.terms import remove_chunks
from documents.transactions import repeated_on_deadlock
from documents.uploads import not_found
from documents.vectors import unflushed, vector_writer
from documents.wakeup import wake_worker

log = logging.getLogger("documents.deletion")
_DELETING = ApiDocument.Status.DELETING
_RETRY_SECONDS = (5, 15, 60)


def delete_document(*, document_id: int, user: AbstractBaseUser | None) -> bool:
    """Delete a document (DOC-5): from the first commit on, no lookup that starts later returns it.

    True when file, row and vectors are gone. False when the vectors, or the file, cannot be removed now: the row stays
    DELETING, hidden, with the reason, and the worker finishes it. Raises ``not_found`` (404).
    """
    by = user.get_username() if user else ""
    if not mark_deleting(document_id):
        raise not_found()
    failpoint("delete.marked")
    gone = finish_deletion(document_id, by=by)
    wake_worker()
    return gone


@repeated_on_deadlock
def mark_deleting(document_id: int) -> bool:
    """The commit that hides a document; False where there is none. A running job's lease ends here."""
    with transaction.atomic(durable=True):
        document = locked(document_id)
        if document is None:
            return False
        if document.status == _DELETING:
            return True
        document.status, document.status_reason, document.error_code = _DELETING, "", ""
        document.lease_owner, document.lease_expires_at = "", None
        document.attempts, document.next_attempt_at = 0, None
        document.updated_at = timezone.now()
        mark_dirty(document.category)
        document.seq = bump()
        document.save()
    return True


def finish_deletion(document_id: int, *, by: str = "") -> bool:
    """Remove vectors, file and row of a document that is DELETING; may be done again after any crash.

    True when nothing is left to do: all gone, or an upload took the row back meanwhile.
    """
    try:
        _remove_vectors(document_id)
        failpoint("delete.vectors_removed")
        return _remove_file_and_row(document_id, by=by)
    except (ClientError, OSError, storage.UnsafePath) as fault:
        _note_delay(document_id, fault)
        return False


def finish_deletions() -> int:
    """Finish every deletion that is due; how many documents are gone."""
    return sum(finish_deletion(pk) for pk in due_deletions())


def due_deletions() -> list[int]:
    """Ids of the documents whose deletion may be tried now."""
    rows = ApiDocument.objects.filter(status=_DELETING).order_by("pk").values_list("pk", "next_attempt_at")
    now = timezone.now()
    # A time too far ahead was written by a clock that has jumped since.
    latest = now + timedelta(seconds=2 * _RETRY_SECONDS[-1])
    return [pk for pk, at in rows if at is None or at <= now or at > latest]


def _remove_vectors(document_id: int) -> None:
    with vector_writer:
        if ApiDocument.objects.filter(pk=document_id, status=_DELETING).exists():
            get_vector_store().delete([document_id])
            unflushed.set()


@repeated_on_deadlock
def _remove_file_and_row(document_id: int, *, by: str) -> bool:
    with transaction.atomic(durable=True):
        document = locked(document_id)
        if document is None:
            return True
        if document.status != _DELETING:
            _mend_revived(document)
            return True
        mark_dirty(document.category)
        # First the counter, then the file: a scan that is inserting rows waits here, then sees that the file has gone.
        seq = bump()
        history.keep_published(document, reason=DocumentHistory.Reason.DELETED, by=by)
        history.keep_staged(document, reason=DocumentHistory.Reason.DELETED, by=by)
        failpoint("delete.history_kept")
        storage.unlink_published(document.file_path)
        failpoint("delete.unlinked")
        storage.drop_staged(document.pk, document.revision)
        DeletedDocument.objects.update_or_create(document_id=document.pk, defaults={"seq": seq})
        remove_chunks([document.pk])
        file_path = document.file_path
        document.delete()
    failpoint("delete.after_commit")
    log.info("%s: deleted", file_path)
    return True


def _mend_revived(document: ApiDocument) -> None:
    """An upload in another process came between our check and our removal of vectors: the new ones may be gone too."""
    states = ApiDocument.Status
    if document.indexed_revision or document.status == states.INDEXING:
        document.status, document.lease_owner, document.lease_expires_at = states.PENDING, "", None
        document.save(update_fields=["status", "lease_owner", "lease_expires_at"])


def _note_delay(document_id: int, fault: Exception) -> None:
    row = ApiDocument.objects.filter(pk=document_id, status=_DELETING)
    attempts = (row.values_list("attempts", flat=True).first() or 0) + 1
    wait = _RETRY_SECONDS[min(attempts, len(_RETRY_SECONDS)) - 1]
    code = fault.code if isinstance(fault, ClientError) else "delete_failed"
    row.update(
        attempts=attempts,
        next_attempt_at=timezone.now() + timedelta(seconds=wait),
        status_reason=f"not everything could be removed yet: {fault}"[:500],
        error_code=code[:64],
    )
    log.warning("document %s cannot be removed wholly yet, next try in %s s: %s", document_id, wait, fault)
