"""Moving a committed revision into its place, and taking one back that could not be moved (CONSISTENCY: publish)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from documents import history, storage
from documents.counters import bump
from documents.domains import mark_dirty
from documents.failpoints import failpoint
from documents.models import ApiDocument, DocumentHistory
from documents.transactions import repeated_on_deadlock

log = logging.getLogger("documents.publishing")
FILE_MISSING = "file missing"
_NEVER_COMMITTED_SECONDS = 24 * 3600.0
_RESTORED = (
    "file_name", "title", "metadata", "frontmatter_problem", "content_hash", "size", "uploaded_by_id", "missing_since",
    "status_reason", "error_code", "indexed_revision", "indexed_hash", "chunk_count", "enabled", "generated",
)  # fmt: skip


@dataclass(frozen=True)
class Before:
    """What the row said before a revision was saved, for taking that revision back."""

    status: str
    values: dict[str, Any]


def remember(document: ApiDocument) -> Before:
    """Take down what :func:`withdraw` needs."""
    return Before(document.status, {name: getattr(document, name) for name in _RESTORED})


def locked(document_id: int) -> ApiDocument | None:
    """The row under its lock; None where it is gone. Only inside a transaction."""
    return ApiDocument.objects.select_for_update().filter(pk=document_id).first()


@repeated_on_deadlock
def publish(document_id: int, revision: int, *, by: str = "") -> bool:
    """Put the staged bytes of ``revision`` in the document's place; idempotent.

    False where the document has moved on: to a later revision (the staged bytes are dropped then), or to its deletion.
    Raises ``OSError`` or ``UnsafePath`` where the disk refuses; the row stays as it was.
    """
    with transaction.atomic(durable=True):
        document = locked(document_id)
        if document is None or document.revision != revision:
            storage.drop_staged(document_id, revision)
            return False
        if document.status == ApiDocument.Status.DELETING:
            return False  # the deletion keeps the staged bytes for undo
        if document.published_revision == revision:
            return True
        staged = storage.staged_path(document_id, revision)
        if staged.exists():
            history.keep_published(document, reason=DocumentHistory.Reason.REPLACED, by=by)
            failpoint("publish.history_kept")
            storage.put_in_place(staged, document.file_path)
            failpoint("publish.renamed")
        elif _already_in_place(document):
            history.note_interrupted(document)
        elif not _former_in_place(document):
            _bytes_lost(document)
            return False
        document.published_revision = revision
        document.seq = bump()
        document.save(update_fields=["published_revision", "seq"])
    failpoint("publish.after_commit")
    return True


def unpublished() -> QuerySet[ApiDocument]:
    """Documents whose newest revision is saved, and not yet in its place."""
    waiting = ApiDocument.objects.exclude(status=ApiDocument.Status.DELETING).filter(missing_since=None)
    return waiting.exclude(published_revision=F("revision"))


def publish_leftovers() -> int:
    """Publish what a crash left between commit and publication; how many revisions that were."""
    done = 0
    for document_id, revision in unpublished().values_list("pk", "revision"):
        try:
            done += publish(document_id, revision)
        except (OSError, storage.UnsafePath) as fault:
            log.warning("document %s, revision %s cannot be put in its place: %s", document_id, revision, fault)
    return done


def drop_stale_staged() -> int:
    """Remove staged files of revisions that the row has passed, or that no row came for within a day; how many.

    A revision that the row does not know *yet* is left: its transaction may be about to commit.
    """
    dropped = 0
    for staged in stale_staged():
        staged.path.unlink(missing_ok=True)
        dropped += 1
    return dropped


def stale_staged(abandoned_after: float = _NEVER_COMMITTED_SECONDS) -> list[storage.StagedFile]:
    """What :func:`drop_stale_staged` removes; ``abandoned_after`` so many seconds no row comes any more."""
    stale = []
    for staged in storage.staged_files():
        row = ApiDocument.objects.filter(pk=staged.document_id).values_list("revision", "published_revision").first()
        passed = row is not None and (staged.revision < row[0] or row[1] == row[0] == staged.revision)
        waited_for = row is not None and row[0] == staged.revision
        if passed or (not waited_for and storage.age_in_seconds(staged.path) > abandoned_after):
            stale.append(staged)
    return stale


@repeated_on_deadlock
def withdraw(document_id: int, revision: int, before: Before | None) -> None:
    """Take back a saved revision that could not be published: nothing of it is left (DOC-1).

    A first upload loses its row. A replacement gets its former content back, as a revision of its own so that no job of
    the failed one can count; its vectors stay.
    """
    with transaction.atomic(durable=True):
        document = locked(document_id)
        if document is not None and document.revision == revision:
            _take_back(document, before)
        failpoint("withdraw.before_commit")
    # After the commit: a crash before it leaves the revision as it was saved, with its bytes.
    storage.drop_staged(document_id, revision)


def _take_back(document: ApiDocument, before: Before | None) -> None:
    if before is None:
        _take_file_back(document)
        mark_dirty(document.category)
        document.delete()
        return
    if _already_in_place(document):
        _put_former_bytes_back(document, before)
    for name, value in before.values.items():
        setattr(document, name, value)
    deleting = before.status == ApiDocument.Status.DELETING
    document.status = before.status if deleting else ApiDocument.Status.PENDING
    document.revision += 1
    document.published_revision = document.revision
    document.updated_at = timezone.now()
    mark_dirty(document.category)
    document.seq = bump()
    document.save()


def _take_file_back(document: ApiDocument) -> None:
    if not _already_in_place(document):
        return
    try:
        storage.unlink_published(document.file_path)
    except OSError as fault:  # the disk that refused the publication may refuse the sync of its undoing as well
        log.warning("%s: could not be removed for certain: %s", document.file_path, fault)


def _put_former_bytes_back(document: ApiDocument, before: Before) -> None:
    former = (
        DocumentHistory.objects.filter(document_id=document.pk, content_hash=before.values["content_hash"])
        .order_by("-id")
        .first()
    )
    stored = f"{document.pk}.{document.published_revision}.{before.values['content_hash'][:16]}"
    kept = storage.history_path(former.stored_name if former else stored)
    if kept.exists():
        storage.restore(kept, document.file_path)


def _already_in_place(document: ApiDocument) -> bool:
    """Whether the row's bytes lie in the document's place: a crash, or a failed sync, after the rename."""
    try:
        return storage.content_hash(storage.read_published(document.file_path)) == document.content_hash
    except (OSError, storage.UnsafePath):
        return False


def _former_in_place(document: ApiDocument) -> bool:
    """Whether another text lies there: a crash while a revision was taken back. Nobody was told that it was saved.

    Its hash is not the row's, so that the worker, or the next scan, takes it in as the edit that undoes the revision.
    """
    try:
        storage.read_published(document.file_path)
    except (OSError, storage.UnsafePath):
        return False
    log.warning("%s: the bytes of revision %s are gone, the former text stays", document.file_path, document.revision)
    return True


def _bytes_lost(document: ApiDocument) -> None:
    """Neither staged nor in place: someone removed the file from ``.staging/``. Hidden, and said."""
    log.error("%s: the bytes of revision %s are gone; upload the file again", document.file_path, document.revision)
    document.status = ApiDocument.Status.FAILED
    document.status_reason, document.error_code = FILE_MISSING, "file_missing"
    document.missing_since = timezone.now()
    document.next_attempt_at = None
    mark_dirty(document.category)
    document.seq = bump()
    document.save()
