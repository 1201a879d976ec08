"""Small unit vectors and chunks for the tests of the vector stores."""

from __future__ import annotations

import numpy as np

from clients.interfaces import ChunkVector, CollectionIdentity, Vector

DIMENSION = 8
IDENTITY = CollectionIdentity(embedder="letters", version="1", dimension=DIMENSION)


def axis(number: int, sign: float = 1.0) -> Vector:
    """The unit vector along one axis."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[number] = sign
    return vector


def unit(seed: int, dimension: int = DIMENSION) -> Vector:
    """Some unit vector, the same one for the same seed."""
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def chunk(number: int, vector: Vector, domain: str = "payment") -> ChunkVector:
    return ChunkVector(number=number, domain=domain, vector=vector)
