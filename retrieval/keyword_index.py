"""L0: the exact keyword index, in memory (SPEC section 5)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KeywordEntry:
    """One document's place in the keyword index."""

    document_id: int
    file_path: str
    title: str
    keywords: tuple[str, ...]
    summary: str
    category: str
