"""A stand-in for the loaded BGE-M3, over hashed vectors: proves our half of the adapter, not the model.

The other half runs in `make bge-m3-test`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from clients.embedding_bge_m3_model import Encoded
from clients.embedding_hashing import HashingEmbedder


class StandInForBgeM3:
    """``calls`` holds the batches. Where ``gate`` is set, each batch waits for it, once ``inside`` was told."""

    dimension = 1024
    has_lexical = True

    def __init__(self, model: str = "", device: str = "") -> None:
        self.made_with = (model, device)
        self.calls: list[tuple[list[str], int]] = []
        self.weights: dict[int, float] = {7: 0.5}
        self.error: Exception | None = None
        self.gate: threading.Event | None = None
        self.inside = threading.Event()
        self._running = threading.Lock()

    def encode(self, texts: Sequence[str], *, max_tokens: int) -> Encoded:
        assert texts, "the tokenizer refuses an empty list"
        assert not any("\ud800" <= char <= "\udfff" for text in texts for char in text), "the tokenizer would raise"
        assert self._running.acquire(blocking=False), "the tokenizer is used by another thread"
        try:
            self.calls.append((list(texts), max_tokens))
            self.inside.set()
            if self.gate is not None:
                assert self.gate.wait(20)
            if self.error is not None:
                raise self.error
            vectors = HashingEmbedder().embed_documents(texts).astype(np.float16)
            return vectors, [dict(self.weights) for _ in texts]
        finally:
            self._running.release()
