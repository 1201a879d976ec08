"""Exact identifiers on the running product: 773 short documents, queries that must find exactly what they name.

python -m bench.codes [FOLDER]      (default ../shared/data/codes)
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.report import Report
from bench.site_process import ROOT, SiteProcess

FOLDER = ROOT.parent / "shared" / "data" / "codes"


def exact_titles(site: SiteProcess, query: str) -> set[str]:
    """The titles of all that matched by keyword, from the recorded call: the answer itself serves one of them."""
    site.lookup(query)
    _status, page = site.call("GET", "/api/v1/invocations/?page_size=1")
    return set(page["results"][0]["retrieval_details"]["l0_titles"])


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not folder.is_dir():
        print(f"bench.codes needs {folder}, which is not here: nothing measured")
        return 0
    documents = [json.loads(line) for line in (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines()]
    report = Report("Exact identifiers on the running site")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        shutil.copytree(folder / "docs", home / "knowledge_base")
        site = SiteProcess(home)
        try:
            site.start()
            site.wait_until(lambda: site.documents() == len(documents), seconds=30, what="all rows")
            report.begin()
            titles = {document["id"]: document["title"] for document in documents}
            _queries(site, folder, titles, report)
            _keywords(site, documents, report)
        finally:
            site.stop()
    return report.code()


def _queries(site: SiteProcess, folder: Path, titles: dict[str, str], report: Report) -> None:
    for file in sorted(folder.glob("queries*.jsonl")):
        queries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        right = forbidden = 0
        for query in queries:
            found = exact_titles(site, query["text"])
            right += found == {titles[name] for name in query["expected"]}
            forbidden += bool(found & {titles[name] for name in query["forbidden"]})
        report.equal(f"{file.name}: found exactly what is named", right, len(queries))
        report.equal(f"{file.name}: queries with a forbidden document", forbidden, 0)


def _keywords(site: SiteProcess, documents: list[dict[str, Any]], report: Report) -> None:
    alone = shared = 0
    for document in documents:
        found = exact_titles(site, document["codes"][0])
        alone += found == {document["title"]}
        shared += document["title"] in found and len(found) > 1
    report.equal("first keyword alone finds its document only", alone, len(documents) - 4)
    report.equal("documents that share their first keyword", shared, 4)


if __name__ == "__main__":
    raise SystemExit(main())
