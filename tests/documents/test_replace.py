"""Replacing a document: same id, new revision, the former text kept; and two people at once (DOC-4, DOC-12)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from documents import storage, uploads
from documents.errors import DocumentError
from documents.frontmatter import rewrite
from documents.models import ApiDocument, DocumentHistory
from documents.publishing import publish
from documents.services import edit_metadata, read_content, request_reindex, set_enabled
from documents.worker import run_due_jobs
from tests.documents.library import files, indexed, kept, text, upload, vectors

pytestmark = pytest.mark.django_db
OLD = text("OLD_CODE", "# A\n\nold text\n")
NEW = text("NEW_CODE", "# B\n\nnew text\n\n# C\n\nmore\n", title="New title")


def test_the_same_name_again_is_a_new_revision_of_the_same_document(knowledge_base: Path, alice: Any) -> None:
    first = upload(OLD).document
    outcome = upload(NEW, user=alice)
    assert (outcome.created, outcome.unchanged) == (False, False)
    assert (outcome.document.pk, outcome.document.revision) == (first.pk, 2)
    assert (outcome.document.title, outcome.document.status) == ("New title", "PENDING")
    assert read_content(document_id=first.pk) == NEW.encode()
    assert ApiDocument.objects.count() == 1


def test_the_former_bytes_are_kept(knowledge_base: Path, alice: Any) -> None:
    upload(OLD)
    upload(NEW, user=alice)
    assert kept() == [(1, OLD.encode())]
    row = DocumentHistory.objects.get()
    assert (row.reason, row.created_by, row.file_path) == ("replaced", "alice", "knowledge_base/payment/timeouts.md")
    assert (row.content_hash, row.size) == (storage.content_hash(OLD.encode()), len(OLD.encode()))


def test_an_edit_that_others_made_on_disk_is_kept_when_an_upload_overwrites_it(knowledge_base: Path) -> None:
    upload(OLD)
    (knowledge_base / "payment" / "timeouts.md").write_text("edited by hand")
    upload(NEW)
    assert kept() == [(1, b"edited by hand")]


def test_the_same_bytes_are_answered_as_unchanged(knowledge_base: Path) -> None:
    document = indexed(OLD)
    outcome = upload(OLD)
    assert (outcome.created, outcome.unchanged) == (False, True)
    assert (outcome.document.revision, outcome.document.status) == (1, "INDEXED")
    assert outcome.document.updated_at == document.updated_at
    assert files(knowledge_base) == ["payment/timeouts.md"]


def test_the_same_bytes_queue_a_failed_document_again(knowledge_base: Path) -> None:
    document = upload(OLD).document
    ApiDocument.objects.update(status="FAILED", status_reason="the store was down", error_code="x", attempts=7)
    outcome = upload(OLD)
    assert outcome.unchanged
    document.refresh_from_db()
    assert (document.status, document.status_reason, document.attempts, document.revision) == ("PENDING", "", 0, 1)


def test_the_same_bytes_put_a_missing_file_back(knowledge_base: Path) -> None:
    document = upload(OLD).document
    (knowledge_base / "payment" / "timeouts.md").unlink()
    outcome = upload(OLD)
    assert not outcome.unchanged
    assert read_content(document_id=document.pk) == OLD.encode()


def test_the_old_vectors_answer_until_the_new_ones_are_in_and_then_never_again(knowledge_base: Path) -> None:
    document = indexed(OLD)
    assert vectors() == {(document.pk, 1): 1}
    upload(NEW)
    document.refresh_from_db()
    assert (document.indexed_revision, document.indexed_hash) == (1, storage.content_hash(OLD.encode()))
    assert [chunk.revision for chunk in document.chunks.all()] == [1]
    run_due_jobs()
    document.refresh_from_db()
    assert vectors() == {(document.pk, 2): 2}
    assert (document.indexed_revision, document.chunk_count) == (2, 2)
    assert [chunk.revision for chunk in document.chunks.all()] == [2, 2]


def test_a_rebuild_that_fails_leaves_the_old_vectors_and_says_why(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    upload(NEW)
    monkeypatch.setattr("documents.ingest.chunk_body", lambda _body: 1 / 0)
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.error_code, document.indexed_revision) == ("FAILED", "internal_error", 1)
    assert "ZeroDivisionError" in document.status_reason
    assert vectors() == {(document.pk, 1): 1}


def together(*steps: Callable[[], Any]) -> list[BaseException]:
    """Run steps in threads that begin at the same moment; the faults they ended with."""
    start = threading.Barrier(len(steps))
    faults: list[BaseException] = []

    def run(step: Callable[[], Any]) -> None:
        try:
            start.wait()
            step()
        except BaseException as fault:  # noqa: BLE001 (handed to the test)
            faults.append(fault)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


@pytest.mark.django_db(transaction=True)
def test_two_uploads_of_one_new_name_at_once_are_one_document_with_one_order(knowledge_base: Path) -> None:
    contents = [text(f"CODE_{number}") for number in range(6)]
    assert together(*[lambda content=content: upload(content) for content in contents]) == []
    document = ApiDocument.objects.get()
    assert (document.revision, document.published_revision) == (6, 6)
    on_disk = (knowledge_base / "payment" / "timeouts.md").read_bytes()
    assert storage.content_hash(on_disk) == document.content_hash
    assert [name for name in files(knowledge_base) if name.startswith(".staging")] == []


@pytest.mark.django_db(transaction=True)
def test_uploads_into_one_new_category_at_once_make_one_domain_with_the_right_count(knowledge_base: Path) -> None:
    steps = [lambda number=number: upload(text(f"CODE_{number}"), f"{number}.md", "new") for number in range(6)]
    assert together(*steps) == []
    run_due_jobs()
    assert dict(ApiDocument.objects.values_list("file_name", "status")) == {f"{n}.md": "INDEXED" for n in range(6)}


def test_of_two_replacements_the_later_commit_stays_whichever_is_published_first(
    knowledge_base: Path, monkeypatch: Any
) -> None:
    document = upload(OLD).document
    second = text("THIRD", "third text\n")
    nested: list[int] = []

    def another_comes_first(document_id: int, revision: int, *, by: str = "") -> bool:
        if not nested:
            nested.append(revision)
            upload(second)  # commits and publishes revision 3 while revision 2 waits to be published
        return publish(document_id, revision, by=by)

    monkeypatch.setattr(uploads, "publish", another_comes_first)
    upload(NEW)
    document.refresh_from_db()
    assert (document.revision, document.published_revision) == (3, 3)
    assert read_content(document_id=document.pk) == second.encode()
    assert [name for name in files(knowledge_base) if name.startswith(".staging")] == []


def test_an_edit_of_metadata_rewrites_the_file_as_a_new_revision(knowledge_base: Path, alice: Any) -> None:
    document = indexed(OLD)
    edited = edit_metadata(document_id=document.pk, changes={"title": "Edited", "owner": "ops"}, user=alice)
    assert (edited.pk, edited.revision, edited.title) == (document.pk, 2, "Edited")
    assert edited.metadata is not None
    assert (edited.metadata["keywords"], edited.metadata["owner"]) == (["OLD_CODE"], "ops")
    content = (knowledge_base / "payment" / "timeouts.md").read_text()
    assert content.endswith("# A\n\nold text\n")
    assert kept() == [(1, OLD.encode())]


def test_an_edit_that_changes_nothing_is_no_new_revision(knowledge_base: Path) -> None:
    document = indexed(OLD)
    assert edit_metadata(document_id=document.pk, changes={}, user=None).revision == 1


def test_an_edit_of_a_former_revision_is_refused(knowledge_base: Path) -> None:
    document = upload(OLD).document
    upload(NEW)
    with pytest.raises(DocumentError) as refusal:
        edit_metadata(document_id=document.pk, changes={"title": "x"}, revision=1, user=None)
    assert (refusal.value.code, refusal.value.status) == ("stale_revision", 409)
    assert read_content(document_id=document.pk) == NEW.encode()


def test_an_upload_between_reading_and_writing_an_edit_is_not_lost(knowledge_base: Path, monkeypatch: Any) -> None:
    document = upload(OLD).document
    calls: list[int] = []

    def upload_comes_between(data: bytes, changes: Any) -> bytes:
        calls.append(1)
        if len(calls) == 1:
            upload(NEW)
        return rewrite(data, changes)

    monkeypatch.setattr(uploads, "rewrite", upload_comes_between)
    edited = edit_metadata(document_id=document.pk, changes={"owner": "ops"}, user=None)
    assert edited.metadata is not None
    assert (edited.metadata["keywords"], edited.metadata["owner"]) == (["NEW_CODE"], "ops")
    calls.clear()
    with pytest.raises(DocumentError) as refusal:
        edit_metadata(document_id=document.pk, changes={"owner": "dev"}, revision=edited.revision, user=None)
    assert refusal.value.code == "stale_revision"


def test_a_broken_header_cannot_be_edited(knowledge_base: Path) -> None:
    document = upload("---\ntitle: [a\n---\nbody\n").document
    with pytest.raises(DocumentError) as refusal:
        edit_metadata(document_id=document.pk, changes={"title": "x"}, user=None)
    assert (refusal.value.code, refusal.value.status) == ("frontmatter_malformed", 409)


def test_an_edit_over_an_unread_change_on_disk_is_refused(knowledge_base: Path) -> None:
    document = upload(OLD).document
    (knowledge_base / "payment" / "timeouts.md").write_text("edited by hand")
    with pytest.raises(DocumentError) as refusal:
        edit_metadata(document_id=document.pk, changes={"title": "x"}, user=None)
    assert (refusal.value.code, refusal.value.status) == ("file_changed", 409)


def test_hiding_and_showing_moves_the_sequence(knowledge_base: Path) -> None:
    document = indexed(OLD)
    hidden = set_enabled(document_id=document.pk, enabled=False)
    assert not hidden.enabled
    assert hidden.seq > document.seq
    assert set_enabled(document_id=document.pk, enabled=False).seq == hidden.seq
    assert set_enabled(document_id=document.pk, enabled=True).seq > hidden.seq


def test_reindexing_reads_metadata_again_and_makes_vectors_anew(knowledge_base: Path) -> None:
    document = indexed(OLD)
    ApiDocument.objects.filter(pk=document.pk).update(title="wrong", metadata=None)
    queued = request_reindex(document_id=document.pk)
    assert (queued.status, queued.title, queued.revision, queued.indexed_revision) == (
        "PENDING", "Payment time-outs", 1, 1
    )  # fmt: skip
    run_due_jobs()
    document.refresh_from_db()
    assert document.status == "INDEXED"
    assert vectors() == {(document.pk, 1): 1}


@pytest.mark.parametrize("call", [
    lambda: set_enabled(document_id=404, enabled=True),
    lambda: request_reindex(document_id=404),
    lambda: edit_metadata(document_id=404, changes={}, user=None),
    lambda: read_content(document_id=404),
])  # fmt: skip
def test_a_document_that_is_not_there_is_not_found(call: Callable[[], Any]) -> None:
    with pytest.raises(DocumentError) as refusal:
        call()
    assert (refusal.value.code, refusal.value.status) == ("not_found", 404)
