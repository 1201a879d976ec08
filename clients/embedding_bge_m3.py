"""BGE-M3 through FlagEmbedding: 1,024 numbers, about 2.3 GB of weights from a local folder or a model hub."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from clients.embedding_data import level_fit
from clients.embedding_vectors import cosines, strip_unencodable, unit_rows
from clients.interfaces import ClientError, Matrix, PartHealth, Vector

DIMENSION = 1024
BATCH = 8
MAX_TOKENS = 2048
_INSTALL = "pip install -r requirements/bge-m3.txt, or choose another EMBEDDER."
_WEIGHTS = "Set EMBEDDING_MODEL to a folder with the weights of BAAI/bge-m3, or let this machine reach the model hub."


class BgeM3Embedder:
    """Loaded by the first text. ``model`` is a local folder or the name on a hub; it is part of the version.

    One call at a time: the tokenizer refuses to be used by two threads at once. A missing package or missing weights
    are a ``ClientError`` with code ``embedder_unavailable``.
    """

    name: str = "bge-m3"
    dimension: int = DIMENSION
    lexical: bool = False
    own_level_space: bool = False

    def __init__(self, *, model: str = "BAAI/bge-m3", device: str = "cpu") -> None:
        self.version: str = model
        self.fit = level_fit("bge-m3")
        self._device = device
        self._lock = threading.Lock()
        self._model: Any = None

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of passages. BGE-M3 asks for no prefix, neither here nor for questions."""
        if not texts:  # its encode() raises on an empty list
            return unit_rows([], count=0, dimension=DIMENSION, source="bge-m3")
        cleaned = [strip_unencodable(text) for text in texts]
        with self._lock:
            answer = self._encode(cleaned)
        return unit_rows(answer, count=len(cleaned), dimension=DIMENSION, source="bge-m3")

    def embed_query(self, text: str) -> Vector:
        """The vector of one question."""
        row: Vector = self.embed_documents([text])[0]
        return row

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """Plain cosines, shape ``(count,)``."""
        return cosines(query, documents)

    def health(self) -> PartHealth:
        """Whether the package is here; does not load the model. Never raises."""
        if find_spec("FlagEmbedding") is None:
            return PartHealth("down", f"The package FlagEmbedding is not installed: {_INSTALL}")
        return PartHealth("ok")

    def _encode(self, texts: list[str]) -> Any:
        """The vendor's call; the lock is held."""
        if self._model is None:
            self._model = self._load()
        try:
            return self._model.encode(texts, batch_size=BATCH, max_length=MAX_TOKENS, return_dense=True)["dense_vecs"]
        except (RuntimeError, ValueError, MemoryError) as error:
            raise ClientError(
                f"BGE-M3 failed on {len(texts)} texts: {error}",
                code="embedder_error",
                retryable=True,
                hint="Look at the memory of this machine.",
            ) from error

    def _load(self) -> Any:
        try:
            from FlagEmbedding import BGEM3FlagModel  # lazily: it imports torch
        except ImportError as error:
            raise ClientError(
                f"FlagEmbedding does not import: {error}", code="embedder_unavailable", hint=_INSTALL
            ) from error
        try:
            return BGEM3FlagModel(self.version, use_fp16=False, devices=self._device)
        except (OSError, ValueError, RuntimeError) as error:
            raise ClientError(
                f"BGE-M3 does not load from {self.version}: {error}", code="embedder_unavailable", hint=_WEIGHTS
            ) from error
