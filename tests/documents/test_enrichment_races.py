"""Two things at once: a person, an upload, a deletion, a dead process or another lane while the model writes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from documents.enrichment import enrich, enrich_next
from documents.enrichment_due import due_documents, unseen
from documents.enrichment_review import accept, regenerate, reject
from documents.llm_jobs import claim, give_back_all
from documents.llm_lane import run_due_llm_jobs
from documents.models import ApiDocument, DocumentEnrichment
from documents.services import delete_document, edit_metadata, read_content, set_enabled
from tests.clients.llm_server import Reply, Request, as_asked, completion
from tests.documents.enriching import (
    BARE,
    CODED,
    GOOD,
    Model,
    answer,
    answers_exactly,
    fresh,
    model,
    path_in,
    row,
    run_all,
    states,
    until,
    values,
)
from tests.documents.library import upload

__all__ = ["model"]
pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 30.0


class Asking:
    """A job in a thread of its own, whose model answers when it is told to."""

    def __init__(self, model: Model, **changes: Any) -> None:
        self.gate, self.reached = threading.Event(), threading.Event()
        model.hold(self.gate, self.reached, **changes)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asking:
        self._thread.start()
        assert self.reached.wait(PATIENCE)
        return self

    def __exit__(self, *_fault: object) -> None:
        self.gate.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            enrich_next()
        finally:
            connection.close()


@pytest.fixture
def described(knowledge_base: Path, model: Model) -> ApiDocument:
    """A document with drafts."""
    model.write()
    document = upload(CODED).document
    run_all()
    return fresh(document)


def test_a_document_answers_while_the_model_writes(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    with Asking(model):
        assert row(document).state == "RUNNING"
        assert answers_exactly("ERR_TIMEOUT") == [document.pk]
        assert read_content(document_id=document.pk) == CODED.encode()
    assert row(document).state == "DONE"


def test_an_acceptance_while_the_model_writes_stays(described: ApiDocument, model: Model, alice: Any) -> None:
    regenerate([described.pk])
    with Asking(model, summary="Another summary of the time-outs.", title="Another title"):
        accept(described.pk, ["summary"], revision=None, user=alice)
    assert (states(described)["summary"], values(described)["summary"]) == ("accepted", GOOD["summary"])
    assert values(described)["title"] == "Another title"
    assert fresh(described).metadata == {"keywords": ["ERR_TIMEOUT"], "summary": GOOD["summary"]}
    asked = len(model.requests)
    run_all()
    assert (row(described).state, len(model.requests)) == ("DONE", asked)


def test_a_rejection_while_the_model_writes_stays(described: ApiDocument, model: Model, alice: Any) -> None:
    regenerate([described.pk])
    with Asking(model, covers=["Another case"]):
        reject(described.pk, ["covers"], user=alice)
    assert (states(described)["covers"], values(described)["covers"]) == ("rejected", GOOD["covers"])


def test_the_authors_own_value_that_appears_meanwhile_wins(knowledge_base: Path, model: Model, alice: Any) -> None:
    document = upload(CODED).document
    with Asking(model):
        edit_metadata(document_id=document.pk, changes={"title": "By Alice"}, user=alice)
    assert fresh(document).metadata == {"keywords": ["ERR_TIMEOUT"], "title": "By Alice"}
    assert "title" not in values(document)
    assert values(document)["summary"] == GOOD["summary"]
    assert len(model.requests) == 1


def test_another_body_meanwhile_is_asked_about_once_more(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    with Asking(model, title="Of the old text"):
        upload(CODED + "New text.\n")
    assert (row(document).state, values(document)) == ("WAITING", {})
    model.write(title="Of the new text")
    run_all()
    assert (row(document).state, values(document)["title"], len(model.requests)) == ("DONE", "Of the new text", 2)


def test_another_body_while_the_model_fails_is_asked_about_at_once(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    gate, reached = threading.Event(), threading.Event()

    def prose(request: Request) -> Reply:
        reached.set()
        assert gate.wait(PATIENCE)
        return as_asked(completion("prose"))(request)

    model.reply(prose)
    thread = threading.Thread(target=_closing(enrich_next))
    thread.start()
    assert reached.wait(PATIENCE)
    upload(CODED + "New text.\n")
    gate.set()
    thread.join(PATIENCE)
    assert row(document).state == "WAITING"


def test_a_deletion_meanwhile_drops_the_answer(knowledge_base: Path, model: Model, alice: Any) -> None:
    document = upload(CODED).document
    with Asking(model):
        assert delete_document(document_id=document.pk, user=alice)
    assert (ApiDocument.objects.count(), DocumentEnrichment.objects.count()) == (0, 0)


def test_a_deletion_and_the_same_bytes_again_meanwhile(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    with Asking(model, title="For the deleted one"):
        ApiDocument.objects.filter(pk=document.pk).update(status="DELETING")
        assert upload(CODED).document.pk == document.pk
    assert (values(document), DocumentEnrichment.objects.count()) == ({}, 0)
    model.write()
    run_all()
    assert values(document)["title"] == GOOD["title"]


def test_a_document_that_is_hidden_meanwhile_keeps_what_was_paid_for(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    with Asking(model):
        set_enabled(document_id=document.pk, enabled=False)
    assert values(document)["title"] == GOOD["title"]


def test_a_person_who_asks_again_meanwhile_gets_another_answer(described: ApiDocument, model: Model) -> None:
    regenerate([described.pk])
    with Asking(model, title="The first"):
        regenerate([described.pk])
        assert row(described).state == "RUNNING"
    assert row(described).state == "WAITING"
    model.write(title="The second")
    run_all()
    assert (row(described).state, values(described)["title"]) == ("DONE", "The second")


def test_a_process_that_died_leaves_its_document_to_others(knowledge_base: Path, model: Model) -> None:
    model.write()
    document = upload(CODED).document
    unseen.take_up()
    assert claim(DocumentEnrichment, document.pk) is not None  # and then nothing more is heard of it
    assert (run_all(), due_documents(5)) == (0, [])
    DocumentEnrichment.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert run_all() == 1
    assert (row(document).state, len(model.requests)) == ("DONE", 1)


def test_a_job_that_was_given_back_writes_nothing(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    with Asking(model):
        assert give_back_all() >= 1
        assert row(document).state == "WAITING"
    assert (values(document), row(document).state) == ({}, "WAITING")


def test_a_job_that_is_told_to_stop_before_it_asks_gives_back(knowledge_base: Path, model: Model) -> None:
    document = upload(CODED).document
    unseen.take_up()
    lease = claim(DocumentEnrichment, document.pk)
    assert lease is not None
    enrich(lease, lambda: True)
    assert (row(document).state, row(document).attempts, model.requests) == ("WAITING", 0, [])


class Lanes:
    """Lanes in threads, until nothing is due or they are told to stop."""

    def __init__(self, number: int) -> None:
        self.stop = threading.Event()
        self._threads = [threading.Thread(target=_closing(self._run)) for _number in range(number)]

    def start(self) -> Lanes:
        for thread in self._threads:
            thread.start()
        return self

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _run(self) -> None:
        while not self.stop.is_set():
            if not run_due_llm_jobs(self.stop.is_set) and not due_documents(1):
                return
            time.sleep(0.005)


def _closing(run: Callable[[], object]) -> Callable[[], None]:
    def running() -> None:
        try:
            run()
        finally:
            connection.close()

    return running


def _slow_answer(request: Request) -> Reply:
    time.sleep(0.01)
    return as_asked(completion(json.dumps(answer())))(request)


@pytest.fixture
def many(knowledge_base: Path, model: Model) -> list[int]:
    """Sixty documents, described by a model that takes its time; nobody aggregates domains here."""
    model.reply(_slow_answer)
    return [upload(BARE + f"\nNumber {number}.\n", f"{number}.md").document.pk for number in range(60)]


def test_more_lanes_than_allowed_never_ask_more_at_once(
    many: list[int], model: Model, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LLM_PARALLEL = 2
    monkeypatch.setattr("documents.llm_lane.aggregate_next", lambda: False)
    Lanes(5).start().join()
    assert DocumentEnrichment.objects.filter(state="DONE").count() == len(many)
    assert model.most_open == 2
    asked = [path_in(request) for request in model.requests]
    assert sorted(asked) == sorted(set(asked))


def test_many_documents_stopped_in_the_middle_are_resumed_and_asked_about_once(
    many: list[int], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("documents.llm_lane.aggregate_next", lambda: False)
    lanes = Lanes(2).start()
    until(lambda: len(model.requests) >= 20)
    lanes.stop.set()
    lanes.join()
    done = DocumentEnrichment.objects.filter(state="DONE").count()
    assert 20 <= done < len(many)
    assert not DocumentEnrichment.objects.filter(state="RUNNING").exists()
    unseen.forget()  # as another process
    Lanes(2).start().join()
    assert DocumentEnrichment.objects.filter(state="DONE").count() == len(many)
    asked = [path_in(request) for request in model.requests]
    assert (len(asked), len(set(asked))) == (len(many), len(many))
