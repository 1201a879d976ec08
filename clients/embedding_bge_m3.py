"""BGE-M3 in this process: 1,024 numbers, about 2.3 GB of weights from a local folder or a model hub.

For a site of one process. Where there are several, the model is in an embeddings server
(``clients/embedding_bge_m3_server.py``, docs/decisions/0012).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from clients.embedding_bge_m3_model import HEADS, INSTALL, WEIGHTS, BgeM3Model, Encoded, has_heads, load_model
from clients.embedding_data import level_fit
from clients.embedding_lexical import OwnLexicalWeights as OwnLexicalWeights
from clients.embedding_vectors import cosines, strip_unencodable, unit_rows
from clients.interfaces import ClientError, ClientTimeout, Matrix, PartHealth, Vector
from clients.one_at_a_time import Loader, NotInTime, Turns

MODEL = "BAAI/bge-m3"
DIMENSION = 1024
BATCH = 8
MAX_TOKENS = 2048
QUERY_TOKENS = 512
"""As much of a question as is read, about 800 CJK characters: a person waits for it."""
QUERY_PATIENCE = 5.0
"""Seconds that a question waits for the model; then it is answered by keyword alone, as when the embedder is down."""
QUERIES_KEPT = 1024
"""About 4 MB; one question takes 0.1 to 0.3 s on a processor."""
_SMALLEST_WEIGHT = float(np.finfo(np.float32).tiny)


class BgeM3Embedder:
    """Cheap to make: the model is loaded by the first text, in a thread of its own.

    ``model`` is a local folder or the name on a hub; it is part of the version. ``batch`` texts at a time are embedded,
    each cut at ``max_tokens``, on ``device``. One batch at a time, since the tokenizer refuses to be used by two
    threads at once; a question goes before passages that wait. A missing package or missing weights are a
    ``ClientError`` with code ``embedder_unavailable``, a question that waited too long is a ``ClientTimeout``
    (``embedder_loading``, ``embedder_busy``). Also offers :class:`OwnLexicalWeights`, unless the folder has no
    lexical part.
    """

    name: str = "bge-m3"
    lexical: bool = False
    own_level_space: bool = False

    def __init__(
        self,
        *,
        model: str = MODEL,
        device: str = "cpu",
        batch: int = BATCH,
        max_tokens: int = MAX_TOKENS,
        query_patience: float = QUERY_PATIENCE,
        load: Callable[[str, str], BgeM3Model] = load_model,
    ) -> None:
        self.version: str = model
        self.fit = level_fit("bge-m3")
        self.dimension: int = _dimension_of(model)
        self.has_lexical: bool = has_heads(model)
        self._batch = max(1, batch)
        self._max_tokens = max_tokens
        self._patience = query_patience
        self._loader = Loader(lambda: load(model, device))
        self._turns = Turns()
        self._question = lru_cache(maxsize=QUERIES_KEPT)(self._embed_question)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of passages. BGE-M3 asks for no prefix, neither here nor for questions."""
        return self._embed_passages(texts)[0]

    def embed_query(self, text: str) -> Vector:
        """The vector of one question; read-only, since the last ones are kept by their exact text."""
        return self._question(text)[0]

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """Plain cosines, shape ``(count,)``."""
        return cosines(query, documents)

    def lexical_documents(self, texts: Sequence[str]) -> list[dict[int, float]]:
        """The model's own lexical weights of passages: token ids with weights above 0."""
        return self.embed_documents_with_lexical(texts)[1]

    def lexical_query(self, text: str) -> dict[int, float]:
        """The model's own lexical weights of one question; made together with its vector."""
        weights = self._question(text)[1]
        self._refuse_without_lexical()
        return dict(weights)

    def embed_documents_with_lexical(self, texts: Sequence[str]) -> tuple[Matrix, list[dict[int, float]]]:
        """Vectors and lexical weights of passages, in one pass over the model."""
        if texts:
            self._refuse_without_lexical()
        return self._embed_passages(texts)

    def health(self) -> PartHealth:
        """Whether the package and the folder are here, and how loading went; does not load. Never raises."""
        if not _is_installed():
            return PartHealth("down", f"The package FlagEmbedding is not installed: {INSTALL}")
        if _is_path(self.version) and not Path(self.version).is_dir():
            return PartHealth("down", f"There is no folder {self.version}. {WEIGHTS}")
        problem = self._loader.problem
        if problem is not None:
            return PartHealth("down", f"{problem} {problem.hint}".strip())
        return PartHealth("degraded", "The model is being loaded.") if self._loader.loading else PartHealth("ok")

    def close(self) -> None:
        """Let go of the model."""
        self._loader.forget()
        self._question.cache_clear()

    def _embed_passages(self, texts: Sequence[str]) -> tuple[Matrix, list[dict[int, float]]]:
        if not texts:
            return unit_rows([], count=0, dimension=self.dimension, source="BGE-M3"), []
        model = self._loader.get()
        rows, weights = [], []
        for start in range(0, len(texts), self._batch):
            with self._turns.passages():
                some, lexical = self._encoded(model, texts[start : start + self._batch], self._max_tokens)
            rows.append(some)
            weights += lexical
        return np.concatenate(rows), weights

    def _refuse_without_lexical(self) -> None:
        if not self._loader.get().has_lexical:
            raise ClientError(
                f"{self.version} has no lexical weights ({' and '.join(HEADS)} are missing)",
                code="embedder_unavailable",
                hint="Copy the whole of BAAI/bge-m3 into the folder that EMBEDDING_MODEL names.",
            )

    def _embed_question(self, text: str) -> tuple[Vector, dict[int, float]]:
        with _in_time("embedder_loading", "BGE-M3 is still being loaded."):
            model = self._loader.get(self._patience)
        with _in_time("embedder_busy", "BGE-M3 is busy with other texts."), self._turns.question(self._patience):
            rows, weights = self._encoded(model, [text], min(self._max_tokens, QUERY_TOKENS))
        rows.setflags(write=False)
        vector: Vector = rows[0]
        return vector, weights[0]

    def _encoded(
        self, model: BgeM3Model, texts: Sequence[str], max_tokens: int
    ) -> tuple[Matrix, list[dict[int, float]]]:
        """One batch; it is this thread's turn."""
        cleaned = [strip_unencodable(text) for text in texts]
        vectors, weights = _encode(model, cleaned, max_tokens)
        self.dimension = model.dimension
        rows = unit_rows(vectors, count=len(cleaned), dimension=model.dimension, source="BGE-M3")
        return rows, [_checked(one) for one in weights]


def _encode(model: BgeM3Model, texts: list[str], max_tokens: int) -> Encoded:
    """The library and torch raise anything; here it becomes ours."""
    try:
        return model.encode(texts, max_tokens=max_tokens)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ClientError(
            f"BGE-M3 failed on {len(texts)} texts: {reason}",
            code="embedder_error",
            retryable=True,
            hint="Look at the memory of this machine and of EMBEDDING_DEVICE; lower EMBEDDING_BATCH.",
        ) from error


def _checked(weights: dict[int, float]) -> dict[int, float]:
    """Weights that a store takes: finite, and not too small for 32 bits."""
    if not all(math.isfinite(weight) for weight in weights.values()):
        raise ClientError(
            "BGE-M3 answered with lexical weights that are not finite",
            code="embedder_bad_answer",
            hint="Look at the weights that EMBEDDING_MODEL names.",
        )
    return {token: weight for token, weight in weights.items() if weight >= _SMALLEST_WEIGHT}


@contextmanager
def _in_time(code: str, message: str) -> Iterator[None]:
    try:
        yield
    except NotInTime as late:
        raise ClientTimeout(message, code=code, hint="Ask again in a while.") from late


def _dimension_of(model: str) -> int:
    """What the folder says of itself, so that it is known before anything is loaded; else BGE-M3's."""
    try:
        stored = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))["hidden_size"]
    except (OSError, ValueError, KeyError, TypeError):
        return DIMENSION
    return stored if isinstance(stored, int) and stored > 0 else DIMENSION


def _is_path(model: str) -> bool:
    """Whether this can only be a folder; ``name/name`` may also be a model on a hub."""
    return model.startswith((".", "~")) or Path(model).is_absolute()


def _is_installed() -> bool:
    try:
        return find_spec("FlagEmbedding") is not None
    except ValueError:  # loaded by somebody who left no spec: it is there
        return True
