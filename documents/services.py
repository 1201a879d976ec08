"""What the rest of the site does with documents: the one public module for changes, a function for each step.

None may be called inside a transaction: what they answer is on disk and committed.
"""

from __future__ import annotations

import time

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from documents import storage
from documents.content import current_bytes
from documents.counters import bump
from documents.deletion import delete_document
from documents.domains import mark_dirty
from documents.enrichment_review import Draft, EnrichmentProgress, drafts_of
from documents.enrichment_review import accept as accept_drafts
from documents.enrichment_review import accept_edited as accept_edited_draft
from documents.enrichment_review import pending_ids as documents_with_drafts
from documents.enrichment_review import progress as enrichment_progress
from documents.enrichment_review import regenerate as regenerate_drafts
from documents.enrichment_review import reject as reject_drafts
from documents.enrichment_review import restore as restore_draft
from documents.enrichment_review import retry_failed as retry_failed_enrichment
from documents.enrichment_review import undo as undo_acceptance
from documents.errors import DocumentError
from documents.frontmatter import keywords_from
from documents.generated import settle
from documents.models import ApiDocument
from documents.publishing import locked
from documents.reading import read_document_bytes
from documents.transactions import repeated_on_deadlock
from documents.undo import in_its_place, kept_bytes, living_document, require_kept, restore_revision
from documents.uploads import (
    UploadOutcome,
    edit_metadata,
    not_found,
    queue_again,
    replace_text,
    require,
    upload_document,
)
from documents.wakeup import wake_worker

__all__ = [
    "DocumentError",
    "Draft",
    "EnrichmentProgress",
    "UploadOutcome",
    "accept_drafts",
    "accept_edited_draft",
    "delete_document",
    "documents_with_drafts",
    "drafts_of",
    "edit_metadata",
    "enrichment_progress",
    "in_its_place",
    "kept_bytes",
    "keywords_of",
    "living_document",
    "read_content",
    "regenerate_drafts",
    "reject_drafts",
    "replace_text",
    "request_reindex",
    "require_kept",
    "restore_draft",
    "restore_revision",
    "retry_failed_enrichment",
    "set_enabled",
    "undo_acceptance",
    "upload_document",
    "wait_until_indexed",
]
_POLL_SECONDS = 0.05


@repeated_on_deadlock
def set_enabled(*, document_id: int, enabled: bool) -> ApiDocument:
    """Show or hide a document in lookups, from the commit on. Raises ``not_found`` (404)."""
    with transaction.atomic(durable=True):
        document = locked(document_id)
        if document is None or document.status == ApiDocument.Status.DELETING:
            raise not_found()
        if document.enabled == enabled:
            return document
        document.enabled = enabled
        document.updated_at = timezone.now()
        mark_dirty(document.category)
        document.seq = bump()
        document.save(update_fields=["enabled", "updated_at", "seq"])
    wake_worker()
    return document


def request_reindex(*, document_id: int) -> ApiDocument:
    """Read the file's metadata again and queue its vectors; the present ones answer until then.

    Raises ``not_found`` (404), ``file_missing`` and ``file_changed`` (409), ``unreadable_text`` (400).
    """
    document = require(document_id)
    _read_again(document)
    queue_again(document_id)
    wake_worker()
    document.refresh_from_db()
    return document


def _read_again(document: ApiDocument) -> None:
    """Title and keywords as this version of the program reads them, and as the settings say now."""
    data = current_bytes(document)
    if storage.content_hash(data) != document.content_hash:
        return  # an edit on disk: the next scan takes it in whole
    reading = read_document_bytes(data, file_path=document.file_path)
    with transaction.atomic(durable=True):
        row = locked(document.pk)
        if row is None or row.revision != document.revision or row.status == ApiDocument.Status.DELETING:
            return
        row.title, row.metadata, row.frontmatter_problem = reading.title, reading.metadata, reading.problem
        row.generated = settle(row.generated, reading.metadata, malformed=reading.malformed)
        mark_dirty(row.category)
        row.seq = bump()
        row.save(update_fields=["title", "metadata", "frontmatter_problem", "generated", "seq"])


def read_content(*, document_id: int) -> bytes:
    """The document's file, byte for byte. Raises ``not_found`` (404), ``file_missing`` (409)."""
    return current_bytes(require(document_id))


def keywords_of(document: ApiDocument) -> tuple[str, ...]:
    """The author's keywords, of the fields that ``KEYWORD_FIELDS`` names (FM-6)."""
    return keywords_from(document.metadata, settings.KEYWORD_FIELDS)


def wait_until_indexed(document_id: int, seconds: float) -> ApiDocument:
    """The document once it is INDEXED or FAILED, or as it stands after ``seconds``. Raises ``not_found`` (404)."""
    deadline = time.monotonic() + seconds
    while True:
        document = require(document_id)
        done = document.status in {ApiDocument.Status.INDEXED, ApiDocument.Status.FAILED}
        if done or time.monotonic() >= deadline:
            return document
        time.sleep(_POLL_SECONDS)
