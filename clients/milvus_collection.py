"""The collection of chunk vectors in Milvus: how it is made, what it remembers, how it is proved and loaded.

Layout 2: key ``{document id}:{revision}:{number}``, the three numbers again as ints (for filters), the domain as an int
key, the vector under metric ``L2``, the terms as a sparse vector under metric ``IP``. A server before Milvus 2.4 has no
sparse vectors: the collection is made without them there.

Layout 1 had no terms. Another field is a new layout again: raise ``LAYOUT``, add the field in :func:`create` and its
index to ``_INDEXES``; a collection of an older layout then answers ``collection_mismatch`` and ``reindex --all`` makes
it anew (fields cannot be added to a collection that Milvus Lite holds).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from clients.interfaces import ClientError, CollectionIdentity
from clients.milvus_sdk import DataType, StaleStoreError, translated

logger = logging.getLogger(__name__)

LAYOUT = "2"
METRIC = "L2"
TERMS_METRIC = "IP"
VECTOR = "vector"
TERMS = "terms"
INTS = ("document_id", "revision", "number")
DOMAIN = "domain_key"
LOAD_TIMEOUT = 60.0
CALL_TIMEOUT = 10.0
REINDEX_HINT = "Run: python manage.py reindex --all"

_PROPERTY = "kbsite."
_PROVED = "kbsite.metric_proved_on"
_INDEXES = {VECTOR: ("FLAT", METRIC), TERMS: ("SPARSE_INVERTED_INDEX", TERMS_METRIC)}
"""Both are exact, and the right ones in Milvus Lite."""


def prepare(client: Any, uri: str, name: str, identity: CollectionIdentity, *, lite: bool) -> bool:
    """Make the collection if it is missing, check whose it is, prove the metric, load it. True where it holds terms.

    Raises ``ClientError``: ``collection_mismatch``, ``collection_outdated`` (the embedder's vectors, in the layout or
    with the terms of another version of this program), ``metric_mismatch``, ``store_unavailable``.
    """
    with translated(uri):
        version = str(client.get_server_version(timeout=CALL_TIMEOUT))
        if client.has_collection(name, timeout=CALL_TIMEOUT):
            properties = client.describe_collection(name, timeout=CALL_TIMEOUT).get("properties") or {}
            _check_identity(name, properties, identity)
            if properties.get(_PROVED) != version:
                prove_metric(client)
                client.alter_collection_properties(name, {_PROVED: version}, timeout=CALL_TIMEOUT)
        else:
            prove_metric(client)
            create(client, name, identity, version)
            logger.info("vector store: made the collection %s for %s", name, identity)
        # Asked of the collection and not of the version: an upgraded server still holds what the old one made.
        there = {field["name"] for field in client.describe_collection(name, timeout=CALL_TIMEOUT)["fields"]}
    _load(client, uri, name, [field for field in _INDEXES if field in there], lite=lite)
    return TERMS in there


def has_sparse_vectors(version: str) -> bool:
    """Milvus has them from 2.4 on; Milvus Lite (``milvus_lite-3.2.2``) and a build that tells no version have them."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return found is None or (int(found[1]), int(found[2])) >= (2, 4)


def create(client: Any, name: str, identity: CollectionIdentity, version: str) -> None:
    """An empty collection that remembers whose vectors it holds and on which store version the metric was proved."""
    schema = client.create_schema(enable_dynamic_field=False)
    schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=64)
    for field in (*INTS, DOMAIN):
        schema.add_field(field, DataType.INT64)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=identity.dimension)
    fields = [VECTOR]
    if has_sparse_vectors(version):
        schema.add_field(TERMS, DataType.SPARSE_FLOAT_VECTOR)
        fields.append(TERMS)
    client.create_collection(
        name,
        schema=schema,
        index_params=_indexes(client, fields),
        properties={**_remembered(identity), _PROVED: version},
        consistency_level="Session",
        timeout=LOAD_TIMEOUT,
    )


def prove_metric(client: Any) -> None:
    """Store -e1 and e2, ask with e1: a store whose L2 is squared answers 4 and 2 (L1-2).

    ``ClientError`` (``metric_mismatch``) where it answers otherwise, as Milvus Lite 3.0 did with 2 and 1.41: levels
    computed from that would be wrong.
    """
    name = f"kbsite_metric_check_{uuid4().hex[:12]}"
    schema = client.create_schema(enable_dynamic_field=False)
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=2)
    try:
        client.create_collection(name, schema=schema, index_params=_indexes(client, [VECTOR]), timeout=LOAD_TIMEOUT)
        client.upsert(name, [{"pk": 1, VECTOR: [-1.0, 0.0]}, {"pk": 2, VECTOR: [0.0, 1.0]}], timeout=CALL_TIMEOUT)
        hits = client.search(
            name,
            [[1.0, 0.0]],
            limit=2,
            anns_field=VECTOR,
            search_params={"metric_type": METRIC},
            consistency_level="Strong",
            timeout=CALL_TIMEOUT,
        )[0]
    finally:
        client.drop_collection(name, timeout=CALL_TIMEOUT)
    answered = [round(float(hit["distance"]), 3) for hit in hits]
    if answered != [2.0, 4.0]:
        raise ClientError(
            f"The vector store's metric {METRIC} is not the squared distance: an orthogonal and an opposite vector "
            f"answered {answered} where 2 and 4 are right.",
            code="metric_mismatch",
            hint="Use milvus-lite 3.2.2 or newer (pip install -r requirements.txt), or a Milvus server.",
        )


def _indexes(client: Any, fields: Sequence[str]) -> Any:
    params = client.prepare_index_params()
    for field in fields:
        index_type, metric = _INDEXES[field]
        params.add_index(field, index_type=index_type, metric_type=metric)
    return params


def _remembered(identity: CollectionIdentity) -> dict[str, str]:
    return {
        f"{_PROPERTY}layout": LAYOUT,
        f"{_PROPERTY}embedder": identity.embedder,
        f"{_PROPERTY}embedder_version": identity.version,
        f"{_PROPERTY}dimension": str(identity.dimension),
        f"{_PROPERTY}terms": identity.terms,
    }


def _check_identity(name: str, properties: dict[str, Any], identity: CollectionIdentity) -> None:
    wanted = _remembered(identity)
    found = {key: str(properties.get(key, "")) for key in wanted}
    if found == wanted:
        return
    there = ", ".join(f"{key.removeprefix(_PROPERTY)} {value or 'unknown'}" for key, value in found.items())
    here = ", ".join(f"{key.removeprefix(_PROPERTY)} {value}" for key, value in wanted.items())
    raise ClientError(
        f"The vectors in collection {name} are of another make ({there}) than this site's ({here}).",
        code="collection_outdated" if _only_older(found, wanted) else "collection_mismatch",
        hint=REINDEX_HINT,
    )


def _only_older(found: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether only layout or version of the terms differ: what changes with this program, and by nobody's setting."""
    layout, terms = f"{_PROPERTY}layout", f"{_PROPERTY}terms"
    if any(found[key] != wanted[key] for key in wanted if key not in (layout, terms)):
        return False
    return found[terms].partition("-")[0] in ("", wanted[terms].partition("-")[0])


def _load(client: Any, uri: str, name: str, fields: Sequence[str], *, lite: bool) -> None:
    """Load the collection: after a restart Milvus Lite has it released, and every search would fail.

    A kill just after a flush can leave Lite an index file half written; the rows are whole, so the indexes are made
    again.
    """
    try:
        with translated(uri):
            _make_missing_indexes(client, name, fields)
            client.load_collection(name, timeout=LOAD_TIMEOUT)
    except ClientError as error:
        if not lite or isinstance(error, StaleStoreError):
            raise
        logger.warning("vector store: loading %s failed (%s); making its indexes again", name, error)
        with translated(uri):
            client.release_collection(name, timeout=CALL_TIMEOUT)
            for field in fields:
                if client.list_indexes(name, field_name=field):  # asked anew: Lite 3.2.2 drops them all at the first
                    client.drop_index(name, field, timeout=CALL_TIMEOUT)
            _make_missing_indexes(client, name, fields)
            client.load_collection(name, timeout=LOAD_TIMEOUT)
    if lite:
        with translated(uri):
            client.flush(name, timeout=LOAD_TIMEOUT)  # rows that a killed process left unflushed


def _make_missing_indexes(client: Any, name: str, fields: Sequence[str]) -> None:
    """A kill between making the collection and its indexes leaves it without one of them, or both."""
    if missing := [field for field in fields if not client.list_indexes(name, field_name=field)]:
        client.create_index(name, _indexes(client, missing), timeout=LOAD_TIMEOUT)
