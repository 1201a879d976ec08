"""What was asked of the site and what it answered: one line each, on disk before the request goes out.

Each document is one client's, who asks for one thing after the other: what the site may hold of it is what the last
answer said, and whatever was asked since without an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Version = int
ABSENT: Version = 0


def code_of(name: str, version: Version) -> str:
    """The keyword that this version alone has."""
    return f"{name.upper().replace('-', '_')}_{version}X"


def text_of(name: str, version: Version) -> bytes:
    """The bytes of a version: a header, a few sections, its own words."""
    code = code_of(name, version)
    parts = "\n\n".join(
        f"## Part {part} of {code}\n\nRestart the consumer group of {code} and watch its lag. " + f"step{part} " * 40
        for part in range(1 + version % 4)
    )
    return f"---\ntitle: Note {name}\nkeywords: [{code}]\n---\n{parts}\n".encode()


def digest_of(name: str, version: Version) -> str:
    """SHA-256 of that text."""
    return hashlib.sha256(text_of(name, version)).hexdigest()


class Journal:
    """Appends lines that last: each is synced before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._number = 0

    def sent(self, operation: str, name: str, version: Version) -> int:
        """A request that is about to go out; its number."""
        with self._lock:
            self._number += 1
            number = self._number
        self._line({"n": number, "op": operation, "name": name, "version": version})
        return number

    def answered(self, number: int, status: int, **more: Any) -> None:
        """The answer that came."""
        self._line({"n": number, "status": status, **more})

    def note(self, what: str, /, **more: Any) -> None:
        """Something else worth keeping: a kill, a surprise."""
        self._line({"note": what, **more})

    def _line(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more comes."""
        self._file.close()

    def history(self) -> History:
        """What it says so far."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return History.of(json.loads(line) for line in lines)


@dataclass
class History:
    """The journal read: for each document the versions that the site may hold, ``ABSENT`` for none."""

    possible: dict[str, set[Version]] = field(default_factory=dict)
    acknowledged: int = 0  # uploads, replacements and deletions; what others wrote into the folder is not counted
    unanswered: int = 0
    notes: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[dict[str, Any]]) -> History:
        """From its lines, in order."""
        history = cls()
        open_ones: dict[int, tuple[dict[str, Any], set[Version]]] = {}
        for entry in entries:
            if "note" in entry:
                history.notes.append(entry)
            elif "op" in entry:
                before = history.possible.get(entry["name"], {ABSENT})
                open_ones[entry["n"]] = (entry, before)
                history.possible[entry["name"]] = before | {entry["version"]}
            else:
                asked, before = open_ones.pop(entry["n"])
                name = asked["name"]
                if entry["status"] < 400:
                    history.possible[name] = {asked["version"]}
                    history.acknowledged += asked["op"] != "disk"
                elif entry["status"] < 500 or entry.get("nothing_kept"):
                    history.possible[name] = before  # it was refused: nothing of it may be there
        history.unanswered = len(open_ones)
        return history

    def told(self, what: str) -> list[dict[str, Any]]:
        """The notes of one kind."""
        return [note for note in self.notes if note["note"] == what]
