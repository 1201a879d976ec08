"""Undo from the history (DOC-12): a replaced revision, or a deleted document, comes back as a new revision."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.utils.translation import gettext as _

from documents import storage
from documents.errors import DocumentError
from documents.former_life import FormerLife
from documents.models import ApiDocument, DocumentHistory
from documents.twins import document_at
from documents.uploads import UploadOutcome, path_taken, replace_text, store_restored

_DELETING = ApiDocument.Status.DELETING


def require_kept(history_id: int) -> DocumentHistory:
    """A row of the history; raises ``not_found`` (404)."""
    row = DocumentHistory.objects.filter(pk=history_id).first()
    if row is None:
        raise DocumentError(_("This revision is no longer kept."), code="not_found", status=404)
    return row


def kept_bytes(row: DocumentHistory) -> bytes:
    """The bytes of an earlier revision.

    Raises ``revision_gone`` (410) where they are gone, or are not what was kept (their SHA-256 differs).
    """
    try:
        data = storage.history_path(row.stored_name).read_bytes()
    except OSError:
        data = None
    if data is None or storage.content_hash(data) != row.content_hash:
        detail = _("The bytes of revision %(revision)d of %(path)s are gone from .history/: it cannot be restored.")
        raise DocumentError(
            detail % {"revision": row.revision, "path": row.file_path}, code="revision_gone", status=410
        )
    return data


def living_document(row: DocumentHistory) -> ApiDocument | None:
    """The document that the revision is of, while it is there (it may have moved since); None once it is deleted."""
    return ApiDocument.objects.filter(pk=row.document_id).first()


def in_its_place(row: DocumentHistory) -> ApiDocument | None:
    """Another document that has the place of a deleted one by now."""
    others = ApiDocument.objects.exclude(status=_DELETING).exclude(pk=row.document_id)
    return document_at(others, row.file_path)


def restore_revision(*, history_id: int, user: AbstractBaseUser | None, replace: bool = False) -> UploadOutcome:
    """Make an earlier revision the present one; what is present now goes into the history, as with every replacement.

    A replaced revision becomes a new revision of its document, wherever that lies now. A deleted document comes back at
    its path, with its id and as it was; where another document has that path the answer is ``path_taken`` (409), unless
    ``replace``: then the text becomes a new revision of that one. The same bytes as now change nothing.

    Must not be called inside a transaction. Raises ``not_found`` (404), ``revision_gone`` (410), ``path_taken``, and
    what an upload raises.
    """
    row = require_kept(history_id)
    data = kept_bytes(row)
    living = living_document(row)
    if living is not None:
        return _as_revision(living, data, user)
    other = in_its_place(row)
    if other is not None:
        if not replace:
            raise path_taken(other)
        return _as_revision(other, data, user)
    return store_restored(file_path=row.file_path, data=data, user=user, former=FormerLife.of(row))


def _as_revision(document: ApiDocument, data: bytes, user: AbstractBaseUser | None) -> UploadOutcome:
    if document.status == _DELETING:  # like an upload: the document is not deleted after all
        return store_restored(file_path=document.file_path, data=data, user=user, former=None)
    saved = replace_text(document_id=document.pk, data=data, user=user)
    return UploadOutcome(saved, created=False, unchanged=saved.revision == document.revision)
