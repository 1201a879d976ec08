"""Domains while much happens at once: one computation for many changes, and nothing newer is ever overwritten."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, connections

from documents import domain_plain, domains, tasks
from documents.domain_steer import STEER
from documents.domain_texts import aggregate_next, describe, status_of
from documents.domains import mark_drafts, recompute, recompute_dirty, seconds_until_ripe
from documents.enrichment import enrich_next
from documents.llm_jobs import give_back_all
from documents.llm_lane import run_due_llm_jobs
from documents.models import DomainAggregation, KnowledgeDomain
from documents.worker import Housekeeping
from tests.clients.llm_server import Reply, Request, as_asked, completion
from tests.documents.domain_model import (
    ENGLISH,
    add,
    asked,
    domain,
    header,
    hold,
    job,
    meanwhile,
    now_plus,
    pass_time,
    say,
)
from tests.documents.enriching import BARE, GOOD, Model, model
from tests.documents.library import upload

__all__ = ["model"]
pytestmark = pytest.mark.django_db(transaction=True)
WRITTEN = f"{ENGLISH['when_to_retrieve']} {STEER['en']}"


def at_once(*steps: Callable[[], Any]) -> list[Any]:
    """Each step in a thread of its own, begun together; what they gave."""
    given: list[Any] = []
    start = threading.Barrier(len(steps))

    def run(step: Callable[[], Any]) -> None:
        try:
            start.wait(10)
            given.append(step())
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return given


def in_thread(step: Callable[[], Any]) -> Callable[[], None]:
    """For what a test has happen on another thread: it lets its connection go."""

    def run() -> None:
        try:
            step()
        finally:
            connection.close()

    return run


def test_three_hundred_uploads_are_a_few_computations_and_one_request_a_domain(
    knowledge_base: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(model)
    computed: Counter[str] = Counter()
    real = domains.count_of

    def count(category: str) -> int:
        computed[category] += 1
        return real(category)

    monkeypatch.setattr(domains, "count_of", count)
    began = time.monotonic()
    done = threading.Event()
    keeper = Housekeeping()

    def rounds() -> None:
        while not done.wait(0.02):
            keeper.round()
            run_due_llm_jobs()

    worker = threading.Thread(target=in_thread(rounds))
    worker.start()
    for number in range(100):
        for category in ("payment", "api", "release"):
            upload(header(f"Title {number}"), f"{number}.md", category)
    done.set()
    worker.join(30)
    pass_time()
    run_due_llm_jobs()
    assert [domain(name).document_count for name in ("payment", "api", "release")] == [100, 100, 100]
    # At the latest every five seconds while they come, once more when it is quiet, and before the model is asked.
    assert max(computed.values()) <= (time.monotonic() - began) / 5 + 3
    requests = asked(model)
    assert len(requests) == 3
    assert {request.split("\n", 1)[0] for request in requests} == {
        "Domain: payment",
        "Domain: api",
        "Domain: release",
    }
    assert domain("api").when_to_retrieve == WRITTEN


def test_drafts_of_many_documents_compute_nothing_until_the_model_is_asked_about_the_domain(
    knowledge_base: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(request: Request) -> Reply:
        of_domain = request.body["messages"][0]["content"].startswith("# Domain\n")
        return as_asked(completion(json.dumps(ENGLISH if of_domain else GOOD)))(request)

    model.reply(written)
    for number in range(20):
        upload(f"{BARE}\n{number}\n", f"{number}.md")
    pass_time()
    assert domain().document_count == 20
    computed: list[str] = []

    def count(category: str) -> int:
        computed.append(category)
        return 20

    monkeypatch.setattr(domains, "count_of", count)
    while enrich_next():
        pass_time(1.1)
    assert computed == []
    assert asked(model) == []
    pass_time()
    assert aggregate_next()
    assert computed == ["payment"]
    [told] = asked(model)
    assert told.count(GOOD["covers"][0]) == 20
    assert (domain().when_to_retrieve, domain().when_to_retrieve_source) == (WRITTEN, "model")


def test_drafts_do_not_hide_a_change_that_is_not_computed(knowledge_base: Path) -> None:
    add("0.md")
    mark_drafts("payment")
    pass_time(1.1)
    assert domain().document_count == 1
    mark_drafts("payment")
    assert domain().dirty_seq == domain().computed_seq
    assert recompute_dirty(force=True) == 0


def test_a_domain_is_computed_when_it_is_quiet_and_a_steady_stream_does_not_hold_it_up(knowledge_base: Path) -> None:
    add("0.md")
    assert recompute_dirty() == 0
    assert 0 < (seconds_until_ripe() or 0) <= 1
    pass_time(1.1)
    assert domain().document_count == 1
    assert seconds_until_ripe() is None
    for number in range(1, 6):
        add(f"{number}.md")
        KnowledgeDomain.objects.update(changed_at=now_plus(0), dirty_since=now_plus(-number))
        assert recompute_dirty() == (number == 5)
    assert domain().document_count == 6


def test_of_many_celery_messages_one_comes_back_for_a_domain_that_is_not_quiet_yet(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    woken: list[float] = []

    def wake_worker(*, after: float = 0.0) -> None:
        woken.append(after)

    monkeypatch.setattr(tasks, "wake_worker", wake_worker)
    add()
    for _message in range(20):
        tasks.run_due()
    assert domain().document_count == 0
    [later] = [after for after in woken if after]
    assert 0 < later <= 1
    pass_time(1.1)
    woken.clear()
    tasks.run_due()
    assert domain().document_count == 1
    assert woken == []


def test_a_celery_task_of_the_model_comes_back_when_a_domain_was_left_alone(
    knowledge_base: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    woken: list[float] = []

    def wake_llm_worker(*, after: float = 0.0) -> None:
        woken.append(after)

    monkeypatch.setattr(tasks, "wake_llm_worker", wake_llm_worker)
    say(model)
    add()
    recompute("payment")
    for _message in range(5):
        tasks.run_llm()
    [later] = woken
    assert 1 <= later <= 5
    assert asked(model) == []
    pass_time()
    woken.clear()
    tasks.run_llm()
    assert domain().when_to_retrieve == WRITTEN
    assert woken == []


def test_a_change_that_waits_is_dated_from_the_first_one(knowledge_base: Path) -> None:
    add("0.md")
    first = domain().dirty_since
    add("1.md")
    assert domain().dirty_since == first
    assert recompute("payment")
    add("2.md")
    later = domain().dirty_since
    assert first is not None
    assert later is not None
    assert later > first


def test_a_clock_that_jumped_holds_no_domain_up(knowledge_base: Path, model: Model) -> None:
    say(model)
    add()
    KnowledgeDomain.objects.update(changed_at=now_plus(86_400), dirty_since=now_plus(86_400))
    assert recompute_dirty() == 1
    assert aggregate_next()


def test_a_curators_words_are_kept_though_the_summary_was_being_made(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add()
    real = domain_plain.plain_texts

    def slow(category: str) -> tuple[str, str]:
        made = real(category)
        describe(domain(), {"description": "Mine"})
        return made

    monkeypatch.setattr(domains, "plain_texts", slow)
    assert recompute("payment")
    found = domain()
    assert (found.description, found.description_source, found.document_count) == ("Mine", "curator", 1)
    assert found.when_to_retrieve_source == "plain"
    assert found.when_to_retrieve


def test_a_change_while_the_model_writes_drops_its_text_and_the_domain_stays_due(
    knowledge_base: Path, model: Model
) -> None:
    add()
    pass_time()
    plain = domain().when_to_retrieve
    meanwhile(model, in_thread(lambda: add("b.md")))
    assert aggregate_next()
    assert (domain().when_to_retrieve, domain().when_to_retrieve_source) == (plain, "plain")
    assert (job().state, job().attempts, job().lease_owner) == ("WAITING", 0, "")
    assert not aggregate_next()
    pass_time()
    say(model)
    assert aggregate_next()
    assert domain().when_to_retrieve == WRITTEN
    first, second = asked(model)
    assert "b.md" not in first
    assert "b.md" in second


def test_a_text_that_is_late_is_written_though_changes_go_on_and_asked_for_again(
    knowledge_base: Path, model: Model
) -> None:
    add()
    pass_time()
    for number in range(3):  # each answer is overtaken; together they take more than five minutes
        meanwhile(model, in_thread(lambda number=number: add(f"{number}.md")))  # type: ignore[misc]
        assert aggregate_next()
        assert domain().when_to_retrieve_source == "plain"
        pass_time(110)
    meanwhile(model, in_thread(lambda: add("last.md")))
    assert aggregate_next()
    assert domain().when_to_retrieve == WRITTEN
    assert job().seen_seq < domain().dirty_seq
    assert status_of(domain()).waiting
    say(model)
    pass_time()
    assert aggregate_next()
    assert job().seen_seq == domain().dirty_seq
    assert "last.md" in asked(model)[-1]


def test_a_retry_after_a_fault_is_no_late_text(knowledge_base: Path, model: Model) -> None:
    model.json({"error": {"message": "no"}}, 400)
    add()
    pass_time()
    assert aggregate_next()
    DomainAggregation.objects.update(state="FAILED", next_attempt_at=now_plus(-1))
    meanwhile(model, in_thread(lambda: add("b.md")))
    assert aggregate_next()
    assert domain().when_to_retrieve_source == "plain"
    assert job().state == "WAITING"
    assert status_of(domain()).reason == ""


def test_a_curator_who_writes_while_the_model_does_keeps_the_field(knowledge_base: Path, model: Model) -> None:
    add()
    pass_time()
    meanwhile(model, in_thread(lambda: describe(domain(), {"when_to_retrieve": "Mine."})))
    assert aggregate_next()
    found = domain()
    assert (found.when_to_retrieve, found.when_to_retrieve_source) == ("Mine.", "curator")
    assert (found.description, found.description_source) == (ENGLISH["description"], "model")


def test_lanes_that_look_at_once_ask_once(knowledge_base: Path, model: Model, settings: Any) -> None:
    settings.LLM_PARALLEL = 8
    say(model)
    add()
    pass_time()
    given = at_once(*[aggregate_next] * 6)
    assert sorted(given) == [False] * 5 + [True]
    assert len(asked(model)) == 1
    assert not aggregate_next()


def test_no_more_than_the_bound_are_asked_at_once(knowledge_base: Path, model: Model, settings: Any) -> None:
    settings.LLM_PARALLEL = 1
    for category in ("payment", "api"):
        add(category=category)
    pass_time()
    gate, reached = threading.Event(), threading.Event()
    hold(model, gate, reached)
    worker = threading.Thread(target=in_thread(aggregate_next))
    worker.start()
    assert reached.wait(10)
    assert status_of(domain("payment")).waiting
    assert not aggregate_next()
    gate.set()
    worker.join(30)
    assert aggregate_next()
    assert model.most_open == 1


def test_no_connection_is_held_while_the_model_writes(knowledge_base: Path, model: Model) -> None:
    add()
    pass_time()
    of_lane: list[Any] = []

    def lane() -> None:
        of_lane.append(connections["default"])  # of this thread
        aggregate_next()

    gate, reached = threading.Event(), threading.Event()
    hold(model, gate, reached)
    worker = threading.Thread(target=in_thread(lane))
    worker.start()
    assert reached.wait(10)
    open_then = of_lane[0].connection
    gate.set()
    worker.join(30)
    assert open_then is None
    assert domain().when_to_retrieve == WRITTEN


def test_an_answer_after_the_stop_counts_nothing_and_the_next_lane_asks_again(
    knowledge_base: Path, model: Model
) -> None:
    add()
    pass_time()
    gate, reached = threading.Event(), threading.Event()
    hold(model, gate, reached)
    worker = threading.Thread(target=in_thread(aggregate_next))
    worker.start()
    assert reached.wait(10)
    assert give_back_all() == 1
    gate.set()
    worker.join(30)
    assert domain().when_to_retrieve_source == "plain"
    say(model)
    assert aggregate_next()
    assert domain().when_to_retrieve == WRITTEN
