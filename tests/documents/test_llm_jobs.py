"""The leases on what a language model writes: one job a row, so many at once, nothing lost and nothing twice."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from clients.interfaces import ClientError, ClientTimeout, LLMMessage
from clients.registry import get_llm
from documents import llm_jobs
from documents.jobs import in_words
from documents.llm_jobs import (
    ATTEMPTS,
    Lease,
    LeasedLLM,
    LeaseLostError,
    ask_again,
    claim,
    due_now,
    due_rows,
    fail,
    finish,
    give_back,
    release_dead_leases,
    renew,
    running,
)
from documents.models import DocumentEnrichment, LlmJob
from tests.documents.library import upload

pytestmark = pytest.mark.django_db
BAD = ClientError("no use", code="llm_bad_answer", retryable=True)
TROUBLE = ClientTimeout("silence", code="llm_timeout")


@pytest.fixture
def rows(knowledge_base: Path) -> list[int]:
    """Four documents that wait."""
    ids = [upload(f"text {number}\n", f"{number}.md").document.pk for number in range(4)]
    DocumentEnrichment.objects.bulk_create(DocumentEnrichment(pk=pk) for pk in ids)
    return ids


def row(pk: int) -> DocumentEnrichment:
    return DocumentEnrichment.objects.get(pk=pk)


def taken(pk: int) -> Lease:
    lease = claim(DocumentEnrichment, pk)
    assert lease is not None
    return lease


def due(pk: int) -> bool:
    found = DocumentEnrichment.objects.filter(due_now(timezone.now()), pk=pk).exists()
    assert found == (pk in due_rows(DocumentEnrichment, 100))
    return found


def test_a_row_is_claimed_once(rows: list[int]) -> None:
    taken(rows[0])
    assert claim(DocumentEnrichment, rows[0]) is None
    assert (row(rows[0]).state, due(rows[0]), due(rows[1])) == ("RUNNING", False, True)


def test_not_more_run_than_allowed(rows: list[int], settings: Any) -> None:
    settings.LLM_PARALLEL = 2
    first = taken(rows[0])
    taken(rows[1])
    assert claim(DocumentEnrichment, rows[2]) is None
    assert running(timezone.now()) == 2
    finish(first)
    taken(rows[2])


def test_a_lease_that_has_run_out_holds_nobody_up(rows: list[int], settings: Any) -> None:
    settings.LLM_PARALLEL = 1
    lost = taken(rows[0])
    DocumentEnrichment.objects.filter(pk=rows[0]).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    again = taken(rows[0])
    assert (renew(lost), finish(lost), fail(lost, BAD)) == (False, False, False)
    give_back(lost)
    assert row(rows[0]).state == "RUNNING"
    assert (finish(again, reason="in part"), row(rows[0]).reason) == (True, "in part")


@pytest.mark.parametrize("hours", [-20, 20])
def test_a_clock_that_jumps_holds_nothing_up_for_ever(rows: list[int], hours: int) -> None:
    taken(rows[0])
    fail(taken(rows[1]), BAD)
    jumped = timezone.now() + timedelta(hours=hours)
    DocumentEnrichment.objects.filter(pk=rows[0]).update(lease_expires_at=jumped)
    DocumentEnrichment.objects.filter(pk=rows[1]).update(next_attempt_at=jumped)
    assert (due(rows[0]), due(rows[1])) == (True, True)


def test_a_finished_row_is_done(rows: list[int]) -> None:
    lease = taken(rows[0])
    assert finish(lease, model="m")
    done = row(rows[0])
    assert (done.state, done.model, done.attempts, done.lease_owner, due(rows[0])) == ("DONE", "m", 0, "", False)
    assert finish(lease) is False


def test_a_row_that_was_given_back_begins_at_once(rows: list[int]) -> None:
    give_back(taken(rows[0]))
    assert (row(rows[0]).state, row(rows[0]).attempts, due(rows[0])) == ("WAITING", 0, True)


def test_a_bad_answer_is_asked_for_again_with_growing_waits(rows: list[int]) -> None:
    waits = []
    for _attempt in range(ATTEMPTS):
        assert fail(taken(rows[0]), BAD)
        failed = row(rows[0])
        assert (failed.state, failed.reason, failed.error_code) == ("FAILED", "no use", "llm_bad_answer")
        at = failed.next_attempt_at
        waits.append(None if at is None else round((at - timezone.now()).total_seconds()))
        if at is not None:
            DocumentEnrichment.objects.update(next_attempt_at=timezone.now())
    assert waits == [10, 20, 40, 80, None]
    assert not due(rows[0])


def test_trouble_with_the_endpoint_never_uses_the_last_attempt_up(rows: list[int]) -> None:
    for _attempt in range(2 * ATTEMPTS):
        fail(taken(rows[0]), TROUBLE)
        assert row(rows[0]).next_attempt_at is not None
        DocumentEnrichment.objects.update(next_attempt_at=timezone.now())
    fail(taken(rows[0]), BAD)
    assert row(rows[0]).attempts == ATTEMPTS


def test_a_fault_that_no_retry_mends_waits_for_a_person(rows: list[int]) -> None:
    fail(taken(rows[0]), ClientError("never", code="llm_partial"), seen_hash="abc")
    assert (row(rows[0]).next_attempt_at, row(rows[0]).seen_hash, due(rows[0])) == (None, "abc", False)
    assert ask_again(DocumentEnrichment.objects.filter(pk=rows[0])) == 1
    assert (row(rows[0]).reason, row(rows[0]).attempts, due(rows[0])) == ("", 0, True)


@pytest.mark.parametrize("end", [finish, lambda lease: fail(lease, BAD)])
def test_a_person_who_asks_while_it_runs_is_answered_next(rows: list[int], end: Any) -> None:
    lease = taken(rows[0])
    ask_again(DocumentEnrichment.objects.filter(pk=rows[0]))
    assert row(rows[0]).state == "RUNNING"
    assert end(lease)
    assert (row(rows[0]).state, due(rows[0])) == ("WAITING", True)
    assert finish(taken(rows[0]))
    assert (row(rows[0]).state, row(rows[0]).asked, row(rows[0]).answered) == ("DONE", 1, 1)


def test_fresh_rows_come_before_failed_ones_and_those_before_dead_ones(rows: list[int]) -> None:
    taken(rows[0])
    fail(taken(rows[1]), BAD)
    past = timezone.now() - timedelta(seconds=1)
    DocumentEnrichment.objects.filter(pk=rows[0]).update(lease_expires_at=past)
    DocumentEnrichment.objects.filter(pk=rows[1]).update(next_attempt_at=past)
    assert due_rows(DocumentEnrichment, 9) == [rows[2], rows[3], rows[1], rows[0]]
    assert due_rows(DocumentEnrichment, 3) == [rows[2], rows[3], rows[1]]


def test_leases_of_another_process_are_nobodys_after_a_start(rows: list[int]) -> None:
    mine = taken(rows[0])
    taken(rows[1])
    DocumentEnrichment.objects.filter(pk=rows[1]).update(lease_owner="4711-dead")
    assert release_dead_leases() == 1
    assert (due(rows[0]), due(rows[1])) == (False, True)
    assert renew(mine)


def test_a_stop_gives_back_what_this_process_has_in_hand(rows: list[int]) -> None:
    lease = taken(rows[0])
    finish(taken(rows[1]))
    assert lease in llm_jobs._in_hand
    llm_jobs.give_back_all()
    assert (row(rows[0]).state, row(rows[1]).state) == ("WAITING", "DONE")
    assert llm_jobs.give_back_all() == 0


def test_a_model_is_not_asked_for_a_job_that_is_lost(rows: list[int]) -> None:
    lease = taken(rows[0])
    give_back(lease)
    with pytest.raises(LeaseLostError):
        LeasedLLM(get_llm(), lease).complete([LLMMessage("user", "?")])


def test_each_request_renews_the_lease(rows: list[int]) -> None:
    lease = taken(rows[0])
    DocumentEnrichment.objects.update(lease_expires_at=timezone.now() + timedelta(seconds=1))
    with pytest.raises(ClientError, match="No language model"):
        LeasedLLM(get_llm(), lease).complete([LLMMessage("user", "?")])
    left = row(rows[0]).lease_expires_at
    assert left is not None
    assert left > timezone.now() + timedelta(seconds=200)


@pytest.mark.django_db(transaction=True)
def test_many_that_claim_at_once_get_no_more_than_allowed(rows: list[int], settings: Any) -> None:
    settings.LLM_PARALLEL = 2
    gate, got = threading.Barrier(8), []

    def run(pk: int) -> None:
        try:
            gate.wait(30)
            lease = claim(DocumentEnrichment, pk)
            if lease is not None:
                got.append(lease)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(rows[number % 4],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 2
    assert len({lease.pk for lease in got}) == 2
    assert DocumentEnrichment.objects.filter(state=LlmJob.State.RUNNING).count() == 2


@pytest.mark.django_db(transaction=True)
def test_no_connection_is_held_while_a_model_works(rows: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    lease = taken(rows[0])
    held: list[bool] = []

    class Watching:
        model, configured = "m", True

        def complete(self, *_given: Any, **_more: Any) -> Any:
            held.append(connection.connection is not None)
            raise BAD

    with pytest.raises(ClientError):
        LeasedLLM(Watching(), lease).complete([LLMMessage("user", "?")])  # type: ignore[arg-type]
    assert held == [False]


@pytest.mark.parametrize("said", ["half \ud800 a character", "a NUL \x00 inside"])
def test_a_reason_that_no_database_takes_is_still_told(said: str) -> None:
    code, reason, retry = in_words(RuntimeError(said))
    assert (code, retry) == ("internal_error", True)
    assert "\x00" not in reason
    assert reason.encode("utf-8").startswith(b"RuntimeError: ")
