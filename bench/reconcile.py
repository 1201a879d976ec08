"""Measures reconcile: ``python -m bench.reconcile``. 10,000 documents with 25,000 chunks on SQLite, nothing out of
step: what the pass of each minute costs, and the full one. The vectors are stood in for: Milvus Lite counts 25,000 in
about 2 s, and again only after a change.

Everything lies in a temporary folder; no service and no network is used.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import Report, percentile

DOCUMENTS = 10_000
CHUNKS = 25_000
TERMS_A_CHUNK = 80
VOCABULARY = 40_000


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kbsite-bench-") as folder:
        _set_up(Path(folder))
        report = Report(f"Reconcile: {DOCUMENTS:,} documents, {CHUNKS:,} chunks")
        report.begin()
        _fill(Path(folder) / "knowledge_base")
        _measure(report)
    return report.code()


def _set_up(folder: Path) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="kbsite.settings",
        DATA_DIR=str(folder / "data"),
        KNOWLEDGE_BASE_PATH=str(folder / "knowledge_base"),
        DATABASE_URL="",
        EMBEDDER="hashing",
        CELERY_BROKER_URL="",
        REDIS_URL="",
        VECTOR_STORE_URI="",
        OPENAI_MODEL="",
    )
    (folder / "data").mkdir()
    import django

    django.setup()
    import logging

    from django.conf import settings
    from django.core.management import call_command

    settings.CLIENTS["vector_store"] = {"BACKEND": "clients.fakes.InMemoryVectorStore"}
    logging.disable(logging.WARNING)
    call_command("migrate", verbosity=0)


def _fill(base: Path) -> None:
    """Files by the scan; chunks, terms and vectors as a worker would leave them, without embedding anything."""
    import numpy as np
    from django.db import transaction

    from clients.interfaces import ChunkVector
    from clients.registry import get_embedder, get_vector_store
    from documents.domains import recompute_dirty
    from documents.models import ApiDocument, DocumentChunk
    from documents.scan import scan
    from documents.terms import count_chunks, packed

    for number in range(DOCUMENTS):
        path = base / f"team-{number % 40}" / f"service-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"---\nkeywords: [CODE-{number}, service {number}]\n---\n# Service {number}\n\n" + "text " * 300
        )
    scan()
    draw = random.Random(7)
    one = np.zeros(get_embedder().dimension, dtype=np.float32)
    one[0] = 1.0
    rows, left = [], CHUNKS
    for place, document in enumerate(ApiDocument.objects.order_by("pk")):
        many = left // (DOCUMENTS - place)
        left -= many
        for number in range(many):
            terms = packed(draw.sample(range(VOCABULARY), TERMS_A_CHUNK))
            rows.append(
                DocumentChunk(document=document, revision=1, number=number, start=0, end=9, text="x", terms=terms)
            )
        get_vector_store().upsert(document.pk, 1, [ChunkVector(n, document.category, one) for n in range(many)])
        ApiDocument.objects.filter(pk=document.pk).update(chunk_count=many, indexed_revision=1, status="INDEXED")
    with transaction.atomic():
        DocumentChunk.objects.bulk_create(rows, batch_size=500)
        count_chunks(rows)
    recompute_dirty(force=True)


def _measure(report: Report) -> None:
    from documents.reconcile import reconcile
    from documents.source import get_keyword_index
    from documents.term_recount import miscounted

    get_keyword_index().refresh()

    def light() -> None:
        ran = reconcile(by="bench", full=False, asked=False)
        assert ran is not None
        assert not ran.findings, ran.findings[:3]

    def full() -> None:
        ran = reconcile(by="bench")
        assert ran is not None
        assert not ran.findings, ran.findings[:3]

    report.figure("first pass of a process (reads every file)", _seconds(light, 1)[0], "s")
    report.at_most("pass of each minute, median", percentile(_seconds(light, 5), 0.5), 1.5, "s")
    report.at_most("full pass", percentile(_seconds(full, 3), 0.5), 15.0, "s")
    report.at_most("terms of all chunks counted again", percentile(_seconds(miscounted, 3), 0.5), 5.0, "s")


def _seconds(step: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _time in range(times):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return taken


if __name__ == "__main__":
    sys.exit(main())
