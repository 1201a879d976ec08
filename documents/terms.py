"""The terms of stored chunks, and in how many chunks each stands (the lexical search's document frequencies).

Counts change in the transaction that writes or removes the chunks, so they are the same in every process and never go
stale; a question reads the few that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from django.db import connection

from documents.models import DocumentChunk, TermCount

ALL_CHUNKS = -1
_ROWS_AT_A_TIME = 400
_INSERT = "INSERT INTO term_count (term, chunks) VALUES {marks} "
_ON_CONFLICT = {
    "mysql": "ON DUPLICATE KEY UPDATE chunks = chunks + VALUES(chunks)",
    "other": "ON CONFLICT (term) DO UPDATE SET chunks = term_count.chunks + excluded.chunks",
}


def packed(terms: Iterable[int]) -> bytes:
    """Distinct term ids as they are stored with a chunk."""
    return np.array(sorted(set(terms)), dtype="<u4").tobytes()


def unpacked(stored: bytes | memoryview) -> tuple[int, ...]:
    """The ids of a stored chunk, ascending."""
    return tuple(np.frombuffer(bytes(stored), dtype="<u4").tolist())


def remove_chunks(document_ids: Sequence[int]) -> None:
    """Remove every chunk of these documents, and count its terms no more. Only inside a transaction."""
    chunks = DocumentChunk.objects.filter(document_id__in=document_ids)
    _add(chunks.values_list("terms", flat=True), by=-1)
    chunks.delete()


def remove_stray_chunks(document_id: int, *, keep: int) -> None:
    """The same of the chunks of every revision of one document but ``keep``. Only inside a transaction."""
    chunks = DocumentChunk.objects.filter(document_id=document_id).exclude(revision=keep)
    _add(chunks.values_list("terms", flat=True), by=-1)
    chunks.delete()


def remove_all_chunks() -> None:
    """The same of the whole table. Only inside a transaction."""
    DocumentChunk.objects.all().delete()
    TermCount.objects.all().delete()


def count_chunks(chunks: Iterable[DocumentChunk]) -> None:
    """Count the terms of chunks that were just written. Only inside a transaction."""
    _add((chunk.terms for chunk in chunks), by=1)


def term_counts(terms: Sequence[int]) -> tuple[dict[int, int], int]:
    """In how many chunks each of these terms stands (missing: none), and how many chunks there are; one query."""
    marks = ", ".join(["%s"] * (len(terms) + 1))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT term, chunks FROM term_count WHERE term IN ({marks})", [ALL_CHUNKS, *terms])  # noqa: S608
        found = {int(term): max(int(chunks), 0) for term, chunks in cursor.fetchall()}
    return found, found.pop(ALL_CHUNKS, 0)


def _add(stored: Iterable[bytes | memoryview], *, by: int) -> None:
    counts: Counter[int] = Counter()
    for one in stored:
        counts.update(unpacked(one))
        counts[ALL_CHUNKS] += 1
    add_counts({term: count * by for term, count in counts.items()})


def add_counts(changes: Mapping[int, int]) -> None:
    """Add to the counts of terms. Only inside a transaction."""
    # In one order in every process: two writers then wait for each other and never both.
    rows = sorted(changes.items())
    conflict = _ON_CONFLICT["mysql" if connection.vendor == "mysql" else "other"]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            batch = rows[start : start + _ROWS_AT_A_TIME]
            marks = ", ".join(["(%s, %s)"] * len(batch))
            cursor.execute(_INSERT.format(marks=marks) + conflict, [value for row in batch for value in row])
