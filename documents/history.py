"""The bytes of replaced and deleted revisions, kept ``TRASH_DAYS`` under ``.history/`` (DOC-12)."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from documents import storage
from documents.former_life import state_of
from documents.models import ApiDocument, DeletedDocument, DocumentHistory

log = logging.getLogger("documents.history")
# Long enough that every process has read the tombstone; a slower one is still right, each lookup checks the rows.
TOMBSTONE_DAYS = 7
_ORPHAN_SECONDS = 24 * 3600.0


def keep_published(document: ApiDocument, *, reason: str, by: str = "") -> DocumentHistory | None:
    """Keep the bytes that now lie in the document's place; None where nothing lies there.

    Call it with the document's row locked, before the file is replaced or removed. The name is made from id, revision
    and hash, so that a step which a crash cut off can be done again. What others wrote into the file is kept as it is.
    """
    try:
        data = storage.read_published(document.file_path)
    except FileNotFoundError:
        return _found_again(document, document.published_revision, reason=reason, by=by)
    return _keep(
        document, storage.locate(document.file_path), data, revision=document.published_revision, reason=reason, by=by
    )


def keep_staged(document: ApiDocument, *, reason: str, by: str = "") -> DocumentHistory | None:
    """Keep the bytes of a saved revision that was never published; None where there are none."""
    path = storage.staged_path(document.pk, document.revision)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return _keep(document, path, data, revision=document.revision, reason=reason, by=by)


def _keep(document: ApiDocument, path: Path, data: bytes, *, revision: int, reason: str, by: str) -> DocumentHistory:
    digest = storage.content_hash(data)
    stored_name = f"{document.pk}.{revision}.{digest[:16]}"
    storage.keep(path, stored_name)
    return _row(document, revision, digest, len(data), stored_name, reason=reason, by=by)


def _found_again(document: ApiDocument, revision: int, *, reason: str, by: str) -> DocumentHistory | None:
    """A crash between the unlink and the commit: the bytes are kept already, their row was rolled back."""
    kept = _kept_path(document.pk, revision)
    if kept is None:
        return None
    data = kept.read_bytes()
    return _row(document, revision, storage.content_hash(data), len(data), kept.name, reason=reason, by=by)


def _kept_path(document_id: int, revision: int) -> Path | None:
    folder = storage.base() / storage.HISTORY
    return next(folder.glob(f"{document_id}.{revision}.*"), None) if folder.is_dir() else None


def note_interrupted(document: ApiDocument) -> None:
    """A crash between the rename and the commit of a publication: give the kept bytes their row back."""
    if document.published_revision:
        _found_again(document, document.published_revision, reason=DocumentHistory.Reason.REPLACED, by="")


def _row(
    document: ApiDocument, revision: int, digest: str, size: int, stored_name: str, *, reason: str, by: str
) -> DocumentHistory:
    row, _created = DocumentHistory.objects.get_or_create(
        document_id=document.pk,
        stored_name=stored_name,
        defaults={
            "file_path": document.file_path,
            "revision": revision,
            "content_hash": digest,
            "size": size,
            "reason": reason,
            "created_by": by[:150],
            "state": state_of(document) if reason == DocumentHistory.Reason.DELETED else {},
        },
    )
    return row


def bytes_of(document_id: int, revision: int) -> bytes | None:
    """The bytes of an earlier revision; None where they are not kept.

    By the file's name, since the file is there before its row is committed.
    """
    path = _kept_path(document_id, revision)
    try:
        return path.read_bytes() if path is not None else None
    except FileNotFoundError:  # pruned a moment ago
        return None


def prune(days: int | None = None) -> int:
    """Let go of bytes older than ``days`` (else ``TRASH_DAYS``) and of old tombstones; how many revisions that were."""
    now = timezone.now()
    days = settings.TRASH_DAYS if days is None else days
    old = DocumentHistory.objects.filter(created_at__lt=now - timedelta(days=days))
    removed = 0
    for pk, stored_name in list(old.values_list("pk", "stored_name")):
        storage.history_path(stored_name).unlink(missing_ok=True)
        DocumentHistory.objects.filter(pk=pk).delete()
        removed += 1
    DeletedDocument.objects.filter(deleted_at__lt=now - timedelta(days=TOMBSTONE_DAYS)).delete()
    _remove_orphans()
    if removed:
        log.info("history: %s earlier revisions were older than %s days and are gone", removed, days)
    return removed


def strays() -> list[Path]:
    """Kept bytes that no row knows."""
    folder = storage.base() / storage.HISTORY
    known = set(DocumentHistory.objects.values_list("stored_name", flat=True))
    found = [path for path in folder.glob("*") if path.name not in known] if folder.is_dir() else []
    return sorted(path for path in found if not path.name.startswith("tmp-"))


def _remove_orphans() -> None:
    """Temporary files a day old, and kept bytes whose row did not come within ``TRASH_DAYS`` (by change time)."""
    ages = [(path, _ORPHAN_SECONDS) for path in storage.temporary_files()]
    ages += [(path, max(_ORPHAN_SECONDS, settings.TRASH_DAYS * 86_400.0)) for path in strays()]
    for path, allowed in ages:
        if storage.age_in_seconds(path) > allowed:
            path.unlink(missing_ok=True)
