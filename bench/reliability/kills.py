"""The site is killed at each place and at random moments while people write to it; then file, row, keyword index and
vectors are compared with what was answered."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.reliability.journal import ABSENT, History, Journal, code_of, digest_of
from bench.reliability.people import Neighbour, Person, path_of
from bench.reliability.stacks import EmbeddedStack, FleetStack

IN_TRAFFIC = (
    "upload.temporary_written", "upload.before_commit", "upload.after_commit", "upload.after_publish",
    "publish.history_kept", "publish.renamed", "publish.after_commit", "withdraw.before_commit",
    "index.claimed", "index.embedded", "index.upserted", "index.before_commit", "index.after_commit",
    "delete.marked", "delete.vectors_removed", "delete.history_kept", "delete.unlinked", "delete.after_commit",
    "absorb.before_commit", "scan.before_commit", "domain.before_write",
)  # fmt: skip
AT_START = (
    "scan.looked", "sweep.published", "reconcile.staged", "reconcile.files", "reconcile.deletions", "reconcile.leases",
    "reconcile.domains", "reconcile.counter", "reconcile.earlier_revisions", "reconcile.vectors_and_chunks",
    "reconcile.terms", "reconcile.keyword_index",
)  # fmt: skip
Killable = EmbeddedStack | FleetStack
_REACHED_SECONDS = 8.0
FAULTS = (
    "acknowledged and lost", "deleted and back", "orphans: files, rows, vectors, chunks, staged files", "not INDEXED",
    "answers that were errors", "found by a second reconcile",
)  # fmt: skip


@dataclass
class Figures:
    """What a run came to."""

    seconds: float = 0.0
    places: Counter[str] = field(default_factory=Counter)
    random_kills: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    checked: int = 0
    lost: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    not_indexed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    mended: int = 0
    alone: bool = True
    temporary: list[str] = field(default_factory=list)
    found_after: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """At places and at random moments."""
        return sum(self.places.values()) + self.random_kills

    def faults(self) -> dict[str, list[str]]:
        """All that must not be, by its name; empty where all is well."""
        found = (self.lost, self.back, self.orphans, self.not_indexed, self.refused, self.found_after)
        return {name: lines for name, lines in zip(FAULTS, found, strict=True) if lines}


class Run:
    """People at work on one stack, and what kills it."""

    def __init__(self, stack: Killable, *, people: int = 4, seed: int = 1) -> None:
        self.stack = stack
        self.journal = Journal(stack.folder / "journal.jsonl")
        self._chance = random.Random(seed)
        self._people = [Person(n, lambda chance: chance.choice(stack.sites), self.journal, seed) for n in range(people)]
        base = stack.folder / "knowledge_base"
        self._neighbour = Neighbour(base, self.journal, seed)
        self.figures = Figures(alone=isinstance(stack, EmbeddedStack))

    def go(self, *, kills: int, acknowledged: int) -> Figures:
        """So many kills and at least so many acknowledged writes, then one reconcile and the comparison."""
        began = time.monotonic()
        self.stack.start()
        for thread in (*self._people, self._neighbour):
            thread.start()
        places = self._in_turn()
        while self.figures.kills < kills:
            if self._chance.random() < 0.7:
                self._kill_at(next(places))
            else:
                self._kill_sometime()
        self._until_acknowledged(acknowledged)
        self._end_traffic()
        self._compare()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _in_turn(self) -> Any:
        while True:
            places = [*IN_TRAFFIC, *AT_START]
            self._chance.shuffle(places)
            yield from places

    # ---- Killing -----------------------------------------------------------------------------------------------------
    def _kill_at(self, place: str) -> None:
        points, hit = self.stack.points, self.stack.points / f"{place}.hit"
        if place == "withdraw.before_commit":
            (points / "publish.history_kept").write_text("full")
        (points / place).write_text("kill")
        if place in AT_START:
            self.stack.restart_into(hit.exists)
        deadline = time.monotonic() + _REACHED_SECONDS
        while not hit.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        reached = hit.exists()
        for left in points.iterdir():
            left.unlink(missing_ok=True)
        if reached:
            self.figures.places[place] += 1
            self.journal.note("kill", place=place)
            time.sleep(0.05)
        self.stack.revive()
        if not reached:
            self.journal.note("not reached", place=place)

    def _kill_sometime(self) -> None:
        time.sleep(self._chance.uniform(0.0, 1.5))
        who = self.stack.kill(self._chance)
        self.figures.random_kills += 1
        self.journal.note("kill", place="random", process=who)
        self.stack.revive()

    def _until_acknowledged(self, wanted: int) -> None:
        deadline = time.monotonic() + 300
        while sum(person.acknowledged for person in self._people) < wanted and time.monotonic() < deadline:
            time.sleep(0.1)

    def _end_traffic(self) -> None:
        for person in self._people:
            person.stopping.set()
        self._neighbour.stopping.set()
        for thread in (*self._people, self._neighbour):
            thread.join(130)

    # ---- Comparing ---------------------------------------------------------------------------------------------------
    def _compare(self) -> None:
        self.stack.inspect("age")  # leases of killed processes are over, and so is the patience with young leftovers
        self._settle()
        self.figures.mended = int(self.stack.reconcile()["mended"])
        self._settle()
        after = self.stack.reconcile("--dry-run")
        self.figures.found_after = [f"{one['kind']}: {one['subject']}: {one['what']}" for one in after["findings"]]
        self._ask_all()
        self.stack.stop()
        self.journal.close()
        history = self.journal.history()
        figures = self.figures
        figures.acknowledged, figures.unanswered = history.acknowledged, history.unanswered
        figures.checked += sum(person.checked for person in self._people)
        figures.lost += [f"{note['name']}: {note['what']}" for note in history.told("lost")]
        figures.back += [f"{note['name']}: {note['what']}" for note in history.told("back")]
        figures.refused = [str(note) for note in history.told("refused")]
        judge(self.stack.inspect(), history, figures)

    def _settle(self, seconds: float = 60.0) -> None:
        site = self.stack.sites[0]
        site.wait_until(
            lambda: not any(site.documents(status=status) for status in ("PENDING", "INDEXING", "DELETING")),
            seconds=seconds, what="all settled", every=0.2,
        )  # fmt: skip

    def _ask_all(self) -> None:
        """Each document by its keyword, on each process; a deleted one by the keyword of every version it had."""
        history = self.journal.history()
        for name, possible in history.possible.items():
            for site in self.stack.sites:
                self.figures.checked += 1
                versions = sorted(possible - {ABSENT}) or [1, 2, 3]
                answers = [site.lookup(code_of(name, version)) for version in versions]
                found = [a["relevanceLevel"] == "PRECISE" and a["primary"]["source"] == path_of(name) for a in answers]
                if ABSENT not in possible and not any(found):
                    self.figures.lost.append(f"{name}: no lookup finds any of {sorted(possible)}")
                if possible == {ABSENT} and any(found):
                    self.figures.back.append(f"{name}: a lookup returns it at the end")


def judge(seen: dict[str, Any], history: History, figures: Figures) -> None:
    """What lies in the stores against what was answered."""
    rows = {row["file_path"]: row for row in seen["rows"]}
    for name, possible in history.possible.items():
        row, data = rows.get(path_of(name)), seen["files"].get(path_of(name))
        allowed = {digest_of(name, version) for version in possible - {ABSENT}}
        if possible == {ABSENT} and (row or data):
            figures.back.append(f"{name}: deleted, and there is {row or data}")
        elif ABSENT not in possible and (not row or row["content_hash"] not in allowed or data not in allowed):
            figures.lost.append(f"{name}: possible {sorted(possible)}, row {row}, file {data}")
        elif row and (row["content_hash"] not in allowed or row["content_hash"] != data):
            figures.lost.append(f"{name}: half there: {row}, file {data}")
    _orphans(seen, history, figures)
    figures.not_indexed += [f"{path}: {row['status']} {row['status_reason']}" for path, row in rows.items()
                            if (row["status"], row["indexed_revision"]) != ("INDEXED", row["revision"])]  # fmt: skip


def _orphans(seen: dict[str, Any], history: History, figures: Figures) -> None:
    rows = {row["file_path"]: row for row in seen["rows"]}
    known = {path_of(name) for name in history.possible}
    figures.orphans += [f"file without a row: {path}" for path in seen["files"].keys() - rows.keys()]
    figures.orphans += [f"row without a file: {path}" for path in rows.keys() - seen["files"].keys()]
    figures.orphans += [f"nobody's document: {path}" for path in rows.keys() - known]
    # Of several processes none knows whether another is about to commit it: only after a day it is nobody's.
    ever = {str(pk) for pk in [*seen["deleted"], *(row["pk"] for row in seen["rows"])]}
    figures.temporary += [name for name in seen["staged"] if not figures.alone and name.partition(".")[0] not in ever]
    figures.orphans += [f"staged: {name}" for name in seen["staged"] if name not in figures.temporary]
    wanted = {(row["pk"], row["revision"]): row["chunk_count"] for row in seen["rows"]}
    for kind in ("vectors", "chunks"):
        there = {(pk, revision): number for pk, revision, number in seen[kind]}
        if there != wanted:
            differs = {key for key in there.keys() | wanted.keys() if there.get(key) != wanted.get(key)}
            figures.orphans += [f"{kind} {key}: {there.get(key, 0)} for {wanted.get(key, 0)}" for key in differs]
    # Bytes that a crash kept and recorded nowhere are adopted when they are older; whose they are must be known.
    ids = {str(row["pk"]) for row in seen["rows"]} | {name.partition(".")[0] for name in seen["kept_with_row"]}
    strays = [name for name in seen["kept_without_row"] if name.partition(".")[0] not in ids]
    figures.orphans += [f"nobody's kept bytes: {name}" for name in strays]
    figures.orphans += [f"a row without its kept bytes: {name}" for name in seen["rows_without_kept"]]
