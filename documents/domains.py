"""Knowledge domains: one row a category, its count, and a plain summary until someone writes a better one (DOM-1).

A change marks its domain, in its own transaction; computing follows outside, once for many changes. What the language
model writes is in ``domain_texts.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import BigIntegerField, Case, Count, F, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from documents.domain_documents import COUNTED
from documents.domain_plain import plain_texts
from documents.failpoints import failpoint
from documents.models import ApiDocument, DomainAggregation, KnowledgeDomain
from documents.names import category_key

QUIET_SECONDS = 1.0
"""A domain is computed when it was left alone for so long…"""
LATEST_SECONDS = 5.0
"""…and at the latest so long after its first change: a steady stream does not hold the count up for ever."""
NEVER_SEEN = -1
"""``seen_seq`` of a domain that no model was ever asked about."""
_ATTEMPTS = 5
# A time further ahead than this comes from a clock that has jumped since.
_JUMP = timedelta(minutes=1)


# ---- Marking, inside a change's transaction --------------------------------------------------------------------------
def mark_dirty(category: str) -> None:
    """Note, inside the transaction of a document's change, that its domain must be computed again.

    Makes the row where the category is new. The recomputation itself happens outside, once for many changes.
    """
    rows = KnowledgeDomain.objects.filter(domain_id=category)
    now = timezone.now()
    if _touch(rows, now):
        return
    try:
        with transaction.atomic():
            KnowledgeDomain.objects.create(domain_id=category, dirty_seq=1, changed_at=now, dirty_since=now)
    except IntegrityError:  # another upload made the domain first
        _touch(rows, now)


def _touch(rows: QuerySet[KnowledgeDomain], now: datetime) -> int:
    first = When(dirty_seq=F("computed_seq"), then=Value(now))
    # In this order: MySQL assigns from left to right, and the condition must see the old dirty_seq.
    return rows.update(dirty_since=Case(first, default=F("dirty_since")), dirty_seq=F("dirty_seq") + 1, changed_at=now)


def mark_drafts(category: str) -> None:
    """Note, in its transaction, that a model's drafts changed what a document says of itself: it counts as before.

    The plain summary follows when the domain is computed next, at the latest before the model is asked about it: three
    hundred drafts, one a second, would be as many computations.
    """
    in_step = When(computed_seq=F("dirty_seq"), then=F("computed_seq") + 1)
    # In this order: MySQL assigns from left to right.
    KnowledgeDomain.objects.filter(domain_id=category).update(
        computed_seq=Case(in_step, default=F("computed_seq"), output_field=BigIntegerField()),
        dirty_seq=F("dirty_seq") + 1,
        changed_at=timezone.now(),
    )


def on_document_change(category: str) -> None:
    """Mark a domain and compute it again at once: for callers that are not in a document's transaction."""
    mark_dirty(category)
    recompute(category)


# ---- Computing -------------------------------------------------------------------------------------------------------
def recompute(category: str) -> bool:
    """Count and summarise one domain; written only where no document changed meanwhile. True when it is up to date."""
    for _attempt in range(_ATTEMPTS):
        domain = KnowledgeDomain.objects.filter(domain_id=category).first()
        if domain is None:
            return True
        changes = {"computed_seq": domain.dirty_seq, **_news(domain)}
        failpoint("domain.before_write")
        if KnowledgeDomain.objects.filter(pk=domain.pk, dirty_seq=domain.dirty_seq).update(**changes):
            return True
    return False  # changes keep coming: the next round takes it


def recompute_dirty(*, force: bool = False) -> int:
    """Compute the domains that changed and have been quiet since, or wait too long; how many that were.

    With ``force`` every one that changed: for commands and tests, after whom nobody comes back.
    """
    dirty = _dirty() if force else _dirty().filter(_ripe(timezone.now()))
    return sum(recompute(category) for category in dirty.values_list("domain_id", flat=True).order_by("pk"))


def recompute_now(domain_id: str) -> KnowledgeDomain:
    """A person's wish: compute this domain now, changed or not. Raises ``KnowledgeDomain.DoesNotExist``."""
    recompute(domain_id)
    return KnowledgeDomain.objects.get(domain_id=domain_id)


def seconds_until_ripe() -> float | None:
    """How long until a domain that changed is to be computed, at least a moment; None where none changed."""
    now = timezone.now()
    times = _dirty().values_list("changed_at", "dirty_since")
    waits = [_wait(changed, since, now) for changed, since in times]
    return min(waits, default=None)


def _dirty() -> QuerySet[KnowledgeDomain]:
    return KnowledgeDomain.objects.exclude(dirty_seq=F("computed_seq"))


def _ripe(now: datetime) -> Q:
    quiet = Q(changed_at=None) | Q(changed_at__lte=now - timedelta(seconds=QUIET_SECONDS))
    late = Q(dirty_since__lte=now - timedelta(seconds=LATEST_SECONDS))
    return quiet | late | Q(changed_at__gt=now + _JUMP)


def _wait(changed: datetime | None, since: datetime | None, now: datetime) -> float:
    quiet = QUIET_SECONDS - (now - changed).total_seconds() if changed else 0.0
    late = LATEST_SECONDS - (now - since).total_seconds() if since else quiet
    return max(0.05, min(quiet, late))


def _news(domain: KnowledgeDomain) -> dict[str, Any]:
    """The columns to write; a text only where it is still the program's when that is written."""
    description, when = plain_texts(domain.domain_id)
    found = {"description": description, "when_to_retrieve": when}
    plain = KnowledgeDomain.TextSource.PLAIN
    texts = {name: text for name, text in found.items() if getattr(domain, f"{name}_source") == plain}
    count = count_of(domain.domain_id)
    columns: dict[str, Any] = {"document_count": count}
    for name, text in texts.items():
        still_plain = When(**{f"{name}_source": plain}, then=Value(text, output_field=TextField()))
        columns[name] = Case(still_plain, default=F(name), output_field=TextField())
    if count != domain.document_count or any(getattr(domain, name) != text for name, text in texts.items()):
        columns["updated_at"] = timezone.now()
    return columns


# ---- Rows ------------------------------------------------------------------------------------------------------------
def ensure_rows() -> None:
    """Give each category with documents a row (DOM-3), to be computed next, and each domain its place in the queue of
    what a language model is to write."""
    known = set(KnowledgeDomain.objects.values_list("domain_id", flat=True))
    for category in ApiDocument.objects.order_by().values_list("category", flat=True).distinct():
        if category not in known:
            mark_dirty(category)
    ensure_aggregations()


def ensure_aggregations() -> None:
    """A row of ``domain_aggregation`` for each domain without one; nothing where all have theirs."""
    missing = KnowledgeDomain.objects.filter(aggregation=None).values_list("pk", flat=True)
    rows = [DomainAggregation(domain_id=pk, seen_seq=NEVER_SEEN) for pk in missing]
    if rows:
        DomainAggregation.objects.bulk_create(rows, ignore_conflicts=True)


def hand_over(domain: KnowledgeDomain, texts: Mapping[str, str]) -> None:
    """Save a curator's words, ``{"description": …, "when_to_retrieve": …}`` or one of them. An empty text hands the
    field back: the plain summary stands there at once. ``describe`` of ``domain_texts.py`` asks the model too."""
    source = KnowledgeDomain.TextSource
    for name, text in texts.items():
        setattr(domain, name, text)
        setattr(domain, f"{name}_source", source.CURATOR if text.strip() else source.PLAIN)
    domain.save(update_fields=[*texts, *(f"{name}_source" for name in texts), "updated_at"])
    if not all(text.strip() for text in texts.values()):
        recompute(domain.domain_id)
        domain.refresh_from_db()


# ---- Counts and names ------------------------------------------------------------------------------------------------
def count_of(category: str) -> int:
    """Enabled documents that are not being deleted (DOM-3)."""
    return ApiDocument.objects.filter(COUNTED, category=category).count()


def counts() -> dict[str, int]:
    """The same for every domain, in one query; a category without such documents is missing."""
    rows = ApiDocument.objects.filter(COUNTED).order_by().values_list("category").annotate(n=Count("pk"))
    return dict(rows)


def with_counts() -> QuerySet[KnowledgeDomain]:
    """Domains with ``counted``, the documents as they are now; the column ``document_count`` may be seconds behind."""
    of_domain = ApiDocument.objects.filter(COUNTED, category=OuterRef("domain_id")).order_by()
    number = of_domain.values("category").annotate(n=Count("pk")).values("n")
    return KnowledgeDomain.objects.annotate(counted=Coalesce(Subquery(number), 0))


def known_spelling(category: str) -> str | None:
    """The domain that differs from ``category`` only by case, where there is one: two such would share a folder."""
    key = category_key(category)
    names = KnowledgeDomain.objects.values_list("domain_id", flat=True)
    return next((name for name in names if name != category and category_key(name) == key), None)
