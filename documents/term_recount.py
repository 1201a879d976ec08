"""The counts of terms held against the chunks that they count: what is wrong in them, and putting it right."""

from __future__ import annotations

from itertools import islice

import numpy as np
from django.db import transaction

from documents.models import DocumentChunk, TermCount
from documents.terms import ALL_CHUNKS, add_counts
from documents.transactions import repeated_on_deadlock

_CHUNKS_AT_A_TIME = 2_000


def miscounted() -> dict[int, int]:
    """What must be added to the counts, by term; empty where they are right.

    Reads every chunk's terms. Without :func:`count_again`'s lock a chunk that is written meanwhile may look wrong.
    """
    actual = _counted()
    kept = dict(TermCount.objects.values_list("term", "chunks"))
    differing = {term: actual.get(term, 0) - kept.get(term, 0) for term in actual.keys() | kept.keys()}
    return {term: change for term, change in differing.items() if change}


@repeated_on_deadlock
def count_again() -> int:
    """Put the counts right; how many terms were wrong."""
    with transaction.atomic(durable=True):
        # Whoever writes or removes chunks changes this term first: behind it nobody does, until the end.
        TermCount.objects.get_or_create(term=ALL_CHUNKS)
        TermCount.objects.select_for_update().get(term=ALL_CHUNKS)
        wrong = miscounted()
        add_counts(wrong)
    return len(wrong)


def _counted() -> dict[int, int]:
    stored = DocumentChunk.objects.order_by().values_list("terms", flat=True).iterator(chunk_size=_CHUNKS_AT_A_TIME)
    counts: dict[int, int] = {}
    chunks = 0
    while batch := list(islice(stored, _CHUNKS_AT_A_TIME)):
        chunks += len(batch)
        terms, times = np.unique(np.frombuffer(b"".join(map(bytes, batch)), dtype="<u4"), return_counts=True)
        for term, number in zip(terms.tolist(), times.tolist(), strict=True):
            counts[term] = counts.get(term, 0) + number
    return {**counts, ALL_CHUNKS: chunks} if chunks else counts
