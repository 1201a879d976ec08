"""Deleting a document: hidden by one commit, then gone from every place; and what may come in between (DOC-5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.interfaces import ClientError
from clients.registry import get_vector_store
from documents import deletion, storage, uploads
from documents.errors import DocumentError
from documents.models import ApiDocument, DeletedDocument, DocumentChunk, DocumentHistory, KnowledgeDomain
from documents.publishing import publish
from documents.scan import scan
from documents.services import delete_document, request_reindex, set_enabled
from documents.worker import run_due_jobs
from tests.documents.library import files, indexed, kept, text, upload, vectors

pytestmark = pytest.mark.django_db
OLD = text("OLD_CODE", "old text\n")
NEW = text("NEW_CODE", "new text\n")


def store_down(*_args: Any) -> None:
    raise ClientError("The vector store does not answer.", code="store_unavailable", retryable=True, hint="Start it.")


def test_file_row_chunks_and_vectors_go(knowledge_base: Path, alice: Any) -> None:
    document = indexed(OLD)
    assert delete_document(document_id=document.pk, user=alice) is True
    assert not ApiDocument.objects.exists()
    assert not DocumentChunk.objects.exists()
    assert vectors() == {}
    assert [name for name in files(knowledge_base) if not name.startswith(".history")] == []


def test_the_bytes_are_kept_for_undo(knowledge_base: Path, alice: Any) -> None:
    document = indexed(OLD)
    delete_document(document_id=document.pk, user=alice)
    assert kept() == [(1, OLD.encode())]
    row = DocumentHistory.objects.get()
    assert (row.document_id, row.reason, row.created_by) == (document.pk, "deleted", "alice")


def test_a_tombstone_tells_other_processes(knowledge_base: Path) -> None:
    document = indexed(OLD)
    delete_document(document_id=document.pk, user=None)
    tombstone = DeletedDocument.objects.get()
    assert tombstone.document_id == document.pk
    assert tombstone.seq > document.seq


def test_other_documents_stay(knowledge_base: Path) -> None:
    document = indexed(OLD)
    other = indexed(NEW, "other.md")
    delete_document(document_id=document.pk, user=None)
    assert vectors() == {(other.pk, 1): 1}
    assert (knowledge_base / "payment" / "other.md").exists()


def test_deleting_what_is_not_there_is_not_found() -> None:
    with pytest.raises(DocumentError) as refusal:
        delete_document(document_id=404, user=None)
    assert (refusal.value.code, refusal.value.status) == ("not_found", 404)


def test_delete_then_the_same_bytes_again_works(knowledge_base: Path) -> None:
    document = indexed(OLD)
    delete_document(document_id=document.pk, user=None)
    again = indexed(OLD)
    assert again.pk != document.pk
    assert vectors() == {(again.pk, 1): 1}


def test_with_the_store_down_it_is_hidden_and_finished_later(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    monkeypatch.setattr(get_vector_store(), "delete", store_down)
    assert delete_document(document_id=document.pk, user=None) is False
    document.refresh_from_db()
    assert document.status == "DELETING"
    assert "does not answer" in document.status_reason
    assert document.next_attempt_at is not None
    assert (knowledge_base / "payment" / "timeouts.md").exists()
    run_due_jobs()  # not due yet, and the store is still down
    assert ApiDocument.objects.filter(status="DELETING").exists()
    monkeypatch.undo()
    ApiDocument.objects.update(next_attempt_at=None)
    run_due_jobs()
    assert not ApiDocument.objects.exists()
    assert vectors() == {}


def test_a_document_that_is_going_is_not_found_by_other_calls(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    monkeypatch.setattr(get_vector_store(), "delete", store_down)
    delete_document(document_id=document.pk, user=None)
    with pytest.raises(DocumentError) as refusal:
        set_enabled(document_id=document.pk, enabled=True)
    assert refusal.value.code == "not_found"
    with pytest.raises(DocumentError) as refusal:
        request_reindex(document_id=document.pk)
    assert refusal.value.code == "not_found"
    assert delete_document(document_id=document.pk, user=None) is False  # asked again: still going


def test_a_scan_never_brings_back_a_document_that_is_being_deleted(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    monkeypatch.setattr(get_vector_store(), "delete", store_down)
    delete_document(document_id=document.pk, user=None)
    (knowledge_base / "payment" / "timeouts.md").write_text("edited meanwhile")
    report = scan()
    assert (report.new, report.changed) == (0, 0)
    document.refresh_from_db()
    assert document.status == "DELETING"


def test_an_upload_onto_a_deletion_is_the_same_row_with_nothing_of_the_old(
    knowledge_base: Path, monkeypatch: Any
) -> None:
    document = indexed(OLD)
    ApiDocument.objects.update(generated={"covers": {"value": ["x"], "state": "draft"}}, enabled=False)
    monkeypatch.setattr(get_vector_store(), "delete", store_down)
    delete_document(document_id=document.pk, user=None)
    outcome = upload(OLD)  # the very same bytes: the deletion still counts
    assert (outcome.created, outcome.unchanged) == (True, False)
    revived = outcome.document
    assert (revived.pk, revived.revision, revived.indexed_revision) == (document.pk, 2, 0)
    assert (revived.enabled, revived.generated, revived.status) == (True, {}, "PENDING")
    assert not revived.chunks.exists()
    monkeypatch.undo()
    run_due_jobs()
    revived.refresh_from_db()
    assert (revived.status, revived.indexed_revision) == ("INDEXED", 2)
    assert vectors() == {(document.pk, 2): 1}
    assert (knowledge_base / "payment" / "timeouts.md").read_bytes() == OLD.encode()


def test_an_upload_between_the_vectors_and_the_file_stops_the_deletion(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    real = deletion._remove_file_and_row

    def upload_comes_between(document_id: int, *, by: str) -> bool:
        upload(NEW)
        run_due_jobs()
        return real(document_id, by=by)

    monkeypatch.setattr(deletion, "_remove_file_and_row", upload_comes_between)
    delete_document(document_id=document.pk, user=None)
    monkeypatch.undo()
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.indexed_revision, document.revision) == ("INDEXED", 2, 2)
    assert (knowledge_base / "payment" / "timeouts.md").read_bytes() == NEW.encode()
    assert vectors() == {(document.pk, 2): 1}


def test_an_upload_before_the_vectors_are_removed_keeps_the_new_ones(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    real = deletion._remove_vectors

    def upload_comes_first(document_id: int) -> None:
        upload(NEW)
        run_due_jobs()
        real(document_id)

    monkeypatch.setattr(deletion, "_remove_vectors", upload_comes_first)
    delete_document(document_id=document.pk, user=None)
    monkeypatch.undo()
    assert vectors() == {(document.pk, 2): 1}


def test_an_upload_of_another_process_after_the_check_is_indexed_again(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    store = get_vector_store()
    real = store.delete

    def upload_comes_between(ids: list[int]) -> None:
        # Another process has another lock: its vectors are in before ours go.
        upload(NEW)
        run_due_jobs()
        real(ids)

    monkeypatch.setattr(store, "delete", upload_comes_between)
    delete_document(document_id=document.pk, user=None)
    monkeypatch.undo()
    assert vectors() == {}
    run_due_jobs()
    document.refresh_from_db()
    assert document.status == "INDEXED"
    assert vectors() == {(document.pk, 2): 1}


def test_a_deletion_between_commit_and_publication_wins(knowledge_base: Path, monkeypatch: Any) -> None:
    def deleted_first(document_id: int, revision: int, *, by: str = "") -> bool:
        delete_document(document_id=document_id, user=None)
        return publish(document_id, revision, by=by)

    monkeypatch.setattr(uploads, "publish", deleted_first)
    assert upload(NEW).created
    assert not ApiDocument.objects.exists()
    assert [name for name in files(knowledge_base) if not name.startswith(".history")] == []
    assert kept() == [(1, NEW.encode())]


def test_a_crash_between_the_unlink_and_the_commit_is_finished(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)

    class Killed(BaseException):
        pass

    real = storage.drop_staged

    def killed(*_args: Any) -> None:
        raise Killed

    monkeypatch.setattr(storage, "drop_staged", killed)
    with pytest.raises(Killed):
        delete_document(document_id=document.pk, user=None)
    monkeypatch.setattr(storage, "drop_staged", real)
    assert not (knowledge_base / "payment" / "timeouts.md").exists()
    assert ApiDocument.objects.get().status == "DELETING"
    assert kept() == []
    scan()
    run_due_jobs()
    assert not ApiDocument.objects.exists()
    assert kept() == [(1, OLD.encode())]


def test_a_file_that_is_gone_already_does_not_stop_a_deletion(knowledge_base: Path) -> None:
    document = indexed(OLD)
    (knowledge_base / "payment" / "timeouts.md").unlink()
    (knowledge_base / "payment").rmdir()
    assert delete_document(document_id=document.pk, user=None) is True
    assert not ApiDocument.objects.exists()


def test_the_domain_keeps_its_row_and_counts_nothing(knowledge_base: Path) -> None:
    document = indexed(OLD)
    delete_document(document_id=document.pk, user=None)
    run_due_jobs()
    domain = KnowledgeDomain.objects.get()
    assert (domain.domain_id, domain.document_count) == ("payment", 0)
