"""Which row a path means. Paths that differ only by case or form share a ``path_key``; one row of them has no
``twin_key``, each other one (adopted from the disk, never made by an upload) has its own spelling's.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from django.db.models import QuerySet

from documents.models import ApiDocument
from documents.names import exact_key, path_key


def document_at(documents: QuerySet[ApiDocument], path: str) -> ApiDocument | None:
    """The one of ``documents`` whose path is spelled so; else the one that differs only by case or form; else None."""
    return of_spelling(documents.filter(path_key=path_key(path)).order_by("pk"), path)


def of_spelling(same_key: Iterable[ApiDocument], path: str) -> ApiDocument | None:
    """Of rows with the key of ``path``: the one that is spelled so, else the first."""
    rows = list(same_key)
    spelled = unicodedata.normalize("NFC", path)
    return next((row for row in rows if row.file_path == spelled), rows[0] if rows else None)


def free_twin_key(file_path: str, *, taken: Iterable[str]) -> str:
    """The ``twin_key`` for a new row at ``file_path``, where rows of its ``path_key`` have those that are ``taken``."""
    return exact_key(file_path) if "" in taken else ""
