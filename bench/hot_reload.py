"""How soon what others do to files is found: a running site, its folder, its API. Target: 2 s (DOC-9).

`python -m bench.hot_reload`; `--documents N` lie in the folder beside those that are changed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.report import Report, percentile
from bench.site_process import SiteProcess

TARGET_SECONDS = 2.0
PATIENCE = 60.0
CHECKED_OUT = 300


def write(folder: Path, name: str, keyword: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\ntitle: {name}\nkeywords: [{keyword}]\n---\nWhat {keyword} means and what to do.\n")
    return path


def soon(site: SiteProcess, keyword: str, path: str, since: float) -> float:
    """Seconds from ``since`` until a lookup of ``keyword`` finds the document at ``path``."""

    def found() -> bool:
        answer = site.lookup(keyword)
        return answer["relevanceLevel"] == "PRECISE" and str(answer["primary"]["source"]).endswith(path)

    site.wait_until(found, seconds=PATIENCE, what=f"{keyword} at {path}", every=0.02)
    return time.monotonic() - since


def hidden(site: SiteProcess, path: str, since: float) -> float:
    """Seconds from ``since`` until the file at ``path`` is said to be missing (lookups miss it from the first)."""

    def said() -> bool:
        listed = site.call("GET", "/api/v1/documents/?category=moved&page_size=100")[1]["results"]
        return any(one["file_path"].endswith(path) and one["status_reason"] == "file missing" for one in listed)

    site.wait_until(said, seconds=PATIENCE, what=f"{path} is missing", every=0.02)
    return time.monotonic() - since


def one_file(site: SiteProcess, base: Path, number: int) -> dict[str, float]:
    """A file's life on disk: seconds for each event."""
    times: dict[str, float] = {}
    keyword, edited, name = f"ADDED_{number}X", f"EDITED_{number}X", f"bench/file-{number}.md"
    began = time.monotonic()
    write(base, name, keyword)
    times["added"] = soon(site, keyword, name, began)
    began = time.monotonic()
    write(base, f"{name}.tmp", edited).replace(base / name)
    times["edited (saved by a rename)"] = soon(site, edited, name, began)
    moved = f"moved/file-{number}.md"
    (base / "moved").mkdir(exist_ok=True)
    began = time.monotonic()
    (base / name).rename(base / moved)
    times["moved to another folder"] = soon(site, edited, moved, began)
    began = time.monotonic()
    (base / moved).unlink()
    times["removed"] = hidden(site, moved, began)
    return times


def checkout(site: SiteProcess, base: Path) -> float:
    """`git checkout` of another state of 300 files: seconds from its end until the last of them is found."""

    def git(*arguments: str) -> None:
        names = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *arguments], cwd=base, check=True, capture_output=True)

    def commit(state: str) -> None:
        for number in range(CHECKED_OUT):
            write(base, f"git/{number}.md", f"{state}_{number}X")
        git("add", "git")
        git("commit", "-m", state)

    git("init", "--initial-branch", "one")
    commit("ONE")
    git("checkout", "-b", "two")
    commit("TWO")
    for number in (0, CHECKED_OUT - 1):
        soon(site, f"TWO_{number}X", f"git/{number}.md", time.monotonic())
    git("checkout", "one")
    began = time.monotonic()
    return max(soon(site, f"ONE_{number}X", f"git/{number}.md", began) for number in range(0, CHECKED_OUT, 23))


def measure(documents: int, rounds: int) -> dict[str, list[float]]:
    folder = Path(tempfile.mkdtemp(prefix="kbsite-bench-"))
    base = folder / "knowledge_base"
    try:
        for number in range(documents):
            write(base, f"domain-{number % 20}/{number}.md", f"KEPT_{number}X")
        base.mkdir(exist_ok=True)
        times: dict[str, list[float]] = {}
        with SiteProcess(folder) as site:
            site.wait_until(lambda: site.documents(status="INDEXED") == documents, seconds=900, what="INDEXED", every=1)
            for number in range(rounds):
                for event, seconds in one_file(site, base, number).items():
                    times.setdefault(event, []).append(seconds)
            times[f"git checkout of {CHECKED_OUT} files"] = [checkout(site, base)]
        return times
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hot_reload", description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    report = Report(f"Changes on disk, beside {given.documents:,} documents: seconds until a lookup follows")
    report.begin()
    for event, seconds in measure(given.documents, given.rounds).items():
        report.figure(f"{event}: median", percentile(seconds, 0.5), "s")
        report.at_most(f"{event}: slowest of {len(seconds)}", max(seconds), TARGET_SECONDS, "s")
    return report.code()


if __name__ == "__main__":
    raise SystemExit(main())
