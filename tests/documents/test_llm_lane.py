"""The lanes of the language model: beside indexing in the embedded worker, as a Celery task elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from documents import tasks
from documents.domain_due import QUIET_SECONDS
from documents.enrichment_review import regenerate
from documents.llm_lane import more_to_do, run_due_llm_jobs
from documents.models import DocumentEnrichment, DomainAggregation
from documents.services import wait_until_indexed
from documents.worker import EmbeddedWorker
from tests.documents.enriching import BARE, CODED, GOOD, Model, answers_exactly, model, row, until, values
from tests.documents.library import upload

__all__ = ["model"]
pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 30.0


@pytest.fixture
def worker() -> Iterator[EmbeddedWorker]:
    running = EmbeddedWorker(processes=0, lanes=1)
    yield running
    running.stop(timeout=PATIENCE)


@pytest.fixture
def without_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only documents are written about."""
    monkeypatch.setattr("documents.llm_lane.aggregate_next", lambda: False)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hints that were given."""
    given: list[str] = []
    monkeypatch.setattr(tasks, "wake_llm_worker", lambda **_more: given.append("llm"))
    monkeypatch.setattr(tasks, "wake_worker", lambda **_more: given.append("index"))
    return given


def test_an_upload_is_described_by_itself(
    knowledge_base: Path, model: Model, worker: EmbeddedWorker, without_domains: None
) -> None:
    model.write()
    worker.start()
    document = upload(BARE).document
    until(lambda: DocumentEnrichment.objects.filter(state="DONE").exists())
    assert values(document) == GOOD
    assert worker.health().status == "ok"


def test_a_silent_model_never_holds_up_indexing(
    knowledge_base: Path, model: Model, worker: EmbeddedWorker, without_domains: None
) -> None:
    gate, reached = threading.Event(), threading.Event()
    model.hold(gate, reached)
    worker.start()
    first = upload(CODED, "first.md").document
    assert reached.wait(PATIENCE)
    second = upload(BARE, "second.md").document
    assert wait_until_indexed(first.pk, PATIENCE).status == "INDEXED"
    assert wait_until_indexed(second.pk, PATIENCE).status == "INDEXED"
    assert answers_exactly("ERR_TIMEOUT") == [first.pk]
    gate.set()
    until(lambda: DocumentEnrichment.objects.filter(state="DONE").count() == 2)


def test_a_stop_does_not_wait_for_the_model(
    knowledge_base: Path, model: Model, worker: EmbeddedWorker, without_domains: None
) -> None:
    gate, reached = threading.Event(), threading.Event()
    model.hold(gate, reached)
    worker.start()
    document = upload(BARE).document
    assert reached.wait(PATIENCE)
    began = time.monotonic()
    worker.stop(timeout=0.5)
    assert time.monotonic() - began < PATIENCE
    assert (row(document).state, row(document).lease_owner) == ("WAITING", "")
    gate.set()
    until(lambda: not any(thread.name.startswith("documents-llm") for thread in threading.enumerate()))
    assert (values(document), row(document).state) == ({}, "WAITING")
    model.write()
    worker.start()
    until(lambda: row(document).state == "DONE")
    assert values(document) == GOOD


def test_without_a_model_there_is_no_lane(knowledge_base: Path, worker: EmbeddedWorker) -> None:
    worker.start()
    assert not any(thread.name.startswith("documents-llm") for thread in threading.enumerate())
    assert worker.health().status == "ok"


def test_a_lane_is_there_for_each_job_at_once(
    knowledge_base: Path, model: Model, worker: EmbeddedWorker, settings: Any
) -> None:
    settings.LLM_PARALLEL = 3
    worker.start()
    names = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("documents-llm"))
    assert names == ["documents-llm-0", "documents-llm-1", "documents-llm-2"]


def test_leases_of_a_process_that_died_are_free_after_a_start(
    knowledge_base: Path, model: Model, worker: EmbeddedWorker, without_domains: None
) -> None:
    model.write()
    document = upload(BARE).document
    DocumentEnrichment.objects.create(
        pk=document.pk,
        state="RUNNING",
        lease_owner="4711-dead",
        lease_expires_at=timezone.now() + timedelta(seconds=250),
    )
    worker.start()
    until(lambda: row(document).state == "DONE")


def test_the_task_works_until_nothing_is_due(
    knowledge_base: Path, model: Model, sent: list[str], without_domains: None
) -> None:
    model.write()
    documents = [upload(BARE, f"{number}.md").document for number in range(3)]
    assert tasks.run_llm() == 3
    assert all(values(document) == GOOD for document in documents)
    assert sent == ["llm"]  # one process more, which finds work or ends at once
    assert (tasks.run_llm(), sent) == (0, ["llm"])


def test_one_document_needs_no_second_process(
    knowledge_base: Path, model: Model, sent: list[str], without_domains: None
) -> None:
    model.write()
    upload(BARE)
    assert (tasks.run_llm(), sent) == (1, [])


def test_the_task_hands_over_after_its_turn(
    knowledge_base: Path, model: Model, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model.write()
    for number in range(3):
        upload(BARE, f"{number}.md")
    monkeypatch.setattr(tasks, "run_due_llm_jobs", lambda **_given: run_due_llm_jobs(_once(), seconds=None))
    assert tasks.run_llm() == 1
    assert sent == ["llm", "llm"]


def _once() -> Any:
    asked: list[int] = []

    def stopping() -> bool:
        asked.append(1)
        return len(asked) > 2  # the loop asks, then the job

    return stopping


def test_nobody_is_woken_where_enough_work_already(
    knowledge_base: Path, model: Model, settings: Any, sent: list[str]
) -> None:
    settings.LLM_PARALLEL = 1
    for number in range(3):
        upload(BARE, f"{number}.md")
    assert more_to_do() is True
    assert more_to_do(besides=1) is False
    first = DocumentEnrichment.objects.order_by("pk").values_list("pk", flat=True)[0]
    DocumentEnrichment.objects.filter(pk=first).update(
        state="RUNNING", lease_owner="other", lease_expires_at=timezone.now() + timedelta(seconds=60)
    )
    assert (more_to_do(), tasks.run_llm(), sent, model.requests) == (False, 0, [], [])


def test_indexing_sends_for_the_model(knowledge_base: Path, model: Model, sent: list[str]) -> None:
    upload(BARE)
    tasks.run_due()
    assert "llm" in sent
    sent.clear()
    tasks.run_due()
    assert "llm" not in sent


def test_a_persons_wish_wakes_the_lane(
    knowledge_base: Path, model: Model, worker: EmbeddedWorker, without_domains: None
) -> None:
    model.write()
    document = upload(BARE).document
    run_due_llm_jobs()
    worker.start()
    model.write(title="Another title")
    regenerate([document.pk])
    until(lambda: values(document)["title"] == "Another title")


def test_domains_come_after_their_documents(
    knowledge_base: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("documents.domain_due.QUIET_SECONDS", 0.0)
    assert QUIET_SECONDS > 0
    model.write()
    upload(BARE)
    assert run_due_llm_jobs() >= 1
    firsts = [request.body["messages"][0]["content"].split("\n")[0] for request in model.requests]
    assert firsts[0] == "# Frontmatter"
    assert set(firsts[1:]) <= {"# Domain"}
    assert DomainAggregation.objects.count() == 1
