"""Clients that upload, replace, delete and ask while the site is killed under them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote

from bench.reliability.journal import ABSENT, Journal, Version, code_of, digest_of, text_of
from bench.site_process import SiteProcess

BOUNDARY = "kbsite-reliability-boundary"
PAUSE_SECONDS = 0.1
"""Between two requests of one client, on average: the machine is to have time for being killed."""
NO_ANSWER = (URLError, OSError, HTTPException, ValueError)


def upload(site: SiteProcess, category: str, name: str, data: bytes) -> tuple[int, Any]:
    """``POST /documents/``: status and answer."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="category"\r\n\r\n{category}\r\n'
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}.md"\r\n'
        "Content-Type: text/markdown\r\n\r\n"
    )
    body = head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()
    return site.call("POST", "/api/v1/documents/", body, content_type=f"multipart/form-data; boundary={BOUNDARY}")


def path_of(name: str) -> str:
    """Where the document of that name lies; its domain is its client's."""
    return f"knowledge_base/{name.partition('-')[0]}/{name}.md"


class Person(threading.Thread):
    """One client with documents of its own. It never has two requests on the way."""

    def __init__(
        self, number: int, choose: Callable[[random.Random], SiteProcess], journal: Journal, seed: int
    ) -> None:
        super().__init__(name=f"person-{number}", daemon=True)
        self.category = f"person{number}"
        self._choose = choose
        self._journal = journal
        self._chance = random.Random(seed * 1000 + number)
        self._names = [f"{self.category}-{n}" for n in range(8)]
        self._versions = dict.fromkeys(self._names, 0)
        self._possible: dict[str, set[Version]] = {name: {ABSENT} for name in self._names}
        self._look_back = True
        self.stopping = threading.Event()
        self.acknowledged = 0
        self.checked = 0

    def run(self) -> None:
        while not self.stopping.is_set():
            time.sleep(self._chance.uniform(0.0, 2 * PAUSE_SECONDS))
            try:
                if self._look_back:
                    self._compare_all()
                    self._look_back = False
                self._one()
            except RuntimeError as refusal:
                self._journal.note("refused", op="lookup", answer=str(refusal)[:300])
            except NO_ANSWER:
                self._look_back = True
                time.sleep(0.05)

    def _one(self) -> None:
        site, name = self._choose(self._chance), self._chance.choice(self._names)
        if ABSENT not in self._possible[name] and self._chance.random() < 0.3:
            self._remove(site, name)
        else:
            self._put(site, name)
        if self._chance.random() < 0.5:
            self._ask(self._choose(self._chance), name)

    def _put(self, site: SiteProcess, name: str) -> None:
        self._versions[name] += 1
        version, data = self._versions[name], text_of(name, self._versions[name])
        operation = "upload" if ABSENT in self._possible[name] else "replace"
        self._write(operation, name, version, lambda: upload(site, self.category, name, data))

    def _remove(self, site: SiteProcess, name: str) -> None:
        document = self._listed(site).get(path_of(name))
        if document is None:
            self._surprise("lost", name, "a document that was acknowledged is not listed")
            return
        address = f"/api/v1/documents/{document['id']}/"
        self._write("delete", name, ABSENT, lambda: site.call("DELETE", address))

    def _write(self, operation: str, name: str, version: Version, call: Callable[[], tuple[int, Any]]) -> None:
        before = self._possible[name]
        self._possible[name] = before | {version}
        number = self._journal.sent(operation, name, version)
        status, answer = call()
        nothing_kept = isinstance(answer, dict) and answer.get("code") == "save_failed"
        self._journal.answered(number, status, **({"nothing_kept": True} if nothing_kept else {}))
        if status < 400:
            self._possible[name] = {version}
            self.acknowledged += 1
        elif status < 500 or nothing_kept:
            self._possible[name] = before
        if status >= 400 and not nothing_kept:
            self._journal.note("refused", name=name, op=operation, status=status, answer=str(answer)[:300])

    # ---- What must hold at each moment -------------------------------------------------------------------------------
    def _listed(self, site: SiteProcess) -> dict[str, Any]:
        status, answer = site.call("GET", f"/api/v1/documents/?category={quote(self.category)}&page_size=200")
        if status != 200:
            raise ValueError(status)
        return {document["file_path"]: document for document in answer["results"]}

    def _compare_all(self) -> None:
        """After a kill: each document is one that was acknowledged, or asked for since."""
        listed = self._listed(self._choose(self._chance))
        for name in self._names:
            document = listed.get(path_of(name))
            allowed = {"" if version == ABSENT else digest_of(name, version) for version in self._possible[name]}
            there = document["content_hash"] if document else ""
            if there not in allowed:
                kind = "back" if self._possible[name] == {ABSENT} else "lost"
                self._surprise(kind, name, f"listed as {there[:12] or 'absent'}, possible {self._possible[name]}")
        self.checked += len(self._names)

    def _ask(self, site: SiteProcess, name: str) -> None:
        """An exact lookup agrees with what was answered last."""
        possible = self._possible[name]
        version = self._versions[name]
        answer = site.lookup(code_of(name, version))
        found = [answer[role]["source"] for role in ("primary", "supplement") if answer[role]]
        self.checked += 1
        if possible == {version} and answer["relevanceLevel"] != "PRECISE":
            self._surprise("lost", name, f"version {version} was acknowledged and is not found: {answer}")
        if possible == {ABSENT} and path_of(name) in found:
            self._surprise("back", name, "its deletion was acknowledged and a lookup returns it")

    def _surprise(self, kind: str, name: str, what: str) -> None:
        self._journal.note(kind, name=name, what=what)


class Neighbour(threading.Thread):
    """Somebody who writes files into the folder, past the site."""

    def __init__(self, folder: Path, journal: Journal, seed: int) -> None:
        super().__init__(name="neighbour", daemon=True)
        self._folder = folder / "disk"
        self._journal = journal
        self._chance = random.Random(seed)
        self._versions: dict[str, int] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        while not self.stopping.wait(self._chance.uniform(0.3, 1.2)):
            # Mostly a text that is edited, now and then a new one.
            self.write(f"disk-{self._chance.randrange(4 + len(self._versions) // 2)}")

    def write(self, name: str) -> None:
        """A new file, or another text in a known one; there in one step."""
        version = self._versions[name] = self._versions.get(name, 0) + 1
        number = self._journal.sent("disk", name, version)
        fresh = self._folder.parent / ".neighbour"
        fresh.write_bytes(text_of(name, version))
        fresh.replace(self._folder / f"{name}.md")
        self._journal.answered(number, 200)
