"""Two things at once, forced into the order that would hurt. Each is a function that fails where something is lost.

They are run as tests, and against programs that are wrong on purpose (``variants.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from documents import jobs, storage
from documents.counters import DOCUMENTS, read
from documents.deletion import mark_deleting
from documents.errors import DocumentError
from documents.models import ApiDocument, DocumentHistory
from documents.region import Region
from documents.scan import scan, scan_part
from documents.services import delete_document, read_content
from documents.source import get_keyword_index
from documents.worker import run_due_jobs
from tests.documents.library import indexed, upload
from tests.reliability.site import NEW, NEWER, OLD, PATH, Places, Work, holds, look_up, nothing_left, served

Interleaving = Callable[[Places], None]
HERE = Region(["payment"])


def _delete(document_id: int) -> bool:
    return delete_document(document_id=document_id, user=None)


def _file() -> bytes:
    return storage.read_published(PATH)


# ---- While a worker is at it -----------------------------------------------------------------------------------------
def replaced_while_it_is_embedded(places: Places) -> None:
    upload(OLD)
    with places.stopped("index.embedded", run_due_jobs):
        upload(NEW)
    holds(NEW)


def replaced_between_vectors_and_row(places: Places) -> None:
    upload(OLD)
    with places.stopped("index.upserted", run_due_jobs):
        upload(NEW)
    holds(NEW)


def replaced_before_the_older_vectors_are_removed(places: Places) -> None:
    indexed(OLD)
    upload(NEW)
    with places.stopped("index.after_commit", run_due_jobs):
        assert "marmalade" not in str(served("old text of lighthouses"))
        upload(NEWER)
    holds(NEWER)


def deleted_while_it_is_claimed(places: Places) -> None:
    document = upload(OLD).document
    with places.stopped("index.claimed", run_due_jobs):
        assert _delete(document.pk)
    nothing_left()


def deleted_while_it_is_embedded(places: Places) -> None:
    document = upload(OLD).document
    with places.stopped("index.embedded", run_due_jobs):
        assert _delete(document.pk)
        assert look_up("OLD_CODE") == []
    nothing_left()


def deleted_between_vectors_and_row(places: Places) -> None:
    document = upload(OLD).document
    with places.stopped("index.upserted", run_due_jobs):
        assert mark_deleting(document.pk)  # what follows waits for the writer of vectors
        assert look_up("OLD_CODE") == []
    nothing_left()


def claimed_twice(places: Places) -> None:
    upload(OLD)
    with places.stopped("index.embedded", run_due_jobs):
        assert jobs.claim_next() is None
    holds(OLD)


# ---- Between commit and publication ----------------------------------------------------------------------------------
def deleted_between_commit_and_publication(places: Places) -> None:
    with places.stopped("upload.after_commit", lambda: upload(OLD)):
        assert _delete(ApiDocument.objects.get().pk)
    nothing_left()


def a_replacement_deleted_between_commit_and_publication(places: Places) -> None:
    indexed(OLD)
    with places.stopped("upload.after_commit", lambda: upload(NEW)):
        assert _delete(ApiDocument.objects.get().pk)
        assert look_up("NEW_CODE") == []
    nothing_left()


def two_replacements_published_in_the_other_order(places: Places) -> None:
    indexed(OLD)
    with places.stopped("upload.after_commit", lambda: upload(NEW)):
        upload(NEWER)
    assert ApiDocument.objects.get().revision == 3
    holds(NEWER)
    assert DocumentHistory.objects.filter(revision=1).exists()


def scanned_between_commit_and_publication(places: Places) -> None:
    indexed(OLD)
    with places.stopped("upload.after_commit", lambda: upload(NEW)):
        scan_part(HERE)  # the folder still holds the former bytes
        row = ApiDocument.objects.get()
        assert (row.revision, read_content(document_id=row.pk)) == (2, NEW.encode())
    assert ApiDocument.objects.get().revision == 2
    holds(NEW)


def the_whole_scanned_between_commit_and_publication(places: Places) -> None:
    with places.stopped("upload.after_commit", lambda: upload(OLD)):
        assert scan().changed == 0
    assert ApiDocument.objects.get().revision == 1
    holds(OLD)


def the_watcher_looks_during_a_publication(places: Places) -> None:
    indexed(OLD)
    with places.stopped("publish.renamed", lambda: upload(NEW)):
        watcher = Work(lambda: scan_part(HERE))  # the file is new, its row is not committed
        watcher.join(0.3)
    watcher.done()
    assert ApiDocument.objects.get().revision == 2
    assert ApiDocument.objects.filter(missing_since=None).count() == 1
    holds(NEW)


# ---- Deletions -------------------------------------------------------------------------------------------------------
def uploaded_again_while_it_is_deleted(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("delete.marked", lambda: _delete(document.pk)):
        assert look_up("OLD_CODE") == []
        upload(NEW)
    holds(NEW)


def uploaded_and_indexed_again_while_it_is_deleted(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("delete.marked", lambda: _delete(document.pk)):
        upload(NEW)
        run_due_jobs()
    holds(NEW)


def uploaded_again_after_the_vectors_are_removed(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("delete.vectors_removed", lambda: _delete(document.pk)):
        upload(NEW)
        run_due_jobs()
    holds(NEW)


def the_same_bytes_uploaded_again_after_the_vectors_are_removed(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("delete.vectors_removed", lambda: _delete(document.pk)):
        upload(OLD)
    holds(OLD)


def scanned_while_it_is_deleted(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("delete.marked", lambda: _delete(document.pk)):
        scan()
        assert look_up("OLD_CODE") == []
        assert ApiDocument.objects.get().status == "DELETING"
    scan()
    nothing_left()


def deleted_between_look_and_insertion_of_a_scan(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("scan.looked", scan):
        assert _delete(document.pk)
    scan()
    nothing_left()


def deleted_between_reading_and_insertion_of_a_scan(places: Places) -> None:
    with places.stopped("scan.began", scan):
        document = upload(OLD).document  # the scan knows no row of it, and finds its file
        places.go_on("scan.began", until="scan.read")
        assert _delete(document.pk)
    nothing_left()


def scanned_right_after_the_row_went(places: Places) -> None:
    document = indexed(OLD)
    with places.stopped("delete.after_commit", lambda: _delete(document.pk)):
        scan()
        assert list(ApiDocument.objects.all()) == []
    scan()
    nothing_left()


def looked_up_while_the_index_cannot_follow(places: Places) -> None:
    document = indexed(OLD)
    index = get_keyword_index()
    assert index.exact_match("OLD_CODE")
    assert mark_deleting(document.pk)
    assert index.match("OLD_CODE")  # it has not heard of it yet, as in another process a moment later
    index._sequence = read(DOCUMENTS)  # and does not ask
    assert look_up("OLD_CODE") == []


# ---- What could not be published -------------------------------------------------------------------------------------
def a_commit_that_failed_left_the_former_text(places: Places) -> None:
    indexed(OLD)
    places.fill_disk_at("upload.before_commit")
    _is_refused(NEW)
    assert _file() == OLD.encode()
    holds(OLD)


def a_publication_that_failed_left_the_former_text(places: Places) -> None:
    indexed(OLD)
    places.fill_disk_at("publish.history_kept")
    _is_refused(NEW)
    assert look_up("NEW_CODE") == []
    holds(OLD)


def a_first_publication_that_failed_left_nothing(places: Places) -> None:
    places.fill_disk_at("publish.renamed")
    _is_refused(OLD)
    nothing_left()


def _is_refused(content: str) -> None:
    with pytest.raises(DocumentError) as refusal:
        upload(content)
    assert refusal.value.code == "save_failed"


EVERY: tuple[Interleaving, ...] = (
    replaced_while_it_is_embedded,
    replaced_between_vectors_and_row,
    replaced_before_the_older_vectors_are_removed,
    deleted_while_it_is_claimed,
    deleted_while_it_is_embedded,
    deleted_between_vectors_and_row,
    claimed_twice,
    deleted_between_commit_and_publication,
    a_replacement_deleted_between_commit_and_publication,
    two_replacements_published_in_the_other_order,
    scanned_between_commit_and_publication,
    the_whole_scanned_between_commit_and_publication,
    the_watcher_looks_during_a_publication,
    uploaded_again_while_it_is_deleted,
    uploaded_and_indexed_again_while_it_is_deleted,
    uploaded_again_after_the_vectors_are_removed,
    the_same_bytes_uploaded_again_after_the_vectors_are_removed,
    scanned_while_it_is_deleted,
    deleted_between_look_and_insertion_of_a_scan,
    deleted_between_reading_and_insertion_of_a_scan,
    scanned_right_after_the_row_went,
    looked_up_while_the_index_cannot_follow,
    a_commit_that_failed_left_the_former_text,
    a_publication_that_failed_left_the_former_text,
    a_first_publication_that_failed_left_nothing,
)
