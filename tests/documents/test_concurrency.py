"""Uploads, edits, deletions, scans and a running worker at once: afterwards file, row, chunks, vectors and L0 agree."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from clients.registry import get_vector_store
from documents import storage
from documents.errors import DocumentError
from documents.models import ApiDocument, DocumentChunk, KnowledgeDomain
from documents.scan import scan
from documents.services import delete_document, edit_metadata, set_enabled
from documents.source import get_keyword_index
from documents.worker import EmbeddedWorker, run_due_jobs
from tests.documents.library import files, text, upload

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = [f"{number}.md" for number in range(4)]
REFUSALS = {"not_found", "stale_revision", "file_changed", "file_missing"}


class People:
    """Threads that each do random things to the same few documents."""

    def __init__(self) -> None:
        self.faults: list[BaseException] = []

    def person(self, seed: int) -> None:
        chance = random.Random(seed)
        try:
            for step in range(12):
                self._act(chance, f"{seed}-{step}")
        except Exception as fault:  # noqa: BLE001 (handed to the test)
            self.faults.append(fault)
        finally:
            connection.close()

    def _act(self, chance: random.Random, mark: str) -> None:
        name = chance.choice(NAMES)
        act = chance.choice(["upload", "upload", "delete", "edit", "toggle", "scan"])
        found = ApiDocument.objects.filter(file_name=name).values_list("pk", flat=True).first() or 0
        calls: dict[str, Callable[[], Any]] = {
            "upload": lambda: upload(text(f"CODE_{name}", f"# {mark}\n\ntext {mark}\n"), name),
            "delete": lambda: delete_document(document_id=found, user=None),
            "edit": lambda: edit_metadata(document_id=found, changes={"owner": mark}, user=None),
            "toggle": lambda: set_enabled(document_id=found, enabled=chance.random() < 0.7),
            "scan": lambda: scan(),
        }
        try:
            calls[act]()
        except DocumentError as refusal:
            if refusal.code not in REFUSALS:
                raise


def test_everything_agrees_after_many_hands(knowledge_base: Path) -> None:
    people, worker = People(), EmbeddedWorker(processes=0, lanes=2)
    worker.start()
    threads = [threading.Thread(target=people.person, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.stop(timeout=30)
    assert people.faults == []
    ApiDocument.objects.update(next_attempt_at=None)
    run_due_jobs()
    _all_agree(knowledge_base)
    assert scan().changed == 0


def _all_agree(knowledge_base: Path) -> None:
    rows = list(ApiDocument.objects.all())
    assert {row.status for row in rows} <= {"INDEXED"}
    on_disk = {name: (knowledge_base / name).read_bytes() for name in files(knowledge_base) if not name.startswith(".")}
    assert {f"payment/{row.file_name}": row.content_hash for row in rows} == {
        name: storage.content_hash(data) for name, data in on_disk.items()
    }
    assert [name for name in files(knowledge_base) if name.startswith(".staging")] == []
    assert all(row.indexed_revision == row.published_revision == row.revision for row in rows)
    expected = {(row.pk, row.revision): row.chunk_count for row in rows}
    assert get_vector_store().counts() == expected
    assert DocumentChunk.objects.count() == sum(expected.values())
    shown = {row.pk for row in rows if row.enabled}
    index = get_keyword_index()
    assert {match.entry.document_id for name in NAMES for match in index.exact_match(f"CODE_{name}")} == shown
    assert KnowledgeDomain.objects.get().document_count == len(shown)
