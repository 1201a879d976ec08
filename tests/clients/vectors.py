"""Small unit vectors and chunks for the tests of the vector stores."""

from __future__ import annotations

import numpy as np

from clients.interfaces import ChunkVector, CollectionIdentity, SparseVector, Vector

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


def chunk(number: int, vector: Vector, domain: str = "payment", terms: SparseVector | None = None) -> ChunkVector:
    return ChunkVector(number=number, domain=domain, vector=vector, terms=terms or {})


def weights(seed: int, terms: int = 12, of: int = 60) -> dict[int, float]:
    """Some sparse vector over the whole range of ids, the same one for the same seed; two of them often share terms."""
    random = np.random.default_rng(seed)
    ids = random.choice(of, size=terms, replace=False) * ((2**31 - 1) // (of - 1))
    return {int(term): float(weight) for term, weight in zip(ids, random.uniform(0.05, 1.0, terms), strict=True)}


def inner_product(first: SparseVector, second: SparseVector) -> float:
    return sum(weight * second[term] for term, weight in first.items() if term in second)
