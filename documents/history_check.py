"""Kept bytes and their rows, where one is there without the other."""

from __future__ import annotations

import re
from pathlib import Path

from documents import storage
from documents.models import ApiDocument, DocumentHistory

_STORED_NAME = re.compile(r"(\d{1,18})\.(\d{1,9})\.[0-9a-f]{16}")


def adopt_stray(path: Path) -> bool:
    """Give kept bytes their row; False where their document is not known, neither as it is nor as it was.

    Raises ``OSError``.
    """
    match = _STORED_NAME.fullmatch(path.name)
    if match is None:
        return False
    document_id, revision = int(match[1]), int(match[2])
    document = ApiDocument.objects.filter(pk=document_id).first()
    former = DocumentHistory.objects.filter(document_id=document_id).first()
    known = document or former
    if known is None:
        return False
    data = path.read_bytes()
    reasons = DocumentHistory.Reason
    DocumentHistory.objects.get_or_create(
        document_id=document_id,
        stored_name=path.name,
        defaults={
            "file_path": known.file_path,
            "revision": revision,
            "content_hash": storage.content_hash(data),
            "size": len(data),
            "reason": reasons.REPLACED if document else reasons.DELETED,
        },
    )
    return True


def make_again(row: DocumentHistory) -> bool:
    """Keep the bytes of a row whose file is gone once more, where they lie under another name still.

    Raises ``OSError``.
    """
    same = ApiDocument.objects.filter(content_hash=row.content_hash).exclude(status=ApiDocument.Status.DELETING)
    others = DocumentHistory.objects.filter(content_hash=row.content_hash).exclude(pk=row.pk)
    places = [storage.inside(path) for path in same.values_list("file_path", flat=True)]
    places += [storage.history_path(name) for name in others.values_list("stored_name", flat=True)]
    for place in places:
        if place.is_file() and not place.is_symlink() and storage.hash_of_file(place) == row.content_hash:
            storage.keep(place, row.stored_name)
            return True
    return False
