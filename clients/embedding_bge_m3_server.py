"""BGE-M3 in an embeddings server that all processes ask: text-embeddings-inference, vLLM, any OpenAI-compatible one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clients.embedding_bge_m3 import BATCH, DIMENSION, MODEL
from clients.embedding_data import level_fit
from clients.embedding_openai import OpenAIEmbedder
from clients.interfaces import ClientError, Matrix


class BgeM3ServerEmbedder(OpenAIEmbedder):
    """The same name, version, dimension and level fit as ``BgeM3Embedder`` of the same ``model``.

    ``batch`` texts go in one request; where the server cuts a long text is its own affair. Errors are those of
    ``OpenAIEmbedder``. No lexical weights: the protocol has no place for them, words are counted. So a store that was
    filled by the one is indexed again for the other.
    """

    name: str = "bge-m3"

    def __init__(self, *, base_url: str, api_key: str = "", model: str = MODEL, batch: int = BATCH) -> None:
        super().__init__(model=model, base_url=base_url, api_key=api_key, dimension=DIMENSION)
        self.fit = level_fit("bge-m3")
        self._batch = max(1, batch)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of passages, in batches that the server takes."""
        starts = range(0, len(texts), self._batch)
        parts = [OpenAIEmbedder.embed_documents(self, texts[start : start + self._batch]) for start in starts]
        return np.concatenate(parts) if parts else super().embed_documents([])

    def _ask(self, texts: list[str], purpose: str) -> list[list[float]]:
        try:
            return super()._ask(texts, purpose)
        except ClientError as error:  # the settings of the other embedder have other names
            error.hint = error.hint.replace("OPENAI_BASE_URL", "EMBEDDING_BASE_URL")
            error.hint = error.hint.replace("OPENAI_API_KEY", "EMBEDDING_API_KEY")
            raise
