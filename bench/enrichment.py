"""Measures enrichment: ``python -m bench.enrichment``. 1,000 documents by a model that answers after 50 ms, in four
lanes of which two may work; stopped in the middle and resumed. Then what looking for work costs at 100,000 documents.

Everything lies in a temporary folder; no service and no network is used.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.enrichment_model import MeasuredModel
from bench.report import Report, percentile

PARALLEL = 2
LANES = 4
SECONDS = 0.05
CROWD = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.enrichment", description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kbsite-bench-") as folder:
        model = MeasuredModel(SECONDS)
        model.start()
        try:
            _set_up(Path(folder), model)
            report = Report(f"Enrichment of {arguments.documents:,} documents, {SECONDS * 1000:.0f} ms an answer")
            report.begin()
            _measure_lanes(report, model, Path(folder), arguments.documents)
            _measure_looking(report)
        finally:
            model.stop()
    return report.code()


def _set_up(folder: Path, model: MeasuredModel) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="kbsite.settings",
        DATA_DIR=str(folder / "data"),
        KNOWLEDGE_BASE_PATH=str(folder / "knowledge_base"),
        DATABASE_URL="",
        EMBEDDER="hashing",
        CELERY_BROKER_URL="",
        REDIS_URL="",
        VECTOR_STORE_URI="",
        OPENAI_BASE_URL=model.base_url,
        OPENAI_API_KEY="bench",
        OPENAI_MODEL="measured",
        LLM_PARALLEL=str(PARALLEL),
        AUTO_ACCEPT_FRONTMATTER="",
    )
    (folder / "data").mkdir()
    import django

    django.setup()
    import logging

    from django.core.management import call_command

    logging.disable(logging.INFO)
    call_command("migrate", verbosity=0)


def _measure_lanes(report: Report, model: MeasuredModel, folder: Path, documents: int) -> None:
    from documents.enrichment_due import unseen
    from documents.enrichment_review import progress
    from documents.scan import scan

    for number in range(documents):
        path = folder / "knowledge_base" / f"team-{number % 10}" / f"service-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Service {number}\n\nRestart the standby of service-{number:05}, then call the owner.\n")
    scan()
    stop, seen = threading.Event(), []
    began = time.perf_counter()
    threads = _lanes(stop)
    while sum(model.asked.values()) < documents // 3:
        seen.append(progress())
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    stopped = progress()
    unseen.forget()  # as another process begins
    for thread in _lanes(threading.Event()):
        thread.join()
    seconds = time.perf_counter() - began
    done = progress()
    report.at_least(f"documents a second (the model allows {PARALLEL / SECONDS:.0f})", documents / seconds, 5.0)
    report.equal("most requests at once, four lanes, LLM_PARALLEL=2", model.most_at_once, PARALLEL)
    report.equal("running after the stop", stopped.running, 0)
    report.equal("written after stop and resumption", done.done, documents)
    report.equal("documents that were asked about", len(model.asked), documents)
    report.equal("asked about more than once", sum(times > 1 for times in model.asked.values()), 0)
    report.equal("progress seen on the way (done grows)", _grows([one.done for one in seen]), "yes")
    report.equal("documents with drafts", done.drafts, documents)


def _grows(counts: list[int]) -> str:
    return "yes" if counts == sorted(counts) and len(set(counts)) > 3 else f"no: {counts}"


def _lanes(stop: threading.Event) -> list[threading.Thread]:
    from django.db import connection

    from documents.enrichment import enrich_next
    from documents.enrichment_due import due_documents

    def run() -> None:
        try:
            while not stop.is_set() and (enrich_next(stop.is_set) or due_documents(1)):
                time.sleep(0.001)  # a lane that found the bound reached looks again
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _lane in range(LANES)]
    for thread in threads:
        thread.start()
    return threads


def _measure_looking(report: Report) -> None:
    """What a lane does each second, and a page that shows the progress, in a large knowledge base."""
    from documents.enrichment import enrich_next
    from documents.enrichment_due import unseen
    from documents.enrichment_review import progress

    _crowd()
    unseen.forget()
    report.figure("first look of a process at 101,000 documents", _milliseconds(unseen.take_up, 1)[0], "ms")
    looks = _milliseconds(enrich_next, 50)
    report.at_most("a lane's look that finds nothing, p95", percentile(looks, 0.95), 20.0, "ms")
    from documents.counters import bump

    def after_a_change() -> None:
        bump()
        enrich_next()

    changed = _milliseconds(after_a_change, 20)
    report.at_most("a look after a change elsewhere, p95", percentile(changed, 0.95), 20.0, "ms")
    report.at_most("progress(), median", percentile(_milliseconds(progress, 5), 0.5), 500.0, "ms")


def _crowd() -> None:
    from django.utils import timezone

    from documents.models import ApiDocument, DocumentEnrichment

    draft = {"value": "x" * 200, "state": "draft", "model": "measured", "made_at": "2026-01-01T00:00:00+00:00"}
    fields = dict.fromkeys(("title", "summary", "keywords", "covers", "when_to_retrieve"), draft)
    rows = [
        ApiDocument(
            file_path=f"knowledge_base/crowd/{number}.md", path_key=f"crowd-{number}", file_name=f"{number}.md",
            category="crowd", title=str(number), generated=fields, content_hash=f"{number:064}", status="INDEXED",
            revision=1, published_revision=1, updated_at=timezone.now(),
        )
        for number in range(CROWD)
    ]  # fmt: skip
    made = ApiDocument.objects.bulk_create(rows, batch_size=2_000)
    DocumentEnrichment.objects.bulk_create(
        (DocumentEnrichment(pk=one.pk, state="DONE", seen_hash=one.content_hash) for one in made), batch_size=5_000
    )


def _milliseconds(step: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _time in range(times):
        began = time.perf_counter()
        step()
        taken.append((time.perf_counter() - began) * 1_000)
    return taken


if __name__ == "__main__":
    sys.exit(main())
