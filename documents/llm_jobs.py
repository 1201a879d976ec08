"""What the language model is to write, as rows: claiming, giving back, failing. The row is the job, as in ``jobs.py``.

Over all processes at most ``LLM_PARALLEL`` jobs run at once. A result counts only where the lease is still its own.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from clients.interfaces import LLM, AnswerFormat, Completion, LLMMessage, PartHealth
from clients.llm_errors import TROUBLED
from documents.counters import hold
from documents.jobs import PROCESS_TOKEN, in_words
from documents.llm_pause import pause
from documents.models import DocumentEnrichment, DomainAggregation, LlmJob
from documents.transactions import repeated_on_deadlock

log = logging.getLogger("documents.llm_jobs")
LEASE_SECONDS = 300
"""Longer than the model client lets one request last; renewed before each further one."""
ATTEMPTS = 5
"""So often an answer that is no use is asked for again; a model that cannot be reached is asked for ever."""
_FIRST_RETRY_SECONDS = 10
_LONGEST_RETRY_SECONDS = 600
_BOUND = "llm"
TABLES: tuple[type[LlmJob], ...] = (DocumentEnrichment, DomainAggregation)


@dataclass(frozen=True)
class Lease:
    """The right to write one row's texts: of ``table``, the row with key ``pk``."""

    table: type[LlmJob]
    pk: int
    owner: str
    attempts: int
    asked: int


_in_hand: set[Lease] = set()
"""The leases that this process took and has not ended."""


def due_now(now: datetime) -> Q:
    """The rows whose turn it is: waiting, failed with a next try that has come, or left by a process that died."""
    # A time further ahead than was ever given comes from a clock that has jumped since; it holds nothing up.
    far = now + timedelta(seconds=2 * _LONGEST_RETRY_SECONDS)
    retry = Q(next_attempt_at__lte=now) | Q(next_attempt_at__gt=far)
    expired = _expired(now)
    state = LlmJob.State
    return Q(state=state.WAITING) | (Q(state=state.FAILED) & retry) | (Q(state=state.RUNNING) & expired)


def _expired(now: datetime) -> Q:
    expired = Q(lease_expires_at=None) | Q(lease_expires_at__lt=now)
    return expired | Q(lease_expires_at__gt=now + timedelta(seconds=2 * LEASE_SECONDS))


def expired_leases(table: type[LlmJob]) -> QuerySet[Any]:
    """Rows of ``table`` whose job did not end in time: its process is gone, most likely."""
    return _rows(table).filter(_expired(timezone.now()), state=LlmJob.State.RUNNING)


def release_expired(table: type[LlmJob], pk: int) -> bool:
    """Let anybody begin with such a row; the attempt counts. False where that is no longer so."""
    return bool(expired_leases(table).filter(pk=pk).update(**_ended(), state=LlmJob.State.WAITING))


def due_rows(table: type[LlmJob], limit: int, among: Q | None = None) -> list[int]:
    """Keys of rows that are due and meet ``among``: fresh ones first, then what failed before, then what was left.

    Three queries that an index answers each, not one that looks at every row: lanes ask it each second.
    """
    now = timezone.now()
    found: list[int] = []
    for state in (LlmJob.State.WAITING, LlmJob.State.FAILED, LlmJob.State.RUNNING):
        rows = _rows(table).filter(due_now(now), state=state)
        rows = rows.filter(among) if among is not None else rows
        found += rows.order_by("pk").values_list("pk", flat=True)[: limit - len(found)]
        if len(found) >= limit:
            break
    return found


@repeated_on_deadlock
def claim(table: type[LlmJob], pk: int) -> Lease | None:
    """Take the lease of one row; None where another has it, nothing is due, or ``LLM_PARALLEL`` jobs run already."""
    now = timezone.now()
    owner = f"{PROCESS_TOKEN}-{uuid.uuid4().hex[:8]}"
    with transaction.atomic():
        hold(_BOUND)  # whoever counts is alone, in whatever process
        if running(now) >= settings.LLM_PARALLEL:
            return None
        row = _rows(table).filter(due_now(now), pk=pk).first()
        if row is None:
            return None
        _rows(table).filter(pk=pk).update(
            state=LlmJob.State.RUNNING,
            lease_owner=owner,
            lease_expires_at=now + timedelta(seconds=LEASE_SECONDS),
            attempts=row.attempts + 1,
        )
    lease = Lease(table, pk, owner, row.attempts + 1, row.asked)
    _in_hand.add(lease)
    return lease


def running(now: datetime) -> int:
    """Jobs with a living lease, over all processes."""
    alive = Q(state=LlmJob.State.RUNNING, lease_expires_at__gte=now)
    return sum(_rows(table).filter(alive).count() for table in TABLES)


def held(lease: Lease) -> QuerySet[Any]:
    """The row, while this job's result still counts: the condition of every compare and set."""
    return _rows(lease.table).filter(pk=lease.pk, state=LlmJob.State.RUNNING, lease_owner=lease.owner)


def renew(lease: Lease) -> bool:
    """Keep the lease before a further request; False where it is lost."""
    return bool(held(lease).update(lease_expires_at=timezone.now() + timedelta(seconds=LEASE_SECONDS)))


def finish(lease: Lease, **values: Any) -> bool:
    """DONE, with further columns; False where the lease was lost. Inside the transaction of what the job wrote.

    ``made_at`` and ``model`` are the caller's to set: a look that asked no model leaves them. Where a person asked
    again meanwhile, the row is due once more.
    """
    columns = {"state": LlmJob.State.DONE, "reason": "", "error_code": "", "attempts": 0, "answered": lease.asked}
    return _end(lease, {**columns, **values})


def give_back(lease: Lease) -> bool:
    """Stop without a result: the next worker begins at once. False where the lease was lost."""
    _in_hand.discard(lease)
    attempts = max(lease.attempts - 1, 0)
    return bool(held(lease).update(**_ended(), state=LlmJob.State.WAITING, attempts=attempts))


def give_back_all() -> int:
    """At the stop of a process' lanes: what they have in hand is anybody's, and what they still write counts nothing.

    How many jobs that were.
    """
    return sum(give_back(lease) for lease in list(_in_hand))


def fail(lease: Lease, fault: Exception, **values: Any) -> bool:
    """FAILED with the reason in words, and further columns; tried again later where that may help. False where the
    lease was lost.

    A model that cannot be reached, or takes no more requests, says nothing about this text: it is asked for ever, with
    growing waits, and one attempt is always left for an answer that is no use.
    """
    pause.note(fault)
    code, reason, retry = in_words(fault)
    troubled = code in TROUBLED
    wait = min(_FIRST_RETRY_SECONDS * 2 ** min(lease.attempts - 1, 20), _LONGEST_RETRY_SECONDS)
    again = troubled or (retry and lease.attempts < ATTEMPTS)
    columns = {
        "state": LlmJob.State.FAILED,
        "reason": reason[:500],
        "error_code": code[:64],
        "next_attempt_at": timezone.now() + timedelta(seconds=wait) if again else None,
        # Enough attempts for the waits to grow, never so many that the last one is used up.
        "attempts": min(lease.attempts, ATTEMPTS - 1) if troubled else lease.attempts,
    }
    changed = _end(lease, {**columns, **values})
    if changed:
        then = f"next try in {wait} s" if again else "it waits for a person"
        log.warning("%s %s: not written (%s), %s: %s", lease.table._meta.db_table, lease.pk, code, then, reason)
    return changed


def _end(lease: Lease, columns: Mapping[str, Any]) -> bool:
    _in_hand.discard(lease)
    if held(lease).filter(asked=lease.asked).update(**{**_ended(), **columns}):
        return True
    due = {"state": LlmJob.State.WAITING, "attempts": 0, "next_attempt_at": None}
    return bool(held(lease).update(**{**_ended(), **columns, **due}))


def ask_again(rows: QuerySet[Any]) -> int:
    """A person's retry: these rows are due at once, from the first attempt, and ask the model whatever is known.

    A job that runs goes on: its lease is not taken away, and its end leaves the row due once more.
    """
    with transaction.atomic():
        asked = rows.update(asked=F("asked") + 1)
        rows.exclude(state=LlmJob.State.RUNNING).update(
            state=LlmJob.State.WAITING, reason="", error_code="", attempts=0, next_attempt_at=None
        )
    return asked


class LeaseLostError(Exception):
    """The job was ended meanwhile (deleted, given back, taken over): what its model says counts nothing."""


class LeasedLLM:
    """A model that is asked for one job: the lease is renewed before each request, no connection is held meanwhile.

    One answer may take several requests (another format, a repair), each as long as the client's patience.
    """

    configured = True

    def __init__(self, llm: LLM, lease: Lease) -> None:
        self.model = llm.model
        self._llm = llm
        self._lease = lease

    def complete(
        self,
        messages: Sequence[LLMMessage],
        *,
        temperature: float = 0.2,
        max_tokens: int = 1500,
        response_format: Mapping[str, Any] | None = None,
    ) -> Completion:
        """As ``LLM.complete``; raises ``LeaseLostError`` where nobody waits for the answer any more."""
        if not renew(self._lease):
            raise LeaseLostError
        if not connection.in_atomic_block:
            connection.close()
        completion = self._llm.complete(
            messages, temperature=temperature, max_tokens=max_tokens, response_format=response_format
        )
        pause.end()
        return completion

    def answer_format(self) -> AnswerFormat:
        """As ``LLM.answer_format``."""
        return self._llm.answer_format()

    def remember_format(self, works: AnswerFormat) -> None:
        """As ``LLM.remember_format``."""
        self._llm.remember_format(works)

    def health(self) -> PartHealth:
        """As ``LLM.health``."""
        return self._llm.health()


def release_dead_leases() -> int:
    """At the start of a process that alone holds its data folder: leases of processes before it are nobody's."""
    past = timezone.now() - timedelta(seconds=1)
    dead = Q(state=LlmJob.State.RUNNING) & ~Q(lease_owner__startswith=PROCESS_TOKEN)
    return sum(_rows(table).filter(dead).update(lease_expires_at=past) for table in TABLES)


def _rows(table: type[LlmJob]) -> QuerySet[Any]:
    return table._default_manager.all()


def _ended() -> dict[str, Any]:
    return {"lease_owner": "", "lease_expires_at": None, "next_attempt_at": None}
