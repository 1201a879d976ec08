"""Undo from the history: a replaced revision and a deleted document come back, and nothing that is there gets lost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from documents import history, storage
from documents.errors import DocumentError
from documents.models import ApiDocument, DeletedDocument, DocumentHistory
from documents.services import delete_document, keywords_of, restore_revision, set_enabled
from documents.source import DjangoDocumentSource, get_keyword_index
from documents.worker import run_due_jobs
from retrieval.keyword_sync import SyncedKeywordIndex
from tests.documents.library import indexed, kept, text, upload, vectors

pytestmark = pytest.mark.django_db
ONE, TWO = text("ONE"), text("TWO")


def newest() -> DocumentHistory:
    row = DocumentHistory.objects.order_by("-id").first()
    assert row is not None
    return row


def found(keyword: str, index: SyncedKeywordIndex | None = None) -> list[int]:
    index = index or get_keyword_index()
    return [match.entry.document_id for match in index.exact_match(keyword)]


def deleted(content: str = ONE, **names: str) -> ApiDocument:
    document = indexed(content, **names)
    delete_document(document_id=document.pk, user=None)
    return document


def test_a_replaced_revision_becomes_the_next_one_and_the_present_is_kept(knowledge_base: Path, alice: Any) -> None:
    document = indexed(ONE)
    upload(TWO)
    outcome = restore_revision(history_id=newest().pk, user=alice)
    assert (outcome.document.pk, outcome.document.revision, outcome.created) == (document.pk, 3, False)
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == ONE
    assert kept() == [(1, ONE.encode()), (2, TWO.encode())]
    assert (found("ONE"), found("TWO")) == ([document.pk], [])
    assert newest().created_by == alice.username


def test_undo_of_an_undo_brings_the_later_text_back(knowledge_base: Path) -> None:
    document = upload(ONE).document
    upload(TWO)
    restore_revision(history_id=newest().pk, user=None)
    restore_revision(history_id=newest().pk, user=None)
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == TWO
    document.refresh_from_db()
    assert document.revision == 4


def test_the_present_bytes_again_change_nothing(knowledge_base: Path) -> None:
    upload(ONE)
    upload(TWO)
    row = newest()
    restore_revision(history_id=row.pk, user=None)
    assert restore_revision(history_id=row.pk, user=None).unchanged
    assert ApiDocument.objects.get().revision == 3


def test_a_deleted_document_comes_back_with_its_id_and_answers(knowledge_base: Path) -> None:
    document = deleted()
    other_process = SyncedKeywordIndex(DjangoDocumentSource())
    assert found("ONE", other_process) == []
    back = restore_revision(history_id=newest().pk, user=None).document
    assert (back.pk, back.file_path, back.revision) == (document.pk, document.file_path, 2)
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == ONE
    assert found("ONE", other_process) == [document.pk] == found("ONE")
    run_due_jobs()
    assert vectors() == {(document.pk, 2): ApiDocument.objects.get().chunk_count}
    assert not DeletedDocument.objects.exists()


def test_an_index_that_reads_deletion_and_return_at_once_has_the_document(knowledge_base: Path) -> None:
    document = indexed(ONE)
    other_process = SyncedKeywordIndex(DjangoDocumentSource())
    assert found("ONE", other_process) == [document.pk]
    delete_document(document_id=document.pk, user=None)
    restore_revision(history_id=newest().pk, user=None)
    assert found("ONE", other_process) == [document.pk]


def test_a_deleted_document_comes_back_as_it_went(knowledge_base: Path, alice: Any, bob: Any) -> None:
    document = upload(ONE, user=alice).document
    made = timezone.now() - timedelta(days=9)
    drafts = {"summary": {"value": "A draft.", "state": "draft"}}
    ApiDocument.objects.filter(pk=document.pk).update(created_at=made, generated=drafts)
    set_enabled(document_id=document.pk, enabled=False)
    delete_document(document_id=document.pk, user=bob)
    back = restore_revision(history_id=newest().pk, user=bob).document
    assert (back.enabled, back.uploaded_by, back.created_at) == (False, alice, made)
    assert back.generated == drafts
    assert found("ONE") == []


def test_a_deleted_document_comes_back_without_an_uploader_who_is_gone(knowledge_base: Path, bob: Any) -> None:
    delete_document(document_id=upload(ONE, user=bob).document.pk, user=None)
    bob.delete()
    assert restore_revision(history_id=newest().pk, user=None).document.uploaded_by is None


def test_each_life_of_a_document_counts_its_revisions_on(knowledge_base: Path) -> None:
    document = deleted()
    for revision in (2, 3):
        assert restore_revision(history_id=newest().pk, user=None).document.revision == revision
        delete_document(document_id=document.pk, user=None)
    assert [revision for revision, _bytes in kept()] == [1, 2, 3]


def test_an_earlier_revision_of_a_deleted_document_can_come_back_too(knowledge_base: Path) -> None:
    document = upload(ONE).document
    upload(TWO)
    delete_document(document_id=document.pk, user=None)
    first = DocumentHistory.objects.get(revision=1)
    back = restore_revision(history_id=first.pk, user=None).document
    assert (back.pk, back.revision, keywords_of(back)) == (document.pk, 3, ("ONE",))


def test_a_place_that_is_taken_is_not_overwritten_unless_asked(knowledge_base: Path) -> None:
    deleted()
    row = newest()
    other = upload(TWO).document
    with pytest.raises(DocumentError) as refusal:
        restore_revision(history_id=row.pk, user=None)
    assert (refusal.value.code, refusal.value.status) == ("path_taken", 409)
    assert other.file_path in refusal.value.detail
    saved = restore_revision(history_id=row.pk, user=None, replace=True).document
    assert (saved.pk, saved.revision) == (other.pk, 2)
    assert kept()[-1] == (1, TWO.encode())


def test_a_place_taken_by_another_spelling_is_taken(knowledge_base: Path) -> None:
    deleted(name="Guide.md")
    row = newest()
    upload(TWO, "guide.md")
    with pytest.raises(DocumentError) as refusal:
        restore_revision(history_id=row.pk, user=None)
    assert refusal.value.code == "path_taken"


def test_a_document_that_moved_is_restored_where_it_is(knowledge_base: Path) -> None:
    document = upload(ONE).document
    upload(TWO)
    row = newest()
    DocumentHistory.objects.filter(pk=row.pk).update(file_path="knowledge_base/elsewhere/old.md")
    restore_revision(history_id=row.pk, user=None)
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == ONE
    assert ApiDocument.objects.get().pk == document.pk


def test_pruned_and_changed_bytes_are_refused(knowledge_base: Path) -> None:
    upload(ONE)
    upload(TWO)
    row = newest()
    path = storage.history_path(row.stored_name)
    path.write_bytes(b"something else")
    with pytest.raises(DocumentError) as changed:
        restore_revision(history_id=row.pk, user=None)
    path.unlink()
    with pytest.raises(DocumentError) as gone:
        restore_revision(history_id=row.pk, user=None)
    history.prune(days=0)
    with pytest.raises(DocumentError) as pruned:
        restore_revision(history_id=row.pk, user=None)
    assert [refusal.value.code for refusal in (changed, gone, pruned)] == ["revision_gone"] * 2 + ["not_found"]
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == TWO


def test_a_path_that_no_upload_may_have_is_refused(knowledge_base: Path) -> None:
    deleted()
    row = newest()
    DocumentHistory.objects.filter(pk=row.pk).update(file_path="knowledge_base/../outside.md")
    with pytest.raises(DocumentError):
        restore_revision(history_id=row.pk, user=None)
    assert not (knowledge_base.parent / "outside.md").exists()
    assert not ApiDocument.objects.exists()


def test_a_failed_publication_of_a_return_leaves_the_document_deleted(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted()
    row = newest()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "put_in_place", full)
        with pytest.raises(DocumentError) as refusal:
            restore_revision(history_id=row.pk, user=None)
    assert refusal.value.code == "save_failed"
    assert not ApiDocument.objects.exists()
    assert restore_revision(history_id=row.pk, user=None).document.pk == row.document_id
