"""Reconcile: each kind of damage, done by hand, is found, said and mended; a second look finds nothing any more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.serializers import serialize
from django.utils import timezone

from clients.interfaces import ChunkVector, ClientError
from clients.registry import get_embedder, get_vector_store
from documents import reconcile_rows, storage
from documents.counters import put, read
from documents.jobs import PROCESS_TOKEN, claim_next
from documents.models import (
    ApiDocument,
    ChangeCounter,
    DocumentChunk,
    DocumentEnrichment,
    DocumentHistory,
    DomainAggregation,
    KnowledgeDomain,
    ReconcileRun,
    TermCount,
)
from documents.reconcile import reconcile
from documents.reconcile_findings import WORDS
from documents.source import get_keyword_index
from documents.worker import run_due_jobs
from retrieval.keyword_index import KeywordEntry
from tests.documents.library import files, indexed, text, upload, vectors

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = timezone.now() - timedelta(days=2)


@pytest.fixture
def document(knowledge_base: Path) -> ApiDocument:
    """An indexed document of long ago, in a keyword index that was read."""
    made = indexed(text())
    aged()
    get_keyword_index().refresh()
    return made


@pytest.fixture
def others_long_gone(monkeypatch: Any) -> Iterator[None]:
    """Every file of a write is older than anybody who may still be at it."""
    monkeypatch.setattr(reconcile_rows, "abandoned_after", lambda: -1.0)
    monkeypatch.setattr(reconcile_rows, "YOUNG_SECONDS", -1.0)
    return iter(())


def aged(**columns: Any) -> None:
    """As if nothing had happened for two days."""
    ApiDocument.objects.update(updated_at=LONG_AGO, **columns)


def kinds(*, dry_run: bool = False, full: bool = True) -> list[tuple[str, bool]]:
    """What a pass finds, and whether it is mended."""
    report = reconcile(by="test", dry_run=dry_run, full=full)
    assert report is not None
    for finding in report.findings:
        assert finding.what
        assert "%(" not in finding.what + finding.remedy
        assert finding.mended or finding.remedy
    return [(finding.kind, finding.mended) for finding in report.findings]


def world(folder: Path) -> dict[str, Any]:
    """Every place where something of a document can be, as it is now."""
    tables: list[Any] = [
        ApiDocument, DocumentChunk, DocumentEnrichment, DocumentHistory, DomainAggregation, KnowledgeDomain, TermCount,
        ChangeCounter, ReconcileRun,
    ]  # fmt: skip
    rows = {table.__name__: serialize("json", table._default_manager.order_by("pk")) for table in tables}
    return {**rows, "files": {name: (folder / name).read_bytes() for name in files(folder)}, "vectors": vectors()}


def found_and_mended(kind: str, *, again: Any = None) -> None:
    """A look finds it and changes nothing, a run mends it, and then there is nothing any more."""
    folder = storage.base()
    before = world(folder)
    assert (kind, False) in kinds(dry_run=True)
    assert world(folder) == before
    assert kinds() == [(kind, True)]
    if again is not None:
        again()
    assert kinds() == []


def found(keyword: str) -> list[str]:
    get_keyword_index().refresh()
    return [match.entry.file_path for match in get_keyword_index().match(keyword)]


def vector_of(number: int) -> ChunkVector:
    vector = np.zeros(get_embedder().dimension, dtype=np.float32)
    vector[number] = 1.0
    return ChunkVector(number, "payment", vector)


# ---- Nothing to do ---------------------------------------------------------------------------------------------------
def test_a_site_in_step_has_no_findings(document: ApiDocument) -> None:
    assert kinds() == []
    assert kinds(full=False) == []
    assert kinds(dry_run=True) == []
    assert vectors() == {(document.pk, 1): 2}


# ---- Files -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("full", [True, False])
def test_a_file_that_others_put_there_is_adopted(document: ApiDocument, knowledge_base: Path, full: bool) -> None:
    (knowledge_base / "payment" / "foreign.md").write_text(text("FOREIGN"))
    assert kinds(full=full) == [("file_new", True)]
    assert found("FOREIGN") == ["knowledge_base/payment/foreign.md"]
    run_due_jobs()
    assert kinds() == []


@pytest.mark.parametrize("full", [True, False])
def test_an_edited_file_is_a_new_revision(document: ApiDocument, knowledge_base: Path, full: bool) -> None:
    assert kinds() == []  # this process has read the file, and has its stamp
    (knowledge_base / "payment" / "timeouts.md").write_text(text("EDITED_X"))
    assert kinds(full=full) == [("file_changed", True)]
    assert found("EDITED_X") == [document.file_path]
    document.refresh_from_db()
    assert document.revision == 2
    run_due_jobs()
    assert kinds() == []


def test_an_edit_that_keeps_its_stamp_is_found_by_the_full_pass(document: ApiDocument, knowledge_base: Path) -> None:
    path = knowledge_base / "payment" / "timeouts.md"
    assert kinds() == []
    known = reconcile_files_memo()
    path.write_text(path.read_text().replace("thirty", "fourty"))
    known._hashes[document.file_path] = (stamp_of(path), document.content_hash)
    assert kinds(full=False) == []
    assert kinds(full=True) == [("file_changed", True)]


def reconcile_files_memo() -> Any:
    from documents import reconcile_files

    return reconcile_files._read


def stamp_of(path: Path) -> tuple[int, int, int, int]:
    stat = path.stat()
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def test_a_file_that_is_gone_hides_its_document_and_shows_it_again(document: ApiDocument, knowledge_base: Path) -> None:
    path = knowledge_base / "payment" / "timeouts.md"
    data = path.read_bytes()
    path.unlink()
    found_and_mended("file_missing")
    assert found("ERR_TIMEOUT") == []
    path.write_bytes(data)
    assert kinds() == [("file_back", True)]
    assert found("ERR_TIMEOUT") == [document.file_path]
    assert kinds() == []


def test_a_file_that_is_no_document_is_said_and_is_not_wrong(document: ApiDocument, knowledge_base: Path) -> None:
    (knowledge_base / "payment" / "binary.md").write_bytes(b"\x00\xff\x00" * 50)
    report = reconcile(by="test")
    assert report is not None
    assert [(finding.kind, finding.wrong) for finding in report.findings] == [("file_refused", False)]
    assert report.wrong == 0
    assert kinds(full=False) == []  # said once, and not each minute


def test_mass_vanishing_hides_nothing_and_stays_wrong(knowledge_base: Path) -> None:
    for number in range(12):
        upload(text(f"CODE_{number}"), f"{number}.md")
    run_due_jobs()
    aged()
    parked = knowledge_base.with_name("parked")
    knowledge_base.rename(parked)
    assert kinds() == [("files_vanished", False)]
    knowledge_base.mkdir()
    assert kinds(full=False) == [("files_vanished", False)]
    assert ApiDocument.objects.filter(missing_since=None).count() == 12
    knowledge_base.rmdir()
    parked.rename(knowledge_base)
    assert kinds() == []
    assert read("scan_held_back") == 0


# ---- What a crash left -----------------------------------------------------------------------------------------------
def test_what_was_saved_and_not_published_is_published(document: ApiDocument, monkeypatch: Any) -> None:
    monkeypatch.setattr("documents.uploads._publish_or_withdraw", lambda *_args, **_kwargs: None)
    upload(text("SECOND_X"))
    monkeypatch.undo()
    assert kinds(dry_run=True) == []  # a request may be just about to
    aged()
    assert ("unpublished", True) in kinds()
    assert found("SECOND_X") == [document.file_path]
    run_due_jobs()
    assert kinds() == []


def test_staged_leftovers_go_when_nobody_can_come_for_them(
    document: ApiDocument, knowledge_base: Path, settings: Any
) -> None:
    settings.EMBEDDED = False
    for name in (f"{document.pk}.9", "tmp-dead"):
        (knowledge_base / ".staging" / name).write_bytes(b"x")
    assert kinds() == []
    settings.EMBEDDED = True  # alone on its data folder, and these are as old as this very process
    assert kinds() == []
    began, reconcile_rows._process_began = reconcile_rows._process_began, __import__("time").time() + 60
    try:
        assert sorted(kinds(dry_run=True)) == [("staged_leftover", False), ("temporary_file", False)]
        assert sorted(kinds()) == [("staged_leftover", True), ("temporary_file", True)]
    finally:
        reconcile_rows._process_began = began
    assert [name for name in files(knowledge_base) if ".staging" in name] == []
    assert kinds() == []


def test_a_deletion_waits_for_the_store_and_is_finished(document: ApiDocument, monkeypatch: Any) -> None:
    from documents.services import delete_document

    def down(*_args: Any) -> None:
        raise ClientError("does not answer", code="store_unavailable", retryable=True, hint="Start it.")

    with monkeypatch.context() as broken:
        broken.setattr(get_vector_store(), "delete", down)
        assert delete_document(document_id=document.pk, user=None) is False
        report = reconcile(by="test")
        assert report is not None
        [finding] = report.findings
        assert (finding.kind, finding.mended, finding.subject) == ("deleting", False, document.file_path)
        assert "does not answer" in finding.what
    assert kinds(dry_run=True) == [("deleting", False)]
    assert kinds() == [("deleting", True)]
    assert not ApiDocument.objects.exists()
    assert vectors() == {}
    assert kinds() == []


def test_the_pass_of_each_minute_keeps_a_deletions_back_off(document: ApiDocument) -> None:
    later = timezone.now() + timedelta(seconds=50)
    ApiDocument.objects.update(status="DELETING", attempts=3, next_attempt_at=later)
    KnowledgeDomain.objects.update(document_count=0)
    report = reconcile(by="minute", full=False, asked=False)
    assert report is not None
    assert [(finding.kind, finding.mended) for finding in report.findings] == [("deleting", False)]
    assert ApiDocument.objects.exists()


def test_a_lease_that_ran_out_is_released_and_the_crash_is_not_forgotten(document: ApiDocument) -> None:
    past = timezone.now() - timedelta(seconds=5)
    aged(status="INDEXING", lease_owner="1-gone", lease_expires_at=past, attempts=5, indexed_revision=0)
    assert ("lease_expired", True) in kinds()
    document.refresh_from_db()
    assert (document.status, document.lease_owner, document.error_code) == ("PENDING", "", "interrupted")
    assert claim_next() is None  # the fifth crash in a row: nobody tries a sixth time by himself
    document.refresh_from_db()
    assert (document.status, document.next_attempt_at) == ("FAILED", None)


def test_a_model_job_that_a_dead_process_held_waits_again(document: ApiDocument) -> None:
    past = timezone.now() - timedelta(seconds=5)
    DocumentEnrichment.objects.create(
        pk=document.pk, state="RUNNING", lease_owner="1-gone", lease_expires_at=past, seen_hash=document.content_hash
    )
    found_and_mended("llm_lease_expired")
    assert DocumentEnrichment.objects.get().state == "WAITING"


def test_a_job_in_work_is_left_alone(document: ApiDocument) -> None:
    upload(text("SECOND_X"))
    job = claim_next()
    assert job is not None
    assert job.revision == 2
    get_vector_store().upsert(document.pk, 2, [vector_of(0)])  # half written
    aged()
    later = timezone.now() + timedelta(seconds=100)
    DocumentEnrichment.objects.create(pk=document.pk, state="RUNNING", lease_owner="2-other", lease_expires_at=later)
    before = ApiDocument.objects.values().get()
    assert kinds() == []
    assert ApiDocument.objects.values().get() == before
    assert before["lease_owner"].startswith(PROCESS_TOKEN)
    assert vectors() == {(document.pk, 1): 2, (document.pk, 2): 1}
    assert DocumentEnrichment.objects.get().state == "RUNNING"


def test_a_job_that_ends_while_the_store_is_counted_is_not_judged(document: ApiDocument, monkeypatch: Any) -> None:
    upload(text("OTHER_X"), "other.md")
    upload(text("SECOND_X"))
    count = get_vector_store().counts

    def counts() -> dict[tuple[int, int], int]:
        before = count()
        monkeypatch.setattr(get_vector_store(), "counts", count)
        run_due_jobs()
        return before

    monkeypatch.setattr(get_vector_store(), "counts", counts)
    assert kinds() == []
    assert sorted(vectors().values()) == [2, 2]


# ---- Vectors and chunks ----------------------------------------------------------------------------------------------
def test_vectors_that_are_missing_are_made_again(document: ApiDocument) -> None:
    get_vector_store().discard(document.pk, 1)
    found_and_mended("vectors_wrong", again=run_due_jobs)
    assert vectors() == {(document.pk, 1): 2}


def test_surplus_vectors_go_with_the_next_job(document: ApiDocument) -> None:
    get_vector_store().upsert(document.pk, 1, [vector_of(7)])
    assert vectors() == {(document.pk, 1): 3}
    found_and_mended("vectors_wrong", again=run_due_jobs)
    assert vectors() == {(document.pk, 1): 2}


def test_vectors_of_no_document_are_removed(document: ApiDocument) -> None:
    get_vector_store().upsert(document.pk + 1000, 1, [vector_of(0)])
    found_and_mended("vectors_orphaned")
    assert vectors() == {(document.pk, 1): 2}


def test_vectors_of_an_older_revision_are_removed_when_they_are_old(document: ApiDocument) -> None:
    ApiDocument.objects.update(revision=5, published_revision=5, indexed_revision=5)
    DocumentChunk.objects.update(revision=5)
    get_vector_store().upsert(document.pk, 5, [vector_of(0), vector_of(1)])
    ApiDocument.objects.update(updated_at=timezone.now())
    assert kinds() == []  # a job that was overtaken may still be at it
    aged()
    found_and_mended("vectors_orphaned")
    assert vectors() == {(document.pk, 5): 2}


def test_chunks_that_are_missing_are_made_again(document: ApiDocument) -> None:
    DocumentChunk.objects.filter(number=1).delete()
    report = kinds()
    assert report == [("chunks_wrong", True), ("terms_miscounted", True)]
    run_due_jobs()
    assert DocumentChunk.objects.count() == 2
    assert kinds() == []


def test_stored_chunks_of_another_revision_are_removed_and_counted_no_more(document: ApiDocument) -> None:
    one = DocumentChunk.objects.filter(number=0).get()
    one.pk, one.revision = None, 7
    one.save()
    from documents.terms import count_chunks

    count_chunks([one])
    found_and_mended("chunks_stray")
    assert DocumentChunk.objects.count() == 2


def test_a_wrong_chunk_count_is_put_right_without_a_job(document: ApiDocument) -> None:
    aged(chunk_count=9)
    found_and_mended("chunk_count")
    document.refresh_from_db()
    assert (document.chunk_count, document.status) == (2, "INDEXED")


def test_miscounted_terms_are_counted_again(document: ApiDocument) -> None:
    right = dict(TermCount.objects.values_list("term", "chunks"))
    TermCount.objects.filter(term__gt=0).update(chunks=77)
    TermCount.objects.filter(term=-1).delete()
    TermCount.objects.create(term=123, chunks=4)
    found_and_mended("terms_miscounted")
    now = dict(TermCount.objects.exclude(chunks=0).values_list("term", "chunks"))
    assert now == right


def test_a_store_that_is_down_is_said_and_the_chunks_are_compared_all_the_same(
    document: ApiDocument, monkeypatch: Any
) -> None:
    def down() -> Any:
        raise ClientError("does not answer", code="store_unavailable", retryable=True, hint="Start it.")

    monkeypatch.setattr(get_vector_store(), "counts", down)
    DocumentChunk.objects.all().delete()
    TermCount.objects.all().delete()
    assert kinds() == [("vectors_unseen", False), ("chunks_wrong", True)]


# ---- The index, the domains, the counter -----------------------------------------------------------------------------
def test_an_entry_that_the_keyword_index_lost_is_there_again(document: ApiDocument) -> None:
    get_keyword_index()._index.remove(document.pk)
    assert found("ERR_TIMEOUT") == []
    found_and_mended("keyword_index")
    assert found("ERR_TIMEOUT") == [document.file_path]


def test_an_entry_of_no_document_leaves_the_keyword_index(document: ApiDocument) -> None:
    get_keyword_index()._index.put(KeywordEntry(999, "knowledge_base/x.md", "x", ("GHOST",), "", "payment"))
    found_and_mended("keyword_index")
    assert found("GHOST") == []


def test_domains_get_their_row_and_their_count(document: ApiDocument) -> None:
    KnowledgeDomain.objects.update(document_count=5)
    found_and_mended("domain_count", again=run_due_jobs)
    assert KnowledgeDomain.objects.get().document_count == 1
    KnowledgeDomain.objects.all().delete()
    found_and_mended("domain_without_row", again=run_due_jobs)
    assert KnowledgeDomain.objects.get().document_count == 1


def test_the_change_counter_is_never_below_a_row(document: ApiDocument) -> None:
    document.refresh_from_db()
    put("documents", document.seq - 1)
    found_and_mended("counter_behind")
    assert read("documents") == document.seq


# ---- History ---------------------------------------------------------------------------------------------------------
def test_kept_bytes_without_a_row_get_it_back(document: ApiDocument, others_long_gone: None) -> None:
    upload(text("SECOND_X"))
    run_due_jobs()
    aged()
    DocumentHistory.objects.all().delete()
    found_and_mended("history_without_row")
    row = DocumentHistory.objects.get()
    assert (row.document_id, row.revision, row.content_hash) == (document.pk, 1, document.content_hash)


def test_lost_bytes_come_back_where_the_same_lie_elsewhere(document: ApiDocument, knowledge_base: Path) -> None:
    upload(text("SECOND_X"))
    upload(text(), "copy.md")
    run_due_jobs()
    aged()
    kept = storage.history_path(DocumentHistory.objects.get().stored_name)
    kept.unlink()
    found_and_mended("history_without_file")
    assert kept.read_text() == text()


def test_lost_bytes_that_nobody_has_stay_wrong_and_the_row_stays(document: ApiDocument) -> None:
    upload(text("SECOND_X"))
    run_due_jobs()
    aged()
    storage.history_path(DocumentHistory.objects.get().stored_name).unlink()
    assert kinds() == [("history_without_file", False)]
    assert kinds() == [("history_without_file", False)]
    assert DocumentHistory.objects.count() == 1


# ---- Faults of the check itself --------------------------------------------------------------------------------------
def test_a_check_that_breaks_is_said_and_the_others_go_on(document: ApiDocument, monkeypatch: Any) -> None:
    def breaks(_look: Any) -> None:
        raise RuntimeError("nobody foresaw this")

    get_vector_store().discard(document.pk, 1)
    monkeypatch.setattr(reconcile_rows, "domains", breaks)
    assert kinds() == [("check_failed", False), ("vectors_wrong", True)]


def test_every_kind_has_words() -> None:
    assert all(str(words.what) and str(words.remedy) for words in WORDS.values())
    assert os.sep not in "".join(WORDS)
