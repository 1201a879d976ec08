"""Which domain's text the language model is to write now: one that was left alone for a while, or waits too long.

A domain waits from the look that found it changed. Its turn comes when no document changed for some seconds and none
still waits for its own draft, or after five minutes in any case (``next_attempt_at`` holds that time).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from documents.domain_documents import SHOWN
from documents.domains import ensure_aggregations
from documents.llm_jobs import due_now
from documents.models import ApiDocument, DocumentEnrichment, DomainAggregation, KnowledgeDomain, LlmJob

QUIET_SECONDS = 5.0
LATEST_SECONDS = 300.0
CHANGED = ~Q(seen_seq=F("domain__dirty_seq"))
ASKED = ~Q(asked=F("answered"))
_STATE = LlmJob.State
_JUMP = timedelta(minutes=1)


def due_domains(now: datetime, limit: int = 5) -> list[int]:
    """Primary keys of domains that may be claimed now, the ones a person asked for first."""
    ensure_aggregations()
    _begin_to_wait(now)
    waiting = Q(state=_STATE.WAITING)
    settled = CHANGED & (_late(now) | (_quiet(now) & ~Exists(_documents_in_work())))
    rows = written_about().filter(due_now(now) & (~waiting | ASKED | settled))
    return list(rows.order_by((F("asked") - F("answered")).desc(), "pk").values_list("pk", flat=True)[:limit])


def seconds_until_due(now: datetime) -> float | None:
    """A guess when to look again for a domain that only waits to be left alone; None where none waits.

    Not below a second. One whose documents still wait for their drafts is due some seconds after the last of these.
    """
    rows = written_about().filter(CHANGED | ASKED).filter(state__in=(_STATE.WAITING, _STATE.DONE))
    changes = [changed for changed in rows.values_list("domain__changed_at", flat=True) if changed is not None]
    if not changes:
        return None
    return max(1.0, min(QUIET_SECONDS - (now - changed).total_seconds() for changed in changes))


def written_about() -> QuerySet[DomainAggregation]:
    """The rows of domains that a model may write about: with documents, and a text that is no curator's."""
    curator = KnowledgeDomain.TextSource.CURATOR
    nothing_to_write = Q(domain__description_source=curator, domain__when_to_retrieve_source=curator)
    shown = ApiDocument.objects.filter(SHOWN, category=OuterRef("domain__domain_id"))
    return DomainAggregation.objects.exclude(nothing_to_write).filter(Exists(shown))


def _begin_to_wait(now: datetime) -> None:
    """A domain that changed since its last text waits from now on; also one that was given up: it has new documents."""
    given_up = Q(state=_STATE.FAILED, next_attempt_at=None)
    finished = CHANGED & (Q(state=_STATE.DONE) | given_up)
    fresh = CHANGED & Q(state=_STATE.WAITING, next_attempt_at=None)
    for pk, state in list(written_about().filter(finished | fresh).values_list("pk", "state")):
        DomainAggregation.objects.filter(pk=pk, state=state, next_attempt_at=None).update(
            state=_STATE.WAITING, attempts=0, next_attempt_at=now + timedelta(seconds=LATEST_SECONDS)
        )


def _late(now: datetime) -> Q:
    return Q(next_attempt_at__lte=now) | Q(next_attempt_at__gt=now + timedelta(seconds=LATEST_SECONDS) + _JUMP)


def _quiet(now: datetime) -> Q:
    changed = "domain__changed_at"
    return (
        Q(**{changed: None})
        | Q(**{f"{changed}__lte": now - timedelta(seconds=QUIET_SECONDS)})
        | Q(**{f"{changed}__gt": now + _JUMP})
    )


def _documents_in_work() -> QuerySet[ApiDocument]:
    """Documents of the domain that a model still has to look at; one that failed is not waited for."""
    table = DocumentEnrichment.objects.filter(document=OuterRef("pk"))
    failed = table.filter(state=_STATE.FAILED)
    looked_at = table.filter(state=_STATE.DONE, seen_hash=OuterRef("content_hash"))
    return ApiDocument.objects.filter(SHOWN, category=OuterRef("domain__domain_id")).filter(
        ~Exists(failed) & ~Exists(looked_at)
    )
