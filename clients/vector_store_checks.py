"""What every vector store asks of what it is given, before anything reaches the store behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from clients.embedding_lexical import identity_of
from clients.interfaces import ChunkVector, ClientError, CollectionIdentity, Matrix, Vector
from clients.registry import get_embedder

ChunkKey = tuple[int, int, int]
"""Document id, revision, number."""

NORM_TOLERANCE = 1e-3
NO_LEXICAL_HINT = (
    "Lexical search is off: the server had no sparse vectors (they came with Milvus 2.4) when the collection was made. "
    "Upgrade it, then run: python manage.py reindex --all"
)
_LARGEST_INT = 2**63 - 1
_LARGEST_TERM = 2**31 - 1
_SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)
_LARGEST_WEIGHT = float(np.finfo(np.float32).max)


def present_identity() -> CollectionIdentity:
    """What the site's embedder, as set now, would make vectors and terms with."""
    return identity_of(get_embedder())


def domain_key(domain: str) -> int:
    """A domain's name as a number below 2**62: a filter then holds an int and never a text that somebody chose."""
    digest = hashlib.blake2b(domain.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2


def check_int(value: object, name: str) -> int:
    """``value`` as an int from 0 up. Filters are made from these alone, so nothing else may pass."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= _LARGEST_INT:
        raise ClientError(f"{name} must be a whole number from 0 up, not {value!r}.", code="vector_invalid")
    return int(value)


def check_keys(keys: Iterable[ChunkKey]) -> list[ChunkKey]:
    """The keys as whole numbers, in order."""
    return [
        (
            check_int(document_id, "A document's id"),
            check_int(revision, "A revision"),
            check_int(number, "A chunk's number"),
        )
        for document_id, revision, number in keys
    ]


def check_terms(terms: object) -> dict[int, float]:
    """A sparse vector with whole numbers and floats, in the order of its term ids; it may be empty.

    Raises ``ClientError`` (``vector_invalid``) for what is no term id, and for a weight that is not above 0, is NaN or
    infinity, or does not fit the 32 bits that a store keeps of it.
    """
    if not isinstance(terms, Mapping):
        raise ClientError(f"A sparse vector must map term ids to weights, not {terms!r}.", code="vector_invalid")
    return dict(sorted((_check_term(term), _check_weight(weight)) for term, weight in terms.items()))


def _check_term(term: object) -> int:
    if isinstance(term, bool) or not isinstance(term, int | np.integer) or not 0 <= term <= _LARGEST_TERM:
        raise ClientError(f"A term id must be a whole number from 0 to 2**31 - 1, not {term!r}.", code="vector_invalid")
    return int(term)


def _check_weight(weight: object) -> float:
    if (
        isinstance(weight, bool)
        or not isinstance(weight, int | float | np.integer | np.floating)
        or not _SMALLEST_WEIGHT <= weight <= _LARGEST_WEIGHT
    ):
        raise ClientError(f"A term's weight must be a finite number above 0, not {weight!r}.", code="vector_invalid")
    return float(weight)


def check_query(vector: Vector, dimension: int) -> Vector:
    """The query vector as float32 of shape ``(dimension,)``; see :func:`check_chunks` for what is refused."""
    query = _as_floats(vector)
    if query.shape != (dimension,):
        raise ClientError(
            f"The query vector has shape {query.shape}, the collection holds {dimension} dimensions.",
            code="vector_invalid",
        )
    _check_rows(query[np.newaxis, :])
    return query


def check_chunks(chunks: Sequence[ChunkVector], dimension: int) -> Matrix:
    """The chunks' vectors as float32, shape ``(count, dimension)``, in order.

    Raises ``ClientError`` (``vector_invalid``) for a wrong dimension, NaN or infinity, a zero vector, one that is not
    of unit length, or a number that comes twice. Milvus Lite takes all of these without a word.
    """
    numbers = [check_int(chunk.number, "A chunk's number") for chunk in chunks]
    if len(set(numbers)) != len(numbers):
        raise ClientError("Two chunks of one revision have the same number.", code="vector_invalid")
    rows = [_as_floats(chunk.vector) for chunk in chunks]
    for number, row in zip(numbers, rows, strict=True):
        if row.shape != (dimension,):
            raise ClientError(
                f"The vector of chunk {number} has shape {row.shape}, the collection holds {dimension} dimensions.",
                code="vector_invalid",
            )
    matrix = np.stack(rows) if rows else np.empty((0, dimension), dtype=np.float32)
    _check_rows(matrix)
    return matrix


def _as_floats(vector: object) -> npt.NDArray[np.float32]:
    try:
        return np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ClientError(f"A vector must be numbers: {error}.", code="vector_invalid") from error


def _check_rows(matrix: Matrix) -> None:
    if not np.isfinite(matrix).all():
        raise ClientError("A vector holds NaN or infinity.", code="vector_invalid")
    lengths = np.linalg.norm(matrix, axis=1)
    if (lengths == 0).any():
        raise ClientError("A vector is zero: it has no direction to compare.", code="vector_invalid")
    if (np.abs(lengths - 1.0) > NORM_TOLERANCE).any():
        worst = float(lengths[np.argmax(np.abs(lengths - 1.0))])
        raise ClientError(f"A vector has length {worst:.4f} instead of 1.", code="vector_invalid")
