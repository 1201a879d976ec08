"""What a deleted document was besides its bytes, so that it comes back as it went: its id, whether it was enabled, the
model's drafts, who had uploaded it and when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.dateparse import parse_datetime

from documents.models import ApiDocument, DeletedDocument, DocumentHistory


def state_of(document: ApiDocument) -> dict[str, Any]:
    """What the history keeps of a document that is being deleted, as JSON."""
    return {
        "enabled": document.enabled,
        "generated": document.generated,
        "uploaded_by": document.uploaded_by_id,
        "created_at": document.created_at.isoformat() if document.created_at else None,
    }


@dataclass(frozen=True)
class FormerLife:
    """The id that a document had, the highest revision that it came to, and its ``state`` (:func:`state_of`)."""

    document_id: int
    revision: int
    state: dict[str, Any]

    @classmethod
    def of(cls, row: DocumentHistory) -> FormerLife:
        """Of a row of the history; the revision is the highest that is known of the document."""
        known = DocumentHistory.objects.filter(document_id=row.document_id).order_by("-revision")
        highest = known.values_list("revision", flat=True).first() or row.revision
        return cls(row.document_id, max(highest, row.revision), dict(row.state))

    def begin(self, document: ApiDocument) -> None:
        """Give a new row the old id. Its revisions go on counting, so no job or vector of the former life can count."""
        document.pk, document.revision = self.document_id, self.revision

    def take_up(self, document: ApiDocument) -> None:
        """After the row is saved, in its transaction: the former state, and no tombstone any more."""
        DeletedDocument.objects.filter(pk=document.pk).delete()
        if not self.state:
            return
        uploader = self.state.get("uploaded_by")
        if uploader is not None and get_user_model()._default_manager.filter(pk=uploader).exists():
            document.uploaded_by_id = uploader
        document.enabled = bool(self.state.get("enabled", True))
        document.generated = self.state.get("generated") or {}
        created = parse_datetime(self.state.get("created_at") or "")
        if created is not None:
            document.created_at = created
        document.save(update_fields=["uploaded_by_id", "enabled", "generated", "created_at"])
