"""Saving a file as a new revision: upload, replacement, a person's edit of the metadata (CONSISTENCY: upload)."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError, IntegrityError, OperationalError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from documents import storage
from documents.content import current_bytes
from documents.counters import bump
from documents.domains import known_spelling, mark_dirty
from documents.errors import DocumentError
from documents.failpoints import failpoint
from documents.former_life import FormerLife
from documents.frontmatter import FrontmatterMalformed, rewrite
from documents.generated import settle
from documents.models import ApiDocument, DocumentEnrichment
from documents.names import PREFIX, check_category, check_file_name, check_scanned_path, document_path, path_key
from documents.publishing import Before, publish, remember, withdraw
from documents.reading import Reading, read_document_bytes
from documents.terms import remove_chunks
from documents.transactions import is_deadlock
from documents.twins import document_at
from documents.wakeup import wake_worker

log = logging.getLogger("documents.uploads")
_ATTEMPTS = 3
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class UploadOutcome:
    """``created``: the document is new. ``unchanged``: the very bytes that it had already."""

    document: ApiDocument
    created: bool
    unchanged: bool


@dataclass(frozen=True)
class _File:
    """A checked file on its way in."""

    file_path: str
    category: str
    file_name: str
    data: bytes
    digest: str
    reading: Reading


@dataclass
class _Saving:
    """How far a save has come: what must go if it fails."""

    document_id: int = 0
    revision: int = 0


def upload_document(*, file: BinaryIO, file_name: str, category: str, user: AbstractBaseUser | None) -> UploadOutcome:
    """Save a file as a document, or as a new revision of the document of that name (DOC-1, DOC-4).

    When this returns the bytes are safe on disk and in place, exact lookups find the document, and the worker knows. It
    must not be called inside a transaction. Raises :class:`DocumentError`: a refused name or category (400),
    ``file_too_large`` (413), ``unreadable_text`` and ``empty_file`` (400), ``name_twin``, ``category_twin`` and
    ``unsafe_path`` (409), ``save_failed`` (503, or 507 when the disk is full). Then nothing of the upload is left.
    """
    name = check_file_name(file_name)
    folder = check_category(category)
    data = storage.read_bounded(file, settings.UPLOAD_MAX_BYTES)
    return _store(_checked(document_path(folder, name), folder, name, data), user=user, expected_revision=None)


def edit_metadata(
    *, document_id: int, changes: Mapping[str, object], revision: int | None = None, user: AbstractBaseUser | None
) -> ApiDocument:
    """Rewrite the file's frontmatter: keys merged, None removes one (DOC-2). A new revision, saved like an upload.

    ``revision``, where given, must be the current one. Raises ``not_found`` (404), ``stale_revision``,
    ``frontmatter_malformed``, ``file_missing``, ``file_changed`` (409), and what :func:`upload_document` raises.
    """
    for attempt in range(_ATTEMPTS):
        document = require(document_id)
        if revision is not None and document.revision != revision:
            raise stale_revision()
        data = _bytes_to_edit(document)
        try:
            fresh = rewrite(data, changes)
        except FrontmatterMalformed as fault:
            raise _malformed(fault) from fault
        if fresh == data:
            return document
        if len(fresh) > settings.UPLOAD_MAX_BYTES:
            raise storage.too_large(settings.UPLOAD_MAX_BYTES)
        file = _checked(document.file_path, document.category, document.file_name, fresh)
        try:
            return _store(file, user=user, expected_revision=document.revision).document
        except DocumentError as fault:
            if fault.code != "stale_revision" or revision is not None or attempt == _ATTEMPTS - 1:
                raise
    raise stale_revision()


def replace_text(
    *, document_id: int, data: bytes, revision: int | None = None, user: AbstractBaseUser | None
) -> ApiDocument:
    """Save a person's edit of the whole file as a new revision, in its place, whatever folder that is.

    ``revision``, where given, must be the current one. Raises ``not_found`` (404), ``stale_revision`` (409), and what
    :func:`upload_document` raises.
    """
    document = require(document_id)
    if revision is not None and document.revision != revision:
        raise stale_revision()
    if len(data) > settings.UPLOAD_MAX_BYTES:
        raise storage.too_large(settings.UPLOAD_MAX_BYTES)
    file = _checked(document.file_path, document.category, document.file_name, data)
    return _store(file, user=user, expected_revision=document.revision).document


def store_restored(
    *, file_path: str, data: bytes, user: AbstractBaseUser | None, former: FormerLife | None
) -> UploadOutcome:
    """Save bytes that were kept of an earlier revision, at ``file_path``, as an upload is saved.

    With ``former`` a deleted document comes back under its id; refused as ``path_taken`` (409) where another document
    has its place. Raises what :func:`upload_document` raises.
    """
    place = check_scanned_path(file_path.removeprefix(PREFIX))
    file = _checked(place.file_path, place.category, place.file_name, data)
    return _store(file, user=user, expected_revision=None, former=former)


def path_taken(other: ApiDocument) -> DocumentError:
    """The refusal where a deleted document's place is another's by now."""
    detail = _(
        "%(path)s is another document by now. Restore the text as a new revision of that one, or delete that one first."
    )
    return DocumentError(detail % {"path": other.file_path}, code="path_taken", field="replace", status=409)


def require(document_id: int) -> ApiDocument:
    """The document, unless it is gone or going: then ``not_found`` (404)."""
    document = ApiDocument.objects.filter(pk=document_id).exclude(status=ApiDocument.Status.DELETING).first()
    if document is None:
        raise not_found()
    return document


def not_found() -> DocumentError:
    """The refusal for a document that is not there (any more)."""
    return DocumentError(_("There is no such document."), code="not_found", status=404)


def stale_revision() -> DocumentError:
    """The refusal for an edit of a revision that is no longer the current one."""
    detail = _("The document was changed meanwhile. Read it again, then repeat the edit.")
    return DocumentError(detail, code="stale_revision", field="revision", status=409)


def _malformed(fault: FrontmatterMalformed) -> DocumentError:
    detail = _("The frontmatter of this file cannot be read (%(reason)s). Mend it in the file first.")
    return DocumentError(detail % {"reason": fault}, code="frontmatter_malformed", field="metadata", status=409)


def _bytes_to_edit(document: ApiDocument) -> bytes:
    data = current_bytes(document)
    if storage.content_hash(data) != document.content_hash:
        detail = _("The file was edited on disk and that edit is not read yet. Run a scan, then repeat the edit.")
        raise DocumentError(detail, code="file_changed", status=409)
    return data


def _checked(file_path: str, category: str, file_name: str, data: bytes) -> _File:
    reading = read_document_bytes(data, file_path=file_path)
    storage.locate(file_path)  # a folder that is a symbolic link is refused before anything is written
    return _File(file_path, category, file_name, data, storage.content_hash(data), reading)


def _store(
    file: _File, *, user: AbstractBaseUser | None, expected_revision: int | None, former: FormerLife | None = None
) -> UploadOutcome:
    known = _unchanged(file) if former is None else None
    if known is not None:
        return UploadOutcome(known, created=False, unchanged=True)
    try:
        document, before = _commit(file, user=user, expected_revision=expected_revision, former=former)
    except OSError as fault:
        raise _save_failed(fault) from fault
    failpoint("upload.after_commit")
    _publish_or_withdraw(document, before, by=user.get_username() if user else "")
    failpoint("upload.after_publish")
    wake_worker()
    # A deletion may have come after our commit: then the answer is the document as it was saved.
    document = ApiDocument.objects.filter(pk=document.pk).first() or document
    created = before is None or before.status == ApiDocument.Status.DELETING
    log.info("%s: revision %s saved (%s bytes)", document.file_path, document.revision, document.size)
    return UploadOutcome(document, created=created, unchanged=False)


def _unchanged(file: _File) -> ApiDocument | None:
    """The document, where it has these very bytes and they lie in its place. A failed one is queued again."""
    document = document_at(ApiDocument.objects.filter(content_hash=file.digest), file.file_path)
    if (
        document is None
        or document.status == ApiDocument.Status.DELETING
        or document.missing_since is not None
        or document.published_revision != document.revision
        or document.file_path != file.file_path
    ):
        return None
    try:
        in_place = storage.content_hash(storage.read_published(file.file_path)) == file.digest
    except OSError:
        return None
    if in_place and document.status == ApiDocument.Status.FAILED:
        queue_again(document.pk)
        wake_worker()
        document.refresh_from_db()
    return document if in_place else None


def queue_again(document_id: int) -> bool:
    """Make a document PENDING from the start, whatever befell it; False where it is being deleted or indexed now."""
    states = ApiDocument.Status
    rows = ApiDocument.objects.filter(pk=document_id).exclude(status__in=[states.DELETING, states.INDEXING])
    return bool(
        rows.update(
            status=states.PENDING, status_reason="", error_code="", attempts=0, next_attempt_at=None,
            lease_owner="", lease_expires_at=None,
        )
    )  # fmt: skip


def _commit(
    file: _File, *, user: AbstractBaseUser | None, expected_revision: int | None, former: FormerLife | None
) -> tuple[ApiDocument, Before | None]:
    """The synced bytes under ``.staging/{id}.{revision}`` and the row that owns them, both or neither."""
    temporary = storage.write_temporary(file.data)
    failpoint("upload.temporary_written")
    saving = _Saving()
    try:
        for attempt in range(_ATTEMPTS):
            try:
                with transaction.atomic(durable=True):
                    document, before = _save_row(
                        file, saving, user=user, expected_revision=expected_revision, former=former
                    )
                    storage.stage(temporary, document.pk, document.revision)
                    failpoint("upload.before_commit")
                return document, before
            except (IntegrityError, OperationalError) as fault:
                # Two first uploads of one name at once: the later one replaces. A deadlock: the same again will do.
                again = isinstance(fault, IntegrityError) or is_deadlock(fault)
                if not again or attempt == _ATTEMPTS - 1 or not temporary.exists():
                    raise
        raise AssertionError("the loop returns or raises")
    except BaseException:
        _forget(saving, file)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _save_row(
    file: _File,
    saving: _Saving,
    *,
    user: AbstractBaseUser | None,
    expected_revision: int | None,
    former: FormerLife | None,
) -> tuple[ApiDocument, Before | None]:
    key = path_key(file.file_path)
    same_key = list(ApiDocument.objects.select_for_update().filter(path_key=key).order_by("pk"))
    document = next((row for row in same_key if row.file_path == file.file_path), None)
    before = remember(document) if document is not None else None
    if document is None or document.status == ApiDocument.Status.DELETING:
        _refuse_name_twin(row for row in same_key if row is not document)
    if expected_revision is not None and (
        document is None or document.status == ApiDocument.Status.DELETING or document.revision != expected_revision
    ):
        raise stale_revision()
    if former is not None and document is not None and document.status != ApiDocument.Status.DELETING:
        raise path_taken(document)
    fresh = document is None
    if document is None:
        _refuse_category_twin(file.category)
        document = ApiDocument(path_key=key, file_path=file.file_path, category=file.category, file_name=file.file_name)
        if former is not None:
            former.begin(document)
    elif document.status == ApiDocument.Status.DELETING:
        _forget_deleted_content(document)
    _take_content(document, file)
    if expected_revision is None:
        document.uploaded_by_id = user.pk if user else None
    document.save(force_insert=fresh)
    if former is not None:
        former.take_up(document)
    mark_dirty(document.category)
    document.seq = bump()
    document.save(update_fields=["seq"])
    saving.document_id, saving.revision = document.pk, document.revision
    return document, before


def _refuse_name_twin(others: Iterator[ApiDocument]) -> None:
    twin = next(others, None)
    if twin is not None:
        detail = _("There is a document %(path)s, whose name differs only by case or form. Use that name, or another.")
        raise DocumentError(detail % {"path": twin.file_path}, code="name_twin", field="file", status=409)


def _refuse_category_twin(category: str) -> None:
    spelling = known_spelling(category)
    if spelling is not None:
        detail = _("There is a domain %(domain)s, whose name differs only by case. Use that one.")
        raise DocumentError(detail % {"domain": spelling}, code="category_twin", field="category", status=409)


def _forget_deleted_content(document: ApiDocument) -> None:
    """An upload onto a row that is being deleted is a new document: nothing of the deleted one answers again."""
    document.indexed_revision, document.indexed_hash, document.chunk_count = 0, "", 0
    document.indexed_at, document.enabled, document.generated = None, True, {}
    DocumentEnrichment.objects.filter(pk=document.pk).delete()
    remove_chunks([document.pk])


def _take_content(document: ApiDocument, file: _File) -> None:
    document.title, document.metadata = file.reading.title, file.reading.metadata
    document.frontmatter_problem = file.reading.problem
    document.generated = settle(document.generated, document.metadata, malformed=file.reading.malformed)
    document.content_hash, document.size = file.digest, len(file.data)
    document.status, document.status_reason, document.error_code = ApiDocument.Status.PENDING, "", ""
    document.revision += 1
    document.missing_since = document.next_attempt_at = document.lease_expires_at = None
    document.attempts, document.lease_owner = 0, ""
    document.updated_at = timezone.now()


def _forget(saving: _Saving, file: _File) -> None:
    """After a failed save: the staged bytes go, unless the commit did happen and only its answer was lost."""
    if not saving.document_id:
        return
    try:
        committed = ApiDocument.objects.filter(
            pk=saving.document_id, revision=saving.revision, content_hash=file.digest
        ).exists()
    except DatabaseError:  # cannot be known now; the sweep decides
        return
    if not committed:
        with contextlib.suppress(OSError):
            storage.drop_staged(saving.document_id, saving.revision)


def _publish_or_withdraw(document: ApiDocument, before: Before | None, *, by: str) -> None:
    try:
        publish(document.pk, document.revision, by=by)
    except BaseException as fault:
        log.error("%s: revision %s could not be put in its place: %s", document.file_path, document.revision, fault)
        withdraw(document.pk, document.revision, before)
        if isinstance(fault, OSError):
            raise _save_failed(fault) from fault
        raise


def _save_failed(fault: OSError) -> DocumentError:
    full = fault.errno in _DISK_FULL
    detail = _("The file could not be saved, and nothing of it was kept: %(reason)s")
    reason = fault.strerror or type(fault).__name__
    return DocumentError(detail % {"reason": reason}, code="save_failed", field="file", status=507 if full else 503)
