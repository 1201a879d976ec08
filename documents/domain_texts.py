"""What the language model writes about a domain (DOM-2): asked once for many changes, written where nothing is newer.

A curator's words are never touched, and what stands there stays while the model fails: its reason is on the row.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from clients.registry import get_llm
from clients.structured import StructuredAnswer, ask_structured
from documents.domain_answer import shape_for
from documents.domain_due import LATEST_SECONDS, can_be_written_about, due_domains
from documents.domain_prompt import DomainInput, prompt_of, read_input
from documents.domains import NEVER_SEEN, ensure_aggregations, hand_over, recompute
from documents.llm_jobs import Lease, LeasedLLM, LeaseLostError, ask_again, claim, fail, finish, give_back
from documents.llm_pause import pause
from documents.models import DomainAggregation, KnowledgeDomain, LlmJob
from documents.transactions import repeated_on_deadlock
from documents.wakeup import wake_llm_worker

log = logging.getLogger("documents.domain_texts")
TEXTS = ("when_to_retrieve", "description")
_SOURCE = KnowledgeDomain.TextSource


@dataclass(frozen=True)
class DomainStatus:
    """How the model's text of a domain stands. ``state`` is one of ``LlmJob.State``, "" where nothing was ever asked;
    ``reason`` why it failed or what did not hold; ``waiting`` whether a text is to come by itself."""

    state: str
    reason: str
    made_at: datetime | None
    model: str
    waiting: bool


@dataclass(frozen=True)
class _Job:
    """A claimed domain as it stood before the model was asked."""

    lease: Lease
    domain: KnowledgeDomain
    row: DomainAggregation

    @property
    def wanted(self) -> tuple[str, ...]:
        """The fields that are not a curator's."""
        return tuple(name for name in TEXTS if getattr(self.domain, f"{name}_source") != _SOURCE.CURATOR)

    @property
    def late(self) -> bool:
        """Whether it waited so long that its text is written though changes go on (a retry's time is no such end)."""
        end = None if self.row.error_code else self.row.next_attempt_at
        return end is not None and end <= timezone.now()


# ---- For the worker's lane -------------------------------------------------------------------------------------------
def aggregate_next() -> bool:
    """Have the model write about one domain that is due; False where none is, or no model is configured.

    Asks the model in this thread, up to some minutes, without a connection to the database.
    """
    if not get_llm().configured:
        return False
    for pk in due_domains(timezone.now()):
        lease = claim(DomainAggregation, pk)
        if lease is not None:
            _aggregate(lease)
            return True
    return False


def _aggregate(lease: Lease) -> None:
    recompute(KnowledgeDomain.objects.get(pk=lease.pk).domain_id)  # drafts alone did not (mark_drafts)
    row = DomainAggregation.objects.select_related("domain").get(pk=lease.pk)
    job = _Job(lease, row.domain, row)
    told = read_input(job.domain.domain_id)
    if not told.lines or not job.wanted or _known(job, told):
        finish(lease, seen_seq=job.domain.dirty_seq)
        return
    try:
        answer = ask_structured(LeasedLLM(get_llm(), lease), prompt_of(told), shape_for(told.language))
    except LeaseLostError:
        return  # given back at a stop, or taken over
    except Exception as fault:  # noqa: BLE001 (degradation point: whatever ends a request, the text that is there stays)
        _fail(job, fault)
        return
    if not _write(job, told, answer):
        _wait_again(job)


def _known(job: _Job, told: DomainInput) -> bool:
    """Whether the present texts were made from this very input, and nobody asked for others."""
    own = all(getattr(job.domain, f"{name}_source") == _SOURCE.MODEL for name in job.wanted)
    return own and job.row.input_hash == told.digest and job.row.asked == job.row.answered


@repeated_on_deadlock
def _write(job: _Job, told: DomainInput, answer: StructuredAnswer) -> bool:
    """Domain and job in one transaction; False, and nothing written, where a document changed meanwhile."""
    with transaction.atomic():
        domain = KnowledgeDomain.objects.select_for_update().get(pk=job.domain.pk)
        if domain.dirty_seq != job.domain.dirty_seq and not job.late:
            return False
        finished = finish(
            job.lease,
            seen_seq=job.domain.dirty_seq,
            input_hash=told.digest,
            model=answer.model[:128],
            made_at=timezone.now(),
            reason=" ".join(answer.problems)[:500],
        )
        if finished:
            _take(domain, answer)
    return True


def _take(domain: KnowledgeDomain, answer: StructuredAnswer) -> None:
    """Put the texts into the fields that are not a curator's by now."""
    changed: list[str] = []
    for name in TEXTS:
        source = f"{name}_source"
        if name in answer.values and getattr(domain, source) != _SOURCE.CURATOR:
            setattr(domain, name, answer.values[name])
            setattr(domain, source, _SOURCE.MODEL)
            changed += [name, source]
    if changed:
        domain.save(update_fields=[*changed, "updated_at"])


def _wait_again(job: _Job) -> None:
    """The text is dropped; the domain keeps its place, and the time after which it is written in any case."""
    log.info("domain %s changed while the model wrote about it; it is asked again", job.domain.domain_id)
    end = None if job.row.error_code else job.row.next_attempt_at
    give_back(job.lease)
    DomainAggregation.objects.filter(pk=job.row.pk, state=LlmJob.State.WAITING, next_attempt_at=None).update(
        next_attempt_at=end or timezone.now() + timedelta(seconds=LATEST_SECONDS), reason="", error_code=""
    )


def _fail(job: _Job, fault: Exception) -> None:
    if not fail(job.lease, fault):
        return
    given_up = DomainAggregation.objects.filter(pk=job.row.pk, state=LlmJob.State.FAILED, next_attempt_at=None)
    given_up.update(seen_seq=job.domain.dirty_seq)  # only other documents ask once more


# ---- For curators ----------------------------------------------------------------------------------------------------
def describe(domain: KnowledgeDomain, texts: dict[str, str]) -> None:
    """Save a curator's ``description`` and ``when_to_retrieve``; an empty text hands the field back: the plain summary
    stands there at once, and the model is asked for a better one where there is one."""
    hand_over(domain, texts)
    if not all(text.strip() for text in texts.values()):
        ensure_aggregations()
        # Where no model is configured now, a later one sees that its words are wanted.
        DomainAggregation.objects.filter(pk=domain.pk).update(seen_seq=NEVER_SEEN)
        ask_model_again(domain.domain_id)


def ask_model_again(domain_id: str) -> bool:
    """A person's wish for new texts, whatever is known; the worker sees to it at once.

    False where nothing can be asked: no such domain, no model, no documents, or both texts are a curator's.
    """
    domain = KnowledgeDomain.objects.filter(domain_id=domain_id).first()
    if domain is None or not get_llm().configured or not can_be_written_about(domain):
        return False
    recompute(domain_id)  # the worker goes by the kept count
    ensure_aggregations()
    ask_again(DomainAggregation.objects.filter(pk=domain.pk))
    pause.wish()
    wake_llm_worker()
    return True


def status_of(domain: KnowledgeDomain) -> DomainStatus:
    """How the model's text of this domain stands; two cheap queries."""
    row = DomainAggregation.objects.filter(pk=domain.pk).first()
    open_end = row is None or _is_open(domain, row)
    waiting = open_end and get_llm().configured and can_be_written_about(domain)
    if row is None:
        return DomainStatus("", "", None, "", waiting)
    return DomainStatus(row.state, row.reason, row.made_at, row.model, waiting)


def _is_open(domain: KnowledgeDomain, row: DomainAggregation) -> bool:
    changed = row.seen_seq != domain.dirty_seq or row.asked != row.answered
    return changed or row.state == LlmJob.State.RUNNING or row.next_attempt_at is not None
