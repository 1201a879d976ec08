"""Every place where a document can be, of a site that the environment names, as JSON. Looks only; uses no product code
to judge.

    python -m bench.reliability.inspection            rows, files, staged files, vectors, chunks, earlier revisions
    python -m bench.reliability.inspection age        as if an hour had passed since the last changes

The second is for tests that cannot wait: leases of processes that were killed run out after two minutes, and vectors of
a document that has just changed are left alone for four.
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any


def main() -> int:
    import django

    django.setup()
    print(json.dumps(_age() if sys.argv[1:] == ["age"] else _look()))
    return 0


def _look() -> dict[str, Any]:
    from django.conf import settings
    from django.db.models import Count

    from clients.registry import get_vector_store
    from documents.models import ApiDocument, DeletedDocument, DocumentChunk, DocumentHistory

    base = Path(settings.KNOWLEDGE_BASE_PATH)
    columns = (
        "pk", "file_path", "status", "status_reason", "revision", "published_revision", "indexed_revision",
        "chunk_count", "content_hash",
    )  # fmt: skip
    chunks = DocumentChunk.objects.order_by().values_list("document_id", "revision").annotate(n=Count("pk"))
    kept = {path.name for path in (base / ".history").glob("*")}
    known = set(DocumentHistory.objects.values_list("stored_name", flat=True))
    store = get_vector_store()
    store.open()
    return {
        "rows": [dict(zip(columns, row, strict=True)) for row in ApiDocument.objects.values_list(*columns)],
        "files": {
            f"knowledge_base/{path.relative_to(base).as_posix()}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in base.rglob("*.md")
            if not path.relative_to(base).parts[0].startswith(".")
        },
        "staged": sorted(path.name for path in (base / ".staging").glob("*")),
        "vectors": [[*key, number] for key, number in sorted(store.counts().items())],
        "chunks": [list(row) for row in chunks],
        "deleted": list(DeletedDocument.objects.values_list("document_id", flat=True)),
        "kept_with_row": sorted(kept & known),
        "kept_without_row": sorted(kept - known),
        "rows_without_kept": sorted(known - kept),
    }


def _age() -> dict[str, int]:
    from django.db.models import F
    from django.utils import timezone

    from documents.models import ApiDocument, ChangeCounter, DeletedDocument

    hour = timedelta(hours=1)
    changed = ApiDocument.objects.update(updated_at=F("updated_at") - hour)
    ApiDocument.objects.filter(status="INDEXING").update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    ApiDocument.objects.filter(status="FAILED", next_attempt_at__isnull=False).update(next_attempt_at=timezone.now())
    ChangeCounter.objects.filter(name="reconcile_until").update(value=0)  # the turn of a process that was killed
    gone = DeletedDocument.objects.update(deleted_at=F("deleted_at") - hour)
    return {"documents": changed, "deleted": gone}


if __name__ == "__main__":
    raise SystemExit(main())
