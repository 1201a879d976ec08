"""An upload that cannot be saved leaves nothing behind; one that was cut off is finished later (DOC-1, CONSISTENCY)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError

from documents import publishing, storage, uploads
from documents.disk_changes import absorb, hide
from documents.errors import DocumentError
from documents.models import ApiDocument
from documents.scan import scan
from documents.services import read_content
from documents.worker import run_due_jobs
from tests.documents.library import files, kept, text, upload

pytestmark = pytest.mark.django_db
OLD = text("OLD_CODE", "old text\n")
NEW = text("NEW_CODE", "new text\n")


def refuse(fault: BaseException) -> Callable[..., Any]:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise fault

    return fail


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["write_temporary", "stage", "put_in_place"])
def test_a_full_disk_at_any_step_leaves_nothing(knowledge_base: Path, monkeypatch: Any, step: str) -> None:
    monkeypatch.setattr(storage, step, refuse(full_disk()))
    with pytest.raises(DocumentError) as refusal:
        upload(NEW)
    assert (refusal.value.code, refusal.value.status) == ("save_failed", 507)
    assert files(knowledge_base) == []
    assert not ApiDocument.objects.exists()


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failing_system_call_leaves_nothing(knowledge_base: Path, monkeypatch: Any, call: str) -> None:
    monkeypatch.setattr(os, call, refuse(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(DocumentError) as refusal:
        upload(NEW)
    assert (refusal.value.code, refusal.value.status) == ("save_failed", 503)
    monkeypatch.undo()
    assert files(knowledge_base) == []
    assert not ApiDocument.objects.exists()


def test_a_sync_that_fails_after_the_last_rename_takes_the_file_back(knowledge_base: Path, monkeypatch: Any) -> None:
    real = storage.sync_folder

    def fail_in_category(folder: Path) -> None:
        if folder.name == "payment":
            raise OSError(errno.EIO, "Input/output error")
        real(folder)

    monkeypatch.setattr(storage, "sync_folder", fail_in_category)
    with pytest.raises(DocumentError):
        upload(NEW)
    assert files(knowledge_base) == []
    assert not ApiDocument.objects.exists()


@pytest.mark.parametrize("step", ["_save_row", "mark_dirty", "bump"])
def test_a_database_that_fails_leaves_no_file(knowledge_base: Path, monkeypatch: Any, step: str) -> None:
    monkeypatch.setattr(uploads, step, refuse(DatabaseError("gone")))
    with pytest.raises(DatabaseError):
        upload(NEW)
    assert files(knowledge_base) == []
    assert not ApiDocument.objects.exists()


def test_a_commit_that_fails_after_the_rename_leaves_no_staged_file(knowledge_base: Path, monkeypatch: Any) -> None:
    real = storage.stage

    def stage_then_fail(*args: Any) -> None:
        real(*args)
        raise DatabaseError("the connection is lost at commit")

    monkeypatch.setattr(storage, "stage", stage_then_fail)
    with pytest.raises(DatabaseError):
        upload(NEW)
    assert files(knowledge_base) == []
    assert not ApiDocument.objects.exists()


def test_a_replacement_that_cannot_be_published_gives_the_old_text_back(knowledge_base: Path, monkeypatch: Any) -> None:
    document = upload(OLD).document
    run_due_jobs()
    monkeypatch.setattr(storage, "put_in_place", refuse(full_disk()))
    with pytest.raises(DocumentError):
        upload(NEW)
    monkeypatch.undo()
    document.refresh_from_db()
    assert read_content(document_id=document.pk) == OLD.encode()
    assert document.metadata is not None
    assert document.metadata["keywords"] == ["OLD_CODE"]
    assert document.published_revision == document.revision
    assert [name for name in files(knowledge_base) if name.startswith(".staging")] == []
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.indexed_revision) == ("INDEXED", document.revision)


def test_a_replacement_whose_publication_fails_after_the_rename_gives_the_old_text_back(
    knowledge_base: Path, monkeypatch: Any
) -> None:
    document = upload(OLD).document
    real = storage.put_in_place
    calls: list[Path] = []

    def fail_once_after_it(source: Path, file_path: str) -> None:
        real(source, file_path)
        calls.append(source)
        if len(calls) == 1:
            raise OSError(errno.EIO, "the folder could not be synced")

    monkeypatch.setattr(storage, "put_in_place", fail_once_after_it)
    with pytest.raises(DocumentError):
        upload(NEW)
    assert read_content(document_id=document.pk) == OLD.encode()
    assert (knowledge_base / "payment" / "timeouts.md").read_bytes() == OLD.encode()


def test_a_crash_between_commit_and_publication_loses_nothing(knowledge_base: Path, monkeypatch: Any) -> None:
    document = upload(OLD).document
    monkeypatch.setattr(uploads, "_publish_or_withdraw", lambda *_args, **_kwargs: None)
    upload(NEW)
    monkeypatch.undo()
    assert (knowledge_base / "payment" / "timeouts.md").read_bytes() == OLD.encode()
    assert read_content(document_id=document.pk) == NEW.encode()  # from staging, until it is in place
    run_due_jobs()
    assert (knowledge_base / "payment" / "timeouts.md").read_bytes() == NEW.encode()
    assert kept() == [(1, OLD.encode())]
    document.refresh_from_db()
    assert (document.revision, document.published_revision, document.status) == (2, 2, "INDEXED")


def test_a_scan_between_commit_and_publication_does_not_revert_the_upload(
    knowledge_base: Path, monkeypatch: Any
) -> None:
    document = upload(OLD).document
    monkeypatch.setattr(uploads, "_publish_or_withdraw", lambda *_args, **_kwargs: None)
    upload(NEW)
    monkeypatch.undo()
    report = scan()
    assert report.changed == 0
    document.refresh_from_db()
    assert (document.revision, document.content_hash) == (2, storage.content_hash(NEW.encode()))
    assert (knowledge_base / "payment" / "timeouts.md").read_bytes() == NEW.encode()


def test_the_former_bytes_are_no_edit_while_a_revision_waits_to_be_published(
    knowledge_base: Path, monkeypatch: Any
) -> None:
    document = upload(OLD).document
    monkeypatch.setattr(uploads, "_publish_or_withdraw", lambda *_args, **_kwargs: None)
    upload(NEW)
    assert absorb(document.pk) == ""
    assert not hide(document.pk)
    document.refresh_from_db()
    assert (document.revision, document.content_hash) == (2, storage.content_hash(NEW.encode()))


def test_a_crash_after_the_rename_of_a_publication_is_seen_and_its_history_kept(
    knowledge_base: Path, monkeypatch: Any
) -> None:
    document = upload(OLD).document

    class Killed(BaseException):
        pass

    monkeypatch.setattr(publishing, "bump", refuse(Killed()))
    monkeypatch.setattr(uploads, "withdraw", lambda *_args: None)
    with pytest.raises(Killed):
        upload(NEW)
    monkeypatch.undo()
    document.refresh_from_db()
    assert (document.revision, document.published_revision) == (2, 1)
    assert kept() == []  # the row was rolled back, the bytes are there
    run_due_jobs()
    document.refresh_from_db()
    assert (document.published_revision, document.status) == (2, "INDEXED")
    assert kept() == [(1, OLD.encode())]


def test_staged_bytes_that_someone_removed_are_said_to_be_missing(knowledge_base: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "_publish_or_withdraw", lambda *_args, **_kwargs: None)
    document = upload(NEW).document
    monkeypatch.undo()
    storage.staged_path(document.pk, 1).unlink()
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.status_reason) == ("FAILED", "file missing")
    assert document.missing_since is not None


def test_staged_files_of_a_transaction_that_has_not_committed_are_left_alone(knowledge_base: Path) -> None:
    document = upload(OLD).document
    folder = storage.inner_folder(storage.STAGING)
    for name in (f"{document.pk}.2", "999.1", f"{document.pk}.1", "tmp-abc"):
        (folder / name).write_bytes(b"x")
    publishing.drop_stale_staged()
    assert sorted(path.name for path in folder.iterdir()) == sorted([f"{document.pk}.2", "999.1", "tmp-abc"])
