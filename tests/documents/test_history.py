"""Kept bytes of earlier revisions: for TRASH_DAYS, then gone; tombstones and strays with them (DOC-12)."""

from __future__ import annotations

import errno
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from documents import history, storage
from documents.models import DeletedDocument, DocumentHistory
from documents.services import delete_document
from tests.documents.library import files, kept, text, upload

pytestmark = pytest.mark.django_db
ONE, TWO, THREE = text("ONE"), text("TWO"), text("THREE")


def test_every_replaced_revision_and_the_deleted_one_are_kept(knowledge_base: Path) -> None:
    document = upload(ONE).document
    upload(TWO)
    upload(THREE)
    delete_document(document_id=document.pk, user=None)
    assert kept() == [(1, ONE.encode()), (2, TWO.encode()), (3, THREE.encode())]
    assert [row.reason for row in DocumentHistory.objects.order_by("id")] == ["replaced", "replaced", "deleted"]
    assert history.bytes_of(document.pk, 2) == TWO.encode()
    assert history.bytes_of(document.pk, 4) is None


def test_bytes_older_than_the_setting_go(knowledge_base: Path, settings: Any) -> None:
    settings.TRASH_DAYS = 30
    upload(ONE)
    upload(TWO)
    upload(THREE)
    old = DocumentHistory.objects.order_by("id")[0]
    DocumentHistory.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=30, seconds=1))
    assert history.prune() == 1
    assert kept() == [(2, TWO.encode())]
    assert len([name for name in files(knowledge_base) if name.startswith(".history")]) == 1


def test_with_no_days_to_keep_everything_goes_at_once(knowledge_base: Path, settings: Any) -> None:
    settings.TRASH_DAYS = 0
    upload(ONE)
    upload(TWO)
    assert history.prune() == 1
    assert files(knowledge_base) == ["payment/timeouts.md"]


def test_tombstones_go_after_some_days(knowledge_base: Path) -> None:
    for name in ("a.md", "b.md"):
        delete_document(document_id=upload(ONE, name).document.pk, user=None)
    first = DeletedDocument.objects.order_by("pk")[0]
    DeletedDocument.objects.filter(pk=first.pk).update(deleted_at=timezone.now() - timedelta(days=8))
    history.prune()
    assert list(DeletedDocument.objects.values_list("pk", flat=True)) == [first.pk + 1]


def test_files_of_writes_that_were_cut_off_go_after_a_day_and_bytes_without_a_row_after_trash_days(
    knowledge_base: Path, settings: Any, monkeypatch: Any
) -> None:
    upload(ONE)
    upload(TWO)
    for path in (".staging/tmp-dead", ".history/tmp-dead", ".history/99.1.abc"):
        (knowledge_base / path).write_bytes(b"x")
    history.prune()
    assert (knowledge_base / ".history/99.1.abc").exists()
    monkeypatch.setattr(history, "_ORPHAN_SECONDS", -1.0)
    history.prune()
    assert [name for name in files(knowledge_base) if "tmp" in name] == []
    assert (knowledge_base / ".history/99.1.abc").exists()  # whose row a restored database may have lost
    assert kept() == [(1, ONE.encode())]
    settings.TRASH_DAYS = 0
    monkeypatch.setattr("documents.storage.age_in_seconds", lambda _path: 1.0)
    history.prune(days=30)
    assert not (knowledge_base / ".history/99.1.abc").exists()
    assert kept() == [(1, ONE.encode())]


def test_a_disk_without_hard_links_gets_a_copy(knowledge_base: Path, monkeypatch: Any) -> None:
    def no_links(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    upload(ONE)
    upload(TWO)
    assert kept() == [(1, ONE.encode())]
    assert [path.name for path in storage.temporary_files()] == []


def test_an_edit_in_place_of_the_published_file_leaves_the_kept_bytes_alone(knowledge_base: Path) -> None:
    upload(ONE)
    upload(TWO)
    with (knowledge_base / "payment" / "timeouts.md").open("a") as file:
        file.write("appended")
    assert kept() == [(1, ONE.encode())]
