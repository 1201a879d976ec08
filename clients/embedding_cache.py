"""Vectors of questions, kept by the exact text: in the process, and in Redis for all processes where there is one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from clients.interfaces import Embedder, Matrix, PartHealth, Vector

QUERIES_KEPT = 1024
"""4 MB of BGE-M3's vectors."""
_NORM_TOLERANCE = 1e-3


class SharedVectors(Protocol):
    """Bytes by key that all processes see for a while. Never raises: what fails is a miss."""

    def get(self, key: str) -> bytes | None:
        """What is kept under this key."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Keep it."""
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...


class CachedQueries:
    """The wrapped embedder, with the vectors of its last questions kept; they are read-only.

    Name and version are part of the shared key, which holds a hash of the text and not the text.
    """

    def __init__(self, embedder: Embedder, *, redis_url: str = "", shared: SharedVectors | None = None) -> None:
        self.wrapped = embedder
        self.name = embedder.name
        self.version = embedder.version
        self.lexical = embedder.lexical
        self.own_level_space = embedder.own_level_space
        self.fit = embedder.fit
        self._shared = shared or (_redis_vectors(redis_url) if redis_url else None)
        self._kept = lru_cache(maxsize=QUERIES_KEPT)(self._found)

    @property
    def dimension(self) -> int:
        """Asked each time: an endpoint's is not known before its first answer."""
        return self.wrapped.dimension

    @dimension.setter
    def dimension(self, value: int) -> None:
        self.wrapped.dimension = value

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """As the wrapped embedder; passages are not kept, the store has them."""
        return self.wrapped.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """The ranking vector of one question; read-only."""
        return self._kept(text)

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """As the wrapped embedder."""
        return self.wrapped.level_cosines(query, documents)

    def health(self) -> PartHealth:
        """The wrapped embedder's. Never raises."""
        ask = getattr(self.wrapped, "health", None)
        health: PartHealth = ask() if ask is not None else PartHealth("ok")
        return health

    def close(self) -> None:
        """Let go of Redis and of what the wrapped embedder holds."""
        self._kept.cache_clear()
        if self._shared is not None:
            self._shared.close()
        close = getattr(self.wrapped, "close", None)
        if close is not None:
            close()

    def _found(self, text: str) -> Vector:
        if self._shared is None:
            return _read_only(self.wrapped.embed_query(text))
        key = self._key(text)
        stored = self._unpacked(self._shared.get(key))
        if stored is not None:
            return stored
        made = _read_only(self.wrapped.embed_query(text))
        self._shared.put(key, made.astype("<f4").tobytes())
        return made

    def _key(self, text: str) -> str:
        digest = hashlib.sha256()
        for part in (self.name, self.version, text):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.hexdigest()

    def _unpacked(self, stored: bytes | None) -> Vector | None:
        """The vector, or None for what is none of this embedder's."""
        if stored is None or len(stored) != 4 * self.dimension:
            return None
        vector: Vector = np.frombuffer(stored, dtype="<f4").astype(np.float32)
        # NaN is not near 1 either
        return _read_only(vector) if abs(float(np.linalg.norm(vector)) - 1.0) <= _NORM_TOLERANCE else None


def _read_only(vector: Vector) -> Vector:
    if not vector.flags.writeable:
        return vector
    kept = vector.copy()
    kept.setflags(write=False)
    return kept


def _redis_vectors(url: str) -> SharedVectors:
    from clients.embedding_cache_redis import RedisVectors  # a site without Redis does not import its client

    return RedisVectors(url)
