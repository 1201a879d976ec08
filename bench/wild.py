"""Odd and varied frontmatter: 451 files from the wild, read by the module alone and then put into the running site.

python -m bench.wild [FOLDER]      (default ../shared/data/wild)

A character is lost when it is not blank and neither in the body nor in the header that was cut off before it (all
between the first two fences, and only where the index says that there is a header), or when it is in the body and in
no chunk.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from bench.report import Report
from bench.site_process import ROOT, SiteProcess
from documents.encoding import UnreadableText, decode
from documents.frontmatter import ParsedDocument, clean_line, parse_document
from documents.frontmatter_block import normalise_newlines
from retrieval.chunking import TooManyChunks, chunk_body
from retrieval.normalise import normalise

FOLDER = ROOT.parent / "shared" / "data" / "wild"
TITLES, KEYWORDS = 0.98, 0.95
_FENCE = re.compile(r"[ \t]*(?:---|\.\.\.)[ \t]*")
_BOUNDARY = "kbsite-bench-wild"


class Warnings(logging.Handler):
    """Counts what a reader would see in the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    if not (folder / "index.jsonl").is_file():
        print(f"bench.wild needs {folder}, which is not here: nothing measured")
        return 0
    rows = [json.loads(line) for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    report = Report(f"{len(rows)} files with odd frontmatter")
    report.begin()
    _read_all(folder, rows, report)
    with tempfile.TemporaryDirectory() as scratch, SiteProcess(Path(scratch)) as site:
        _upload_all(site, folder, rows, report)
    return report.code()


# ---- By the module ---------------------------------------------------------------------------------------------------
def _read_all(folder: Path, rows: list[dict[str, Any]], report: Report) -> None:
    warnings = _quiet_log()
    figures: Counter[str] = Counter()
    for row in rows:
        warnings.messages.clear()
        try:
            text = decode((folder / row["file"]).read_bytes()).text
            parsed = parse_document(text, file=row["file"])
            covered = [(chunk.start, chunk.end) for chunk in chunk_body(parsed.body)]
        except (UnreadableText, TooManyChunks):
            figures["refused"] += 1
            continue
        except Exception as fault:  # noqa: BLE001 (a crash of whatever kind is what is counted here)
            print(f"  {row['file']}: {type(fault).__name__}: {fault}")
            figures["crashes"] += 1
            continue
        expected = row["reader_expects"]["has_frontmatter"]
        figures["lost"] += _lost(normalise_newlines(text), parsed, expected) + _uncovered(parsed.body, covered)
        if expected == "malformed":
            figures["malformed"] += 1
            figures["warned"] += parsed.frontmatter is None and len(warnings.messages) == 1
        elif expected is True:
            found = parsed.frontmatter
            _compare(figures, row, found.title if found else "", found.keywords if found else ())
        elif expected is False:
            figures["none"] += 1
            figures["silent"] += parsed.frontmatter is None and not warnings.messages
    report.equal("read: crashes", figures["crashes"], 0)
    report.figure("read: refused with a reason (ISO-8859-1)", figures["refused"])
    report.equal("read: characters of body text lost", figures["lost"], 0)
    _shares(figures, report, "read")
    report.equal("read: malformed headers, null with one warning", figures["warned"], figures["malformed"])
    report.equal("read: texts without a header, nothing logged", figures["silent"], figures["none"])


def _quiet_log() -> Warnings:
    """What the module warns of is counted, not shown."""
    log, warnings = logging.getLogger("documents.frontmatter"), Warnings()
    log.addHandler(warnings)
    log.propagate = False
    return warnings


def _compare(figures: Counter[str], row: dict[str, Any], title: str, keywords: Iterable[str]) -> None:
    expected = row["reader_expects"]
    figures["headers"] += 1
    figures["titles"] += title == clean_line(expected["title"] or "")
    figures["keywords"] += _normalised(keywords) == _normalised(expected["keywords"])


def _shares(figures: Counter[str], report: Report, how: str) -> None:
    for name, least in (("titles", TITLES), ("keywords", KEYWORDS)):
        share = 100 * figures[name] / max(1, figures["headers"])
        report.at_least(f"{how}: {name} as expected, of {figures['headers']} headers", share, 100 * least, "%")


def _normalised(keywords: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(normalise(clean_line(keyword)) for keyword in keywords))


def _lost(text: str, parsed: ParsedDocument, expected: object) -> int:
    """Characters that are in the file and neither in the body nor in a header that may be cut off."""
    if not text.endswith(parsed.body):
        return _solid(text)
    cut = text[: len(text) - len(parsed.body)]
    lines = [line for line in cut.split("\n") if line.strip()]
    fences = [number for number, line in enumerate(lines) if _FENCE.fullmatch(line)]
    is_header = expected is not False and fences == [0, len(lines) - 1]
    return 0 if is_header else _solid(cut)


def _uncovered(body: str, spans: Iterable[tuple[int, int]]) -> int:
    """Characters of the body in no span; spans are in the order of their beginnings."""
    at = missing = 0
    for start, end in spans:
        missing += _solid(body[at:start])
        at = max(at, end)
    return missing + _solid(body[at:])


def _solid(text: str) -> int:
    return sum(not character.isspace() for character in text)


# ---- By the running site ---------------------------------------------------------------------------------------------
def _upload_all(site: SiteProcess, folder: Path, rows: list[dict[str, Any]], report: Report) -> None:
    figures: Counter[str] = Counter()
    kept: list[tuple[dict[str, Any], int]] = []
    for row in rows:
        status, answer = _upload(site, row, (folder / row["file"]).read_bytes())
        if status in {200, 201, 202}:
            figures["accepted"] += 1
            kept.append((row, answer["id"]))
        elif 400 <= status < 500 and answer.get("code") and answer.get("detail"):
            figures["refused"] += 1
        else:
            print(f"  {row['file']}: {status} {answer}")
            figures["faults"] += 1
    site.wait_until(lambda: site.documents(status="PENDING") + site.documents(status="INDEXING") == 0,
                    seconds=600, what="all vectors", every=0.5)  # fmt: skip
    for row, document_id in kept:
        _inspect(site, figures, row, document_id, (folder / row["file"]).read_bytes())
    report.equal("site: answers that are neither accepted nor a reasoned 4xx", figures["faults"], 0)
    report.equal("site: accepted and refused together", figures["accepted"] + figures["refused"], len(rows))
    report.figure("site: refused with a reason", figures["refused"])
    report.equal("site: indexed", figures["indexed"], figures["accepted"])
    report.equal("site: given back byte for byte", figures["identical"], figures["accepted"])
    report.equal("site: characters of body text in no chunk", figures["lost"], 0)
    _shares(figures, report, "site")
    report.equal("site: malformed headers accepted, metadata null", figures["null"], figures["malformed"])


def _upload(site: SiteProcess, row: dict[str, Any], data: bytes) -> tuple[int, Any]:
    group, name = row["file"].split("/")[-2:]
    stem = name.split(".", 1)[0] + "".join(f"-{part}" for part in name.split(".")[1:])
    line = f"--{_BOUNDARY}".encode()
    form = b"\r\n".join(
        [
            line,
            b'Content-Disposition: form-data; name="category"',
            b"",
            group.encode(),
            line,
            f'Content-Disposition: form-data; name="file"; filename="{stem}.md"'.encode(),
            b"",
            data,
            line + b"--",
            b"",
        ]
    )
    return site.call("POST", "/api/v1/documents/", form, content_type=f"multipart/form-data; boundary={_BOUNDARY}")


def _inspect(site: SiteProcess, figures: Counter[str], row: dict[str, Any], document_id: int, data: bytes) -> None:
    _status, document = site.call("GET", f"/api/v1/documents/{document_id}/")
    figures["indexed"] += document["status"] == "INDEXED"
    figures["identical"] += _content(site, document_id) == data
    parsed = parse_document(decode(data).text)
    found = parsed.frontmatter
    figures["lost"] += _uncovered(parsed.body, _places(parsed.body, _chunks(site, document_id)))
    metadata = document["metadata"]
    expected = row["reader_expects"]["has_frontmatter"]
    if expected == "malformed":
        figures["malformed"] += 1
        figures["null"] += metadata is None
    elif expected is True:
        # A document without a title of its own is shown with its first heading: then nothing was expected.
        title = document["title"] if row["reader_expects"]["title"] else (found.title if found else "")
        _compare(figures, row, title, found.keywords if found and metadata == found.fields else ())


def _content(site: SiteProcess, document_id: int) -> bytes:
    address = f"{site.url}/api/v1/documents/{document_id}/content/"
    try:
        with urlopen(Request(address, headers={"Authorization": f"Bearer {site.key}"}), timeout=60) as answer:
            return bytes(answer.read())
    except HTTPError as refusal:
        return f"{refusal.code}".encode()


def _chunks(site: SiteProcess, document_id: int) -> list[str]:
    texts: list[str] = []
    page = f"/api/v1/documents/{document_id}/chunks/?page_size=200"
    while page:
        _status, answer = site.call("GET", page)
        texts += [chunk["text"] for chunk in answer["results"]]
        page = (answer["next"] or "").removeprefix(site.url)
    return texts


def _places(body: str, texts: list[str]) -> list[tuple[int, int]]:
    """Where the chunks stand in the body, in order; one that is not there has no place and covers nothing."""
    places: list[tuple[int, int]] = []
    at = 0
    for text in texts:
        start = body.find(text, at)
        if start >= 0:
            places.append((start, start + len(text)))
            at = start + 1
    return places


if __name__ == "__main__":
    raise SystemExit(main())
