"""Celery workers and the beat as processes, on Redis and on RabbitMQ: a message is a wake-up, the row is the job."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.services.conftest import Broker
from tests.services.fleet import Child, Fleet, WebProcess, until

TEXT = "---\ntitle: Note {0}\nkeywords: [NOTE_{0}X]\n---\n# Note {0}\n\nRestart the consumer group number {0}.\n"


@pytest.fixture(scope="module")
def web(fleet: Fleet) -> WebProcess:
    """The site's web process."""
    return fleet.web()


@pytest.fixture
def worker(fleet: Fleet, web: WebProcess) -> Iterator[Child]:
    """A worker for one test."""
    child = fleet.worker()
    yield child
    if child.process.poll() is None:
        fleet.release_writes()
        assert child.stop() == 0, child.tail()


def saved(web: WebProcess, name: str) -> dict[str, Any]:
    """Upload a document; it is found by its keyword at once."""
    status, document = web.upload(f"{name}.md", TEXT.format(name))
    assert status == 202, document
    assert web.lookup(f"NOTE_{name}X")["primary"]["source"] == document["file_path"]
    return dict(document)


def row(web: WebProcess, document: dict[str, Any]) -> dict[str, Any]:
    """The document as it stands."""
    status, now = web.call("GET", f"/api/v1/documents/{document['id']}/")
    assert status == 200
    return dict(now)


def indexed(web: WebProcess, document: dict[str, Any], seconds: float = 30) -> float:
    """Wait for its vectors."""
    return until(lambda: row(web, document)["status"] == "INDEXED", f"{document['file_path']} is INDEXED", seconds)


def pass_the_lease(web: WebProcess) -> None:
    """Two minutes later, as far as leases can tell."""
    moved = (
        "ApiDocument.objects.filter(status='INDEXING').update(lease_expires_at=timezone.now() - timedelta(seconds=1))"
    )
    imports = (
        "from datetime import timedelta; from django.utils import timezone; from documents.models import ApiDocument"
    )
    done = web.command("shell", "--no-imports", "-c", f"{imports}; print({moved})")
    assert done.stdout.strip().endswith("1"), done.stdout + done.stderr


def test_an_upload_is_indexed_by_the_worker(web: WebProcess, worker: Child) -> None:
    document = saved(web, "A1")
    indexed(web, document)
    assert worker.says("A1.md: indexed")
    assert not web.child.says("A1.md: indexed")


def test_a_lost_message_is_found_by_the_sweep(fleet: Fleet, web: WebProcess, broker: Broker) -> None:
    document = saved(web, "B1")
    until(lambda: broker.waiting() > 0, "the hint is in the queue")
    assert broker.purge() > 0
    worker = fleet.worker()
    try:
        time.sleep(1.5)  # what a message would have needed ten times over
        assert row(web, document)["status"] == "PENDING"
        beat = fleet.beat(every=1.0)
        indexed(web, document)
        assert beat.stop() == 0
    finally:
        assert worker.stop() == 0


def test_many_documents_of_one_scan_keep_several_workers_busy(fleet: Fleet, web: WebProcess) -> None:
    workers = [fleet.worker(), fleet.worker()]
    folder = fleet.folder / "knowledge_base" / "scanned"
    folder.mkdir(parents=True)
    fleet.hold_writes()
    try:
        for number in range(12):
            (folder / f"{number}.md").write_text(TEXT.format(f"S{number}"), encoding="utf-8")
        web.command("scan")  # or the web process, which watches the folder, is the first to see them
        until(lambda: web.documents(category="scanned") == 12, "all are rows")
        until(
            lambda: all(child.says("Task documents.run_due_jobs[") for child in workers), "both workers have been woken"
        )
        fleet.release_writes()
        until(lambda: web.documents(category="scanned", status="INDEXED") == 12, "all are INDEXED")
    finally:
        fleet.release_writes()
        ended = [child.stop() for child in workers]
    assert ended == [0, 0]


def test_what_a_killed_worker_had_in_hand_is_done_by_another(fleet: Fleet, web: WebProcess, worker: Child) -> None:
    fleet.hold_writes()
    document = saved(web, "C1")
    until(fleet.is_held, "the worker is in the midst of the document")
    worker.kill()
    fleet.release_writes()
    other = fleet.worker()
    try:
        later = saved(web, "C2")
        indexed(web, later)
        assert row(web, document)["status"] == "INDEXING"  # the lease still runs: nobody takes it away
        pass_the_lease(web)
        wake = saved(web, "C3")
        indexed(web, document)
        indexed(web, wake)
    finally:
        assert other.stop() == 0


def test_a_worker_that_is_told_to_stop_finishes_its_document(fleet: Fleet, web: WebProcess, worker: Child) -> None:
    fleet.hold_writes()
    document = saved(web, "D1")
    until(fleet.is_held, "the worker is in the midst of the document")
    worker.process.terminate()
    time.sleep(0.5)
    assert worker.process.poll() is None
    fleet.release_writes()
    assert worker.process.wait(timeout=30) == 0
    assert row(web, document)["status"] == "INDEXED"


@pytest.mark.parametrize("kind", ["refuses", "says nothing"])
def test_a_broker_that_is_down_holds_no_upload_up(kind: str, fleet: Fleet, web: WebProcess, broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        if kind == "refuses":
            listening.close()
        down = urlsplit(broker.url)._replace(netloc=f"127.0.0.1:{port}").geturl()
        cut_off = fleet.web(CELERY_BROKER_URL=down)
        document = saved(cut_off, f"E{len(kind)}")
        until(lambda: cut_off.child.says("did not take the hint"), "the log tells of the broker")
        assert cut_off.status("/healthz") == 200
        assert row(web, document)["status"] == "PENDING"
        assert cut_off.child.stop() == 0
    beat, worker = fleet.beat(every=1.0), fleet.worker()
    indexed(web, document)
    assert beat.stop() == 0
    assert worker.stop() == 0
