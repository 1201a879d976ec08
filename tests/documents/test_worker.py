"""The embedded worker: wakes, indexes, finishes what waits, shows its progress, and stops within seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from clients.interfaces import ClientError
from clients.registry import get_embedder, get_vector_store
from documents import tasks
from documents import worker as worker_module
from documents.counters import read
from documents.deletion import mark_deleting
from documents.jobs import claim_next
from documents.models import ApiDocument, KnowledgeDomain
from documents.rebuild import replace_lost_vectors
from documents.services import delete_document, wait_until_indexed
from documents.wakeup import hints, wake_worker
from documents.worker import EmbeddedWorker, Housekeeping, progress_of, run_due_jobs
from tests.documents.library import indexed, text, upload, vectors

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 30.0


@pytest.fixture
def worker() -> Iterator[EmbeddedWorker]:
    """Two lanes, embedding in this process; stopped before the database goes."""
    running = EmbeddedWorker(processes=0, lanes=2)
    yield running
    running.stop(timeout=PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    """Wait for what a thread will bring about; no promise about how soon."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_an_upload_is_indexed_and_counted(knowledge_base: Path, worker: EmbeddedWorker) -> None:
    worker.start()
    document = upload(text()).document
    assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"
    assert vectors() == {(document.pk, 1): 2}
    until(lambda: KnowledgeDomain.objects.get().document_count == 1)


def test_what_waited_before_the_start_is_done(knowledge_base: Path, worker: EmbeddedWorker) -> None:
    ids = [upload(text(f"CODE_{number}"), f"{number}.md").document.pk for number in range(8)]
    worker.start()
    for document_id in ids:
        assert wait_until_indexed(document_id, PATIENCE).status == "INDEXED"
    assert sorted(vectors()) == [(document_id, 1) for document_id in ids]


def test_a_deletion_that_waits_is_finished(knowledge_base: Path, worker: EmbeddedWorker) -> None:
    document = indexed(text())
    mark_deleting(document.pk)
    worker.start()
    until(lambda: not ApiDocument.objects.exists())
    assert vectors() == {}


def test_a_crash_in_one_document_does_not_stop_the_others(
    knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: Any
) -> None:
    real = get_embedder().embed_documents

    def embed(texts: Any) -> Any:
        if any("POISON" in one for one in texts):
            raise RuntimeError("nobody foresaw this")
        return real(texts)

    monkeypatch.setattr(get_embedder(), "embed_documents", embed)
    bad = upload("POISON\n", "bad.md").document
    good = upload("fine\n", "good.md").document
    worker.start()
    assert wait_until_indexed(good.pk, PATIENCE).status == "INDEXED"
    failed = wait_until_indexed(bad.pk, PATIENCE)
    assert (failed.status, failed.error_code) == ("FAILED", "internal_error")
    assert "nobody foresaw this" in failed.status_reason


def test_a_database_that_is_away_for_a_moment_does_not_end_the_worker(
    knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: Any
) -> None:
    monkeypatch.setattr(worker_module, "_PAUSE_AFTER_FAULT", 0.05)
    faults = iter([OperationalError("server has gone away"), RuntimeError("unexpected")])

    def claim() -> Any:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return claim_next()

    monkeypatch.setattr(worker_module, "claim_next", claim)
    document = upload(text()).document
    worker.start()
    assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"
    until(lambda: worker.health().status == "ok")


class Gate:
    """An embedder's work that waits until it is let go."""

    def __init__(self, monkeypatch: Any) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real = get_embedder().embed_documents

        def embed(texts: Any) -> Any:
            self.reached.set()
            assert self.open.wait(PATIENCE)
            return real(texts)

        monkeypatch.setattr(get_embedder(), "embed_documents", embed)


def test_the_progress_shows_what_is_in_hand(knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: Any) -> None:
    indexed("already there\n", "done.md")
    gate = Gate(monkeypatch)
    document = upload(text()).document
    worker.start()
    assert gate.reached.wait(PATIENCE)
    progress = worker.progress()
    assert (progress.waiting, progress.indexing, progress.indexed, progress.failed) == (0, 1, 1, 0)
    assert [(one.document_id, one.file_path) for one in progress.current] == [(document.pk, document.file_path)]
    gate.open.set()
    assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"
    until(lambda: worker.current_chunks() == ())
    assert progress_of().indexed == 2


def test_stopping_gives_work_in_hand_back(knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: Any) -> None:
    gate = Gate(monkeypatch)
    document = upload(text()).document
    worker.start()
    assert gate.reached.wait(PATIENCE)
    stopper = threading.Thread(target=worker.stop, kwargs={"timeout": PATIENCE})
    stopper.start()
    until(worker._stop.is_set)
    gate.open.set()
    stopper.join(PATIENCE)
    document.refresh_from_db()
    assert (document.status, document.lease_owner, document.attempts) == ("PENDING", "", 0)
    assert vectors() == {}
    worker.start()
    assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"


def test_a_deletion_during_the_embedding_leaves_nothing(
    knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: Any
) -> None:
    gate = Gate(monkeypatch)
    document = upload(text()).document
    worker.start()
    assert gate.reached.wait(PATIENCE)
    assert delete_document(document_id=document.pk, user=None) is True
    gate.open.set()
    until(lambda: worker.current_chunks() == ())
    assert vectors() == {}
    assert not ApiDocument.objects.exists()


def test_work_that_a_dead_process_held_begins_again_at_the_start(knowledge_base: Path, worker: EmbeddedWorker) -> None:
    document = upload(text()).document
    from_long_ahead = "2099-01-01T00:00:00Z"
    ApiDocument.objects.update(status="INDEXING", lease_owner="1-gone", lease_expires_at=from_long_ahead, attempts=1)
    worker.start()
    assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"


def test_starting_twice_is_one_worker_and_stopping_twice_is_fine(worker: EmbeddedWorker) -> None:
    worker.start()
    threads = list(worker._threads)
    worker.start()
    assert worker._threads == threads
    assert worker.health().status == "ok"
    worker.stop(timeout=PATIENCE)
    worker.stop(timeout=PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert worker.health().status == "down"


def test_the_store_is_flushed_once_it_is_quiet(knowledge_base: Path, monkeypatch: Any) -> None:
    flushes: list[int] = []
    monkeypatch.setattr(get_vector_store(), "flush", lambda: flushes.append(ApiDocument.objects.count()))
    for number in range(3):
        upload(text(f"CODE_{number}"), f"{number}.md")
    run_due_jobs()
    assert flushes == [3]
    run_due_jobs()
    assert flushes == [3]


def test_a_store_that_is_down_at_the_start_is_said(
    knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def down() -> None:
        raise ClientError("does not answer", code="store_unavailable", retryable=True, hint="Start it.")

    monkeypatch.setattr(get_vector_store(), "open", down)
    worker.start()
    until(lambda: "the vector store does not open" in caplog.text)
    until(lambda: worker.health().status == "ok")


def test_without_a_broker_no_celery_call_is_made(monkeypatch: Any) -> None:
    monkeypatch.setattr("documents.wakeup.hints", None)
    wake_worker()


def test_a_broker_that_is_down_leaves_the_row(
    knowledge_base: Path, settings: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Any] = []

    def refuse(*args: Any, **_kwargs: Any) -> None:
        sent.append(args)
        raise ConnectionError("no broker")

    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr("documents.wakeup.Celery.send_task", refuse)
    document = upload(text()).document
    assert document.status == "PENDING"
    assert hints.flush(10)
    assert [args[-1] for args in sent] == ["documents.run_due_jobs"]
    assert "no broker" in caplog.text
    run_due_jobs()
    document.refresh_from_db()
    assert document.status == "INDEXED"


def test_the_celery_doors_do_the_same_jobs(knowledge_base: Path) -> None:
    (knowledge_base / "a.md").write_text(text())
    assert "1 new" in tasks.scan_folder()
    assert tasks.run_due() == 1
    assert ApiDocument.objects.get().status == "INDEXED"
    assert tasks.prune_history() == 0


def test_a_stop_that_ends_the_embedding_processes_fails_no_document(
    knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    class EndedByTheStop:
        """An embedder whose processes end when the worker is stopped, in the middle of a document."""

        def embed_passages(self, texts: Any, *, on_done: Any = None) -> Any:
            asked.set()
            until(worker._stop.is_set)
            raise ClientError("The embedding processes are stopped", code="embedder_unavailable", retryable=True)

        def close(self) -> None:
            """Nothing is held."""

    monkeypatch.setattr(worker_module, "make_indexing_embedder", lambda *_: EndedByTheStop())
    document = upload(text()).document
    worker.start()
    until(asked.is_set)
    worker.stop(timeout=PATIENCE)
    document.refresh_from_db()
    assert (document.status, document.status_reason, document.attempts) == ("PENDING", "", 0)


def test_vectors_that_were_lost_with_their_store_are_made_again(
    knowledge_base: Path, worker: EmbeddedWorker, caplog: pytest.LogCaptureFixture
) -> None:
    document = indexed(text())
    assert vectors() == {(document.pk, 1): 2}
    get_vector_store().reset()  # as a Milvus Lite file that was removed between two starts
    worker.start()
    until(lambda: vectors() == {(document.pk, 1): 2})
    assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"
    assert "their vectors are made anew" in caplog.text


def test_a_store_with_vectors_is_left_alone_at_the_start(knowledge_base: Path) -> None:
    document = indexed(text())
    assert not replace_lost_vectors()
    document.refresh_from_db()
    assert document.status == "INDEXED"


@pytest.mark.parametrize(("code", "made_anew"), [("collection_outdated", True), ("collection_mismatch", False)])
def test_a_collection_of_an_older_version_is_made_anew_unasked_and_another_embedders_is_not(
    code: str, made_anew: bool, knowledge_base: Path, worker: EmbeddedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = indexed(text())
    store = get_vector_store()
    emptied = threading.Event()
    opens, reset = store.open, store.reset

    def opened() -> None:
        if not emptied.is_set():
            raise ClientError("of another make", code=code)
        opens()

    def made() -> None:
        reset()
        emptied.set()

    monkeypatch.setattr(store, "open", opened)
    monkeypatch.setattr(store, "reset", made)
    worker.start()
    if made_anew:
        until(emptied.is_set)
        assert wait_until_indexed(document.pk, PATIENCE).status == "INDEXED"
        until(lambda: vectors() == {(document.pk, 1): 2})
    else:
        assert not emptied.wait(0.5)
        assert read("reset_requested") == 0


@pytest.mark.parametrize("alone", [True, False])
def test_only_a_process_without_siblings_takes_over_leases_at_its_start(
    alone: bool, knowledge_base: Path, settings: Any
) -> None:
    settings.EMBEDDED = alone
    document = upload(text()).document
    another = timezone.now() + timedelta(seconds=100)
    ApiDocument.objects.update(status="INDEXING", lease_owner="1-another", lease_expires_at=another, attempts=1)
    Housekeeping().round()
    claimed = claim_next()
    assert (claimed is not None) is alone
    document.refresh_from_db()
    assert (document.lease_owner == "1-another") is not alone
