"""What a domain's documents say of themselves: title, covers, when to retrieve. The summary, prompt and map read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from documents.generated import in_use
from documents.models import ApiDocument

NOT_GOING = ~Q(status=ApiDocument.Status.DELETING)
COUNTED = Q(enabled=True) & NOT_GOING
"""DOM-3: what a domain counts."""
SHOWN = COUNTED & Q(missing_since=None)
"""What is told of a domain: a document whose file vanished is counted, since it may come back, and told to nobody."""


@dataclass(frozen=True)
class DocumentWords:
    """One document as its author describes it, a model's draft where the author is silent."""

    title: str
    covers: tuple[str, ...]
    when_to_retrieve: str


def shown_documents(category: str) -> QuerySet[ApiDocument]:
    """The documents of one domain that may be told of, in the order of their ids."""
    return ApiDocument.objects.filter(SHOWN, category=category).order_by("pk")


def words_of(documents: QuerySet[ApiDocument]) -> list[DocumentWords]:
    """What these documents say, in their order; reads three columns of each. Slice the query: they may be many."""
    rows: Iterable[tuple[str, object, object]] = documents.values_list("title", "metadata", "generated")
    return [_words(title, metadata, generated) for title, metadata, generated in rows]


def _words(title: str, metadata: object, generated: object) -> DocumentWords:
    covers, when = in_use(
        metadata if isinstance(metadata, dict) else None, generated if isinstance(generated, dict) else {}
    )
    return DocumentWords(title, tuple(covers), when)
