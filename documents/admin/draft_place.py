"""Where one document stands among those whose drafts wait for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """``number`` of ``total``, 0 where it waits for nobody; the documents before and after it, None at the ends."""

    number: int
    total: int
    previous: int | None
    following: int | None


def place_of(document_id: int, waiting: Sequence[int]) -> Place:
    """The place in the order of ``waiting``; a document that is not among them leads to the first."""
    ids = list(waiting)
    if document_id not in ids:
        return Place(0, len(ids), None, ids[0] if ids else None)
    at = ids.index(document_id)
    return Place(
        number=at + 1,
        total=len(ids),
        previous=ids[at - 1] if at else None,
        following=ids[at + 1] if at + 1 < len(ids) else None,
    )
