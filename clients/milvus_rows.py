"""Rows of the Milvus collection: how chunks become rows, and the reads that bring them back. Plain calls on a client.

With two vector fields in a collection each search has to name the one that it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clients.interfaces import ChunkVector, LexicalHit, Matrix, Vector, VectorHit
from clients.milvus_collection import DOMAIN, INTS, LOAD_TIMEOUT, METRIC, TERMS, TERMS_METRIC, VECTOR
from clients.vector_store_checks import ChunkKey, check_int, domain_key

LARGEST_SEARCH = 16_384
KEYS_IN_A_READ = 500
_NO_TERMS = {2**31: 1.0}
"""Milvus refuses an empty sparse vector. No term has this id, so no query finds the row by it."""


def chunk_rows(
    document_id: int,
    revision: int,
    chunks: Sequence[ChunkVector],
    matrix: Matrix,
    terms: Sequence[dict[int, float]] | None,
) -> list[dict[str, Any]]:
    """The rows of one revision, from checked values. ``terms`` is None where the collection holds none."""
    rows: list[dict[str, Any]] = [
        {
            "pk": _pk((document_id, revision, int(chunk.number))),
            "document_id": document_id,
            "revision": revision,
            "number": int(chunk.number),
            DOMAIN: domain_key(chunk.domain),
            VECTOR: vector,
        }
        for chunk, vector in zip(chunks, matrix, strict=True)
    ]
    if terms is not None:
        for row, sparse in zip(rows, terms, strict=True):
            row[TERMS] = sparse or _NO_TERMS
    return rows


def nearest(
    client: Any, name: str, query: Vector, top_k: int, *, narrowed: str, with_vectors: bool, timeout: float
) -> list[VectorHit]:
    """The dense search."""
    fields = [*INTS, VECTOR] if with_vectors else list(INTS)
    return [_vector_hit(hit) for hit in _search(client, name, VECTOR, METRIC, query, top_k, narrowed, fields, timeout)]


def best_by_terms(
    client: Any, name: str, query: dict[int, float], top_k: int, *, narrowed: str, timeout: float
) -> list[LexicalHit]:
    """The lexical search, equal scores by key: Milvus gives those in no order that it promises."""
    found = _search(client, name, TERMS, TERMS_METRIC, query, top_k, narrowed, list(INTS), timeout)
    hits = [LexicalHit(*_key(hit["entity"]), score=float(hit["distance"])) for hit in found]
    return sorted(
        (hit for hit in hits if hit.score > 0),
        key=lambda hit: (-hit.score, hit.document_id, hit.revision, hit.number),
    )


def vectors_of(client: Any, name: str, keys: Sequence[ChunkKey], *, timeout: float) -> dict[ChunkKey, Vector]:
    """The dense vectors of these chunks, read by primary key."""
    by_pk = {_pk(key): key for key in keys}
    pks = list(by_pk)
    found: dict[ChunkKey, Vector] = {}
    for start in range(0, len(pks), KEYS_IN_A_READ):
        rows = client.get(
            name,
            ids=pks[start : start + KEYS_IN_A_READ],
            output_fields=["pk", VECTOR],
            consistency_level="Session",
            timeout=timeout,
        )
        found.update({by_pk[row["pk"]]: np.asarray(row[VECTOR], dtype=np.float32) for row in rows})
    return found


def pks_of(client: Any, name: str, int_filter: str, *, timeout: float) -> set[str]:
    """The primary keys of 5,000 rows that a filter made of whole numbers finds; "Strong" sees all writes."""
    rows = client.query(
        name, filter=int_filter, output_fields=["pk"], limit=5_000, consistency_level="Strong", timeout=timeout
    )
    return {str(row["pk"]) for row in rows}


def build_sparse_indexes(client: Any, name: str) -> None:
    """Milvus Lite builds the sparse index of a file at the first search that meets it: search.

    After a flush it merges files into new ones, beginning during this first search; loading, without effect otherwise,
    waits until they are merged.
    """
    best_by_terms(client, name, _NO_TERMS, 1, narrowed="", timeout=LOAD_TIMEOUT)
    client.load_collection(name, timeout=LOAD_TIMEOUT)
    best_by_terms(client, name, _NO_TERMS, 1, narrowed="", timeout=LOAD_TIMEOUT)


def count_revisions(client: Any, name: str, *, lite: bool, timeout: float) -> dict[tuple[int, int], int]:
    """How many rows each ``(document id, revision)`` has."""
    counts: dict[tuple[int, int], int] = {}
    for row in _all_rows(client, name, lite=lite, timeout=timeout):
        key = (int(row["document_id"]), int(row["revision"]))
        counts[key] = counts.get(key, 0) + 1
    return counts


def _all_rows(client: Any, name: str, *, lite: bool, timeout: float) -> Iterator[dict[str, Any]]:
    fields = ["document_id", "revision"]
    if lite:  # has no limit of rows, and sorts them all again for each page
        yield from client.query(name, filter="document_id >= 0", output_fields=fields, timeout=60.0)
        return
    pages = client.query_iterator(
        name, batch_size=5_000, output_fields=fields, consistency_level="Strong", timeout=timeout
    )
    try:
        while page := pages.next():
            yield from page
    finally:
        pages.close()


def narrowed_to(domain: str | None, without: Sequence[int]) -> str:
    """The filter of a search: one category, and not these documents; "" for everything. Made of ints alone."""
    parts = [] if domain is None else [f"{DOMAIN} == {domain_key(domain)}"]
    if without:
        ids = ", ".join(str(check_int(document_id, "A document's id")) for document_id in without)
        parts.append(f"document_id not in [{ids}]")
    return " and ".join(parts)


def _search(
    client: Any,
    name: str,
    field: str,
    metric: str,
    query: Vector | dict[int, float],
    top_k: int,
    narrowed: str,
    output_fields: list[str],
    timeout: float,
) -> Any:
    return client.search(
        name,
        [query],
        limit=min(top_k, LARGEST_SEARCH),
        filter=narrowed,
        anns_field=field,
        search_params={"metric_type": metric},
        output_fields=output_fields,
        consistency_level="Session",
        timeout=timeout,
    )[0]


def _pk(key: ChunkKey) -> str:
    return ":".join(map(str, key))


def _key(entity: Any) -> ChunkKey:
    return int(entity["document_id"]), int(entity["revision"]), int(entity["number"])


def _vector_hit(hit: Any) -> VectorHit:
    entity = hit["entity"]
    return VectorHit(
        *_key(entity),
        squared_distance=float(hit["distance"]),
        vector=np.asarray(entity[VECTOR], dtype=np.float32) if VECTOR in entity else None,
    )
