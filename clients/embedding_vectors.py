"""What every embedder does to text before, and to numbers after, its model: cleaned in, finite unit rows out."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from clients.interfaces import ClientError, Matrix, Vector

# NUL ends a C string early; a lone surrogate cannot be written as UTF-8.
_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")


def strip_unencodable(text: str) -> str:
    """The text without NUL and lone surrogates."""
    return _UNENCODABLE.sub("", text)


def unit_rows(rows: npt.ArrayLike, *, count: int, dimension: int, source: str) -> Matrix:
    """``rows`` as float32 of shape ``(count, dimension)``, each row of length 1.

    Raises ``ClientError`` (``embedder_bad_answer``) for another shape, a value that is not finite, or a row of zeros:
    one such row in the store would spoil every later search.
    """
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _bad_answer(f"{source} answered with something that is not a list of equally long vectors") from error
    if count == 0:
        return np.zeros((0, dimension), dtype=np.float32)
    if matrix.shape != (count, dimension):
        raise _bad_answer(f"{source} answered with shape {matrix.shape} instead of {(count, dimension)}")
    if not np.isfinite(matrix).all():
        raise _bad_answer(f"{source} answered with numbers that are not finite")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (lengths > 1e-12).all():
        raise _bad_answer(f"{source} answered with a vector of zeros")
    unit: Matrix = (matrix / lengths).astype(np.float32)
    return unit


def cosines(query: Vector, documents: Matrix) -> Vector:
    """Cosines of one unit vector with unit rows, shape ``(count,)``, kept inside -1 and 1."""
    values: Vector = np.clip(documents @ query, -1.0, 1.0).astype(np.float32)
    return values


def _bad_answer(message: str) -> ClientError:
    return ClientError(
        message,
        code="embedder_bad_answer",
        hint="Look at the embedding model or endpoint (EMBEDDER, EMBEDDING_MODEL); this text was not indexed.",
    )
