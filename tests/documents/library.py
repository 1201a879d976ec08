"""What the tests of the documents core share: putting documents in, and looking at every place where one can be."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from clients.registry import get_vector_store
from documents import storage
from documents.models import ApiDocument, DocumentHistory
from documents.services import UploadOutcome, upload_document
from documents.worker import run_due_jobs

BODY = "# Time-outs\n\nThe gateway gives up after thirty seconds.\n\n## What to do\n\nAsk the bank.\n"


def text(keyword: str = "ERR_TIMEOUT", body: str = BODY, title: str = "Payment time-outs") -> str:
    """A small document with a header."""
    return f"---\ntitle: {title}\nkeywords: [{keyword}]\n---\n{body}"


def upload(
    content: str | bytes, name: str = "timeouts.md", category: str = "payment", user: Any = None
) -> UploadOutcome:
    """Upload one document."""
    data = content.encode() if isinstance(content, str) else content
    return upload_document(file=io.BytesIO(data), file_name=name, category=category, user=user)


def indexed(content: str, name: str = "timeouts.md", category: str = "payment") -> ApiDocument:
    """Upload one document and make its vectors."""
    document = upload(content, name, category).document
    run_due_jobs()
    document.refresh_from_db()
    assert document.status == ApiDocument.Status.INDEXED, document.status_reason
    return document


def vectors() -> dict[tuple[int, int], int]:
    """Chunks in the store by (document, revision)."""
    return get_vector_store().counts()


def files(folder: Path) -> list[str]:
    """Every file below a folder, dot-folders included, as relative paths."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def kept() -> list[tuple[int, bytes]]:
    """Earlier revisions with their bytes, oldest first."""
    rows = DocumentHistory.objects.order_by("id")
    return [(row.revision, storage.history_path(row.stored_name).read_bytes()) for row in rows]
