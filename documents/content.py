"""Reading the bytes of a document's current revision, wherever a crash or a race has left them."""

from __future__ import annotations

from django.utils.translation import gettext as _

from documents import history, storage
from documents.errors import DocumentError
from documents.models import ApiDocument

_ATTEMPTS = 3


def file_missing(file_path: str) -> DocumentError:
    """The refusal where a document's file is not there."""
    detail = _("The file of %(path)s is missing. Put it back, or upload it again.") % {"path": file_path}
    return DocumentError(detail, code="file_missing", status=409)


def current_bytes(document: ApiDocument) -> bytes:
    """The file, byte for byte: from staging until it is published, then from its place.

    A publication between the look and the read is looked after: the row is read again. Raises ``file_missing``
    (DocumentError), or ``OSError`` where the disk refuses.
    """
    for _attempt in range(_ATTEMPTS):
        if document.published_revision < document.revision:
            try:
                return storage.staged_path(document.pk, document.revision).read_bytes()
            except FileNotFoundError:
                pass
        try:
            return storage.read_published(document.file_path)
        except FileNotFoundError:
            document.refresh_from_db(fields=["revision", "published_revision", "file_path"])
    raise file_missing(document.file_path)


def former_bytes(document: ApiDocument, revision: int) -> bytes | None:
    """The bytes of a revision that has been replaced since a lookup began; None where they are gone.

    They are kept under ``.history/`` before the file is replaced: where they are not kept yet, they still lie in the
    document's place, unless they went while we read.
    """
    kept = history.bytes_of(document.pk, revision)
    if kept is not None or document.published_revision != revision:
        return kept
    try:
        in_place = storage.read_published(document.file_path)
    except FileNotFoundError:
        return None
    kept = history.bytes_of(document.pk, revision)
    return in_place if kept is None else kept
