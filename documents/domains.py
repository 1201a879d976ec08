"""Knowledge domains: one row a category, its counts, and a plain summary until someone writes a better one (DOM-1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, F, Q

from documents.frontmatter import field_value
from documents.models import ApiDocument, KnowledgeDomain
from documents.names import category_key

_SUMMARY_DOCUMENTS = 50
_DESCRIPTION_LIMIT = 256
_WHEN_LIMIT = 600
_ATTEMPTS = 5
_COUNTED = Q(enabled=True) & ~Q(status=ApiDocument.Status.DELETING)


def mark_dirty(category: str) -> None:
    """Note, inside the transaction of a document's change, that its domain must be computed again.

    Makes the row where the category is new. The recomputation itself happens outside, once for many changes.
    """
    rows = KnowledgeDomain.objects.filter(domain_id=category)
    if rows.update(dirty_seq=F("dirty_seq") + 1):
        return
    try:
        with transaction.atomic():
            KnowledgeDomain.objects.create(domain_id=category, dirty_seq=1)
    except IntegrityError:  # another upload made the domain first
        rows.update(dirty_seq=F("dirty_seq") + 1)


def on_document_change(category: str) -> None:
    """Mark a domain and compute it again at once: for callers that are not in a document's transaction."""
    mark_dirty(category)
    recompute(category)


def recompute(category: str) -> bool:
    """Count and summarise one domain; written only where no document changed meanwhile. True when it is up to date."""
    for _attempt in range(_ATTEMPTS):
        domain = KnowledgeDomain.objects.filter(domain_id=category).first()
        if domain is None:
            return True
        changes = {"document_count": count_of(category), "computed_seq": domain.dirty_seq, **_plain_texts(domain)}
        if KnowledgeDomain.objects.filter(pk=domain.pk, dirty_seq=domain.dirty_seq).update(**changes):
            return True
    return False  # changes keep coming: the next round takes it


def recompute_dirty() -> int:
    """Compute every domain that changed; how many that were."""
    dirty = list(
        KnowledgeDomain.objects.exclude(dirty_seq=F("computed_seq")).values_list("domain_id", flat=True).order_by("pk")
    )
    return sum(recompute(category) for category in dirty)


def ensure_rows() -> None:
    """Give each category with documents a row (DOM-3), to be computed next."""
    known = set(KnowledgeDomain.objects.values_list("domain_id", flat=True))
    for category in ApiDocument.objects.order_by().values_list("category", flat=True).distinct():
        if category not in known:
            mark_dirty(category)


def count_of(category: str) -> int:
    """Enabled documents that are not being deleted (DOM-3)."""
    return ApiDocument.objects.filter(_COUNTED, category=category).count()


def counts() -> dict[str, int]:
    """The same for every domain, in one query; a category without such documents is missing."""
    rows = ApiDocument.objects.filter(_COUNTED).order_by().values_list("category").annotate(n=Count("pk"))
    return dict(rows)


def known_spelling(category: str) -> str | None:
    """The domain that differs from ``category`` only by case, where there is one: two such would share a folder."""
    key = category_key(category)
    names = KnowledgeDomain.objects.values_list("domain_id", flat=True)
    return next((name for name in names if name != category and category_key(name) == key), None)


def _plain_texts(domain: KnowledgeDomain) -> dict[str, Any]:
    """What stands in where neither a curator nor a model has written: titles, and what the documents say they cover."""
    plain = KnowledgeDomain.TextSource.PLAIN
    if plain not in (domain.description_source, domain.when_to_retrieve_source):
        return {}
    documents = ApiDocument.objects.filter(_COUNTED, category=domain.domain_id).order_by("pk")
    rows = list(documents.values_list("title", "metadata")[:_SUMMARY_DOCUMENTS])
    titles = [title for title, _metadata in rows]
    covers = [scenario for _title, metadata in rows for scenario in _covers(metadata)]
    texts: dict[str, Any] = {}
    if domain.description_source == plain:
        texts["description"] = _join(titles, _DESCRIPTION_LIMIT)
    if domain.when_to_retrieve_source == plain:
        texts["when_to_retrieve"] = _join(covers or titles, _WHEN_LIMIT)
    return texts


def _covers(metadata: dict[str, Any] | None) -> list[str]:
    value = field_value(metadata or {}, "covers")
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _join(parts: Sequence[str], limit: int) -> str:
    """Distinct parts, one line each made of them, joined by ``; `` as far as they fit; ``…`` where some did not."""
    text = ""
    for part in _distinct(parts):
        longer = f"{text}; {part}" if text else part
        if len(longer) > limit - 1:
            return f"{(text or part)[: limit - 1].rstrip()}…"
        text = longer
    return text


def _distinct(parts: Iterable[str]) -> list[str]:
    lines = (" ".join(part.split()) for part in parts)
    return list(dict.fromkeys(line for line in lines if line))
