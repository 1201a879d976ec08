"""Taking in what others did to the files: an edit, a move, a disappearance, a return. Each under the row's lock.

A file is an edit only if its hash differs from the row's *and* the row's revision is published: until then the disk
still holds the former bytes, and taking them for an edit would revert an acknowledged upload.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from documents import storage
from documents.counters import bump
from documents.domains import mark_dirty
from documents.errors import DocumentError
from documents.failpoints import failpoint
from documents.generated import settle
from documents.models import ApiDocument
from documents.publishing import FILE_MISSING, locked
from documents.reading import Reading, read_document_bytes
from documents.transactions import repeated_on_deadlock
from documents.twins import free_twin_key
from documents.walk import FoundFile

log = logging.getLogger("documents.scan")
_STATES = ApiDocument.Status


@repeated_on_deadlock
def absorb(document_id: int, path: Path | None = None) -> str:
    """Take the file as it now is: 'changed', 'reappeared', or '' where it says nothing new.

    ``path`` is the file as the disk spells it. A file that is no document any more (binary, too large, empty) leaves
    the document FAILED with the reason; its former vectors still answer, its keywords don't.
    """
    with transaction.atomic(durable=True):
        document = _settled(document_id)
        if document is None:
            return ""
        target = path or storage.locate(document.file_path)
        try:
            digest = storage.hash_of_file(target)
        except FileNotFoundError:
            return ""
        if digest == document.content_hash:
            if document.missing_since is None:
                return ""
            _reappear(document)
            return "reappeared"
        back = document.missing_since is not None
        _take_edit(document, target, digest)
        failpoint("absorb.before_commit")
        return "reappeared" if back else "changed"


@repeated_on_deadlock
def move(document_id: int, file: FoundFile) -> bool:
    """Give the row the path to which its file was moved; id and history stay. False where that is no longer so."""
    try:
        with transaction.atomic(durable=True):
            document = _settled(document_id)
            if document is None or _lies_elsewhere(document, file.path):
                return False
            data = file.path.read_bytes()
            if storage.content_hash(data) != document.content_hash:
                return False
            former = document.category
            document.title = read_document_bytes(data, file_path=file.file_path).title
            _take_path(document, file)
            _no_longer_missing(document)
            if former != file.category:
                # The vectors carry the domain: they are made again, and answer until then.
                _to_be_indexed(document)
                mark_dirty(former)
            _save_visible(document)
    except (IntegrityError, FileNotFoundError, DocumentError) as fault:
        log.warning("%s: not taken for a moved file: %s", file.file_path, fault)
        return False
    return True


@repeated_on_deadlock
def hide(document_id: int) -> bool:
    """The file is gone: the document is hidden with the reason, and forgotten only when someone says so."""
    with transaction.atomic(durable=True):
        document = _settled(document_id)
        if document is None or document.missing_since is not None or _lies_there(document):
            return False
        document.missing_since = timezone.now()
        document.status_reason, document.error_code = FILE_MISSING, "file_missing"
        if document.status == _STATES.INDEXING:
            document.status, document.lease_owner, document.lease_expires_at = _STATES.PENDING, "", None
        _save_visible(document)
    return True


@repeated_on_deadlock
def show_again(document_id: int) -> bool:
    """Take back that a document was hidden, although its file is still gone: it went with most of the others."""
    with transaction.atomic(durable=True):
        document = _settled(document_id)
        if document is None or document.missing_since is None:
            return False
        _reappear(document)
    return True


def _settled(document_id: int) -> ApiDocument | None:
    """The locked row, where the disk may be compared with it."""
    document = locked(document_id)
    if document is None or document.status == _STATES.DELETING or document.published_revision != document.revision:
        return None
    return document


def _lies_there(document: ApiDocument) -> bool:
    try:
        return os.path.lexists(storage.locate(document.file_path))
    except storage.UnsafePath:
        return False


def _lies_elsewhere(document: ApiDocument, path: Path) -> bool:
    """Whether the document's own file is there, and is another than ``path`` (without case it may be the same)."""
    return _lies_there(document) and not storage.locate(document.file_path).samefile(path)


def _take_path(document: ApiDocument, file: FoundFile) -> None:
    others = ApiDocument.objects.filter(path_key=file.key).exclude(pk=document.pk)
    document.file_path, document.path_key = file.file_path, file.key
    document.twin_key = free_twin_key(file.file_path, taken=others.values_list("twin_key", flat=True))
    document.file_name, document.category = file.file_name, file.category


def _take_edit(document: ApiDocument, path: Path, digest: str) -> None:
    document.revision += 1
    document.published_revision = document.revision
    document.content_hash, document.size = digest, path.stat().st_size
    document.missing_since = None
    _to_be_indexed(document)
    try:
        _data, reading = read_found(path, document.file_path)
    except DocumentError as refusal:
        log.warning("%s: edited on disk, and no document any more: %s", document.file_path, refusal.detail)
        document.metadata, document.frontmatter_problem = None, ""
        document.status, document.status_reason = _STATES.FAILED, refusal.detail[:500]
        document.error_code = refusal.code
    else:
        document.title, document.metadata = reading.title, reading.metadata
        document.frontmatter_problem = reading.problem
        document.generated = settle(document.generated, reading.metadata, malformed=reading.malformed)
    _save_visible(document)


def _reappear(document: ApiDocument) -> None:
    failed = document.status == _STATES.FAILED and document.error_code == "file_missing"
    _no_longer_missing(document)
    if failed or (document.indexed_revision != document.revision and document.status != _STATES.INDEXING):
        _to_be_indexed(document)
    _save_visible(document)


def _no_longer_missing(document: ApiDocument) -> None:
    document.missing_since = None
    if document.error_code == "file_missing":
        document.status_reason = document.error_code = ""


def _to_be_indexed(document: ApiDocument) -> None:
    document.status, document.status_reason, document.error_code = _STATES.PENDING, "", ""
    document.attempts, document.next_attempt_at = 0, None
    document.lease_owner, document.lease_expires_at = "", None


def _save_visible(document: ApiDocument) -> None:
    document.updated_at = timezone.now()
    mark_dirty(document.category)
    document.seq = bump()
    document.save()


def read_found(path: Path, file_path: str) -> tuple[bytes, Reading]:
    """Read a file on disk as an upload would be read. Raises DocumentError with the reason, or ``OSError``."""
    with path.open("rb") as file:
        data = storage.read_bounded(file, settings.UPLOAD_MAX_BYTES)
    return data, read_document_bytes(data, file_path=file_path)
