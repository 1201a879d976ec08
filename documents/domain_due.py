"""Which domain's text the language model is to write now: one that was left alone for a while, or waits too long.

A domain waits from the look that found it changed. Its turn comes when no document changed for some seconds and none
still waits for its own draft, or after five minutes in any case (``next_attempt_at`` holds that time).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from documents.domain_documents import shown_documents
from documents.domains import ensure_aggregations
from documents.llm_jobs import due_now
from documents.models import DocumentEnrichment, DomainAggregation, KnowledgeDomain, LlmJob

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
    return list(islice(_due(now), limit))


def seconds_until_due(now: datetime) -> float | None:
    """A guess when to look again for domains that wait, 1 to 5 seconds; None where none waits.

    One whose documents still wait for their drafts, or whose model is busy, is looked at every 5 seconds.
    """
    waiting = _written_about().filter(CHANGED, state__in=(_STATE.WAITING, _STATE.DONE))
    changes = [changed for changed in waiting.values_list("domain__changed_at", flat=True) if changed is not None]
    waits = [QUIET_SECONDS - (now - changed).total_seconds() for changed in changes]
    return min((max(1.0, wait) if wait > 0 else QUIET_SECONDS for wait in waits), default=None)


def can_be_written_about(domain: KnowledgeDomain) -> bool:
    """Whether a model has anything to write: documents to be told of, and a text that is no curator's."""
    curator = KnowledgeDomain.TextSource.CURATOR
    curated = domain.description_source == curator == domain.when_to_retrieve_source
    return not curated and shown_documents(domain.domain_id).exists()


def _written_about() -> QuerySet[DomainAggregation]:
    """The same in bulk, by the kept count: each lane asks once a second. Who claims looks closely."""
    curator = KnowledgeDomain.TextSource.CURATOR
    curated = Q(domain__description_source=curator, domain__when_to_retrieve_source=curator)
    return DomainAggregation.objects.filter(domain__document_count__gt=0).exclude(curated)


def _begin_to_wait(now: datetime) -> None:
    """A domain that changed since its last text waits from now on; also one that was given up: it has new documents."""
    given_up = Q(state=_STATE.FAILED, next_attempt_at=None)
    fresh = Q(state=_STATE.WAITING, next_attempt_at=None)
    rows = _written_about().filter(CHANGED & (Q(state=_STATE.DONE) | given_up | fresh))
    for pk, state in list(rows.values_list("pk", "state")):
        DomainAggregation.objects.filter(pk=pk, state=state, next_attempt_at=None).update(
            state=_STATE.WAITING, attempts=0, next_attempt_at=now + timedelta(seconds=LATEST_SECONDS)
        )


def _due(now: datetime) -> Iterator[int]:
    again = ASKED | ~Q(state=_STATE.WAITING)
    yield from _written_about().filter(due_now(now) & again).order_by("pk").values_list("pk", flat=True)
    changed = _written_about().filter(CHANGED, state=_STATE.WAITING).exclude(ASKED).order_by("pk")
    yield from changed.filter(_late(now)).values_list("pk", flat=True)
    for pk, category in changed.filter(_quiet(now)).exclude(_late(now)).values_list("pk", "domain__domain_id"):
        if not _documents_in_work(category):
            yield pk


def _late(now: datetime) -> Q:
    far = now + timedelta(seconds=LATEST_SECONDS) + _JUMP
    return Q(next_attempt_at__isnull=False) & (Q(next_attempt_at__lte=now) | Q(next_attempt_at__gt=far))


def _quiet(now: datetime) -> Q:
    changed = "domain__changed_at"
    since = Q(**{f"{changed}__lte": now - timedelta(seconds=QUIET_SECONDS)})
    return Q(**{f"{changed}__isnull": True}) | since | Q(**{f"{changed}__gt": now + _JUMP})


def _documents_in_work(category: str) -> bool:
    """Whether a model still has to look at a document of the domain; one that failed is not waited for."""
    table = DocumentEnrichment.objects.filter(document=OuterRef("pk"))
    ended = table.filter(Q(state=_STATE.FAILED) | Q(state=_STATE.DONE, seen_hash=OuterRef("content_hash")))
    return shown_documents(category).filter(published_revision__gt=0).exclude(Exists(ended)).exists()
