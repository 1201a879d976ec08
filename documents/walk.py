"""Walking the knowledge base folder: which files are documents, which are not and why. No database here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from documents.errors import DocumentError
from documents.names import PREFIX, check_scanned_path, path_key
from documents.region import Region

_LONGEST_WALK = 40  # folders inside folders; MAX_PATH ends earlier, a loop of mounts does not


@dataclass(frozen=True)
class FoundFile:
    """A document's file: ``path`` as the disk spells it, the rest as the row keeps it."""

    path: Path
    file_path: str
    category: str
    file_name: str
    key: str

    @property
    def is_spelled_so(self) -> bool:
        """Whether the disk spells the name in the form (NFC) that the row keeps."""
        return self.path.as_posix().endswith(self.file_path.removeprefix(PREFIX))


@dataclass(frozen=True)
class Refused:
    """A ``.md`` file, or a folder, that is not taken. ``unreadable``: what lies at or below it cannot be seen now."""

    relative: str
    reason: str
    unreadable: bool = False


def walk(base: Path, within: Region | None = None) -> Iterator[FoundFile | Refused]:
    """Every ``.md`` file below ``base`` (of it, ``within`` this part) in order of its path. Dot-folders are skipped,
    links that leave are refused.

    Raises ``OSError`` where the base itself cannot be read.
    """
    real_base = os.path.realpath(base)
    yield from _folder(base, "", _Walk(real_base, within), depth=0)


@dataclass(frozen=True)
class _Walk:
    real_base: str
    within: Region | None

    def goes_to(self, relative: str) -> bool:
        return self.within is None or self.within.leads_to(relative)


def _folder(folder: Path, prefix: str, way: _Walk, depth: int) -> Iterator[FoundFile | Refused]:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith(".") or not way.goes_to(prefix + entry.name):
            continue
        relative = prefix + entry.name
        try:
            yield from _entry(entry, relative, way, depth)
        except OSError as fault:
            yield Refused(_printable(relative), f"cannot be read: {fault.strerror or fault}", unreadable=True)


def _entry(entry: os.DirEntry[str], relative: str, way: _Walk, depth: int) -> Iterator[FoundFile | Refused]:
    if entry.is_symlink() and entry.is_dir():
        yield Refused(_printable(relative), "a symbolic link to a folder is not followed")
    elif entry.is_dir(follow_symlinks=False):
        if depth >= _LONGEST_WALK:
            yield Refused(_printable(relative), "too many folders inside folders")
        else:
            yield from _folder(Path(entry.path), f"{relative}/", way, depth + 1)
    elif entry.name.lower().endswith(".md"):
        yield _file(entry, relative, way.real_base)


def _file(entry: os.DirEntry[str], relative: str, real_base: str) -> FoundFile | Refused:
    if entry.is_symlink() and not os.path.realpath(entry.path).startswith(real_base + os.sep):
        return Refused(_printable(relative), "a symbolic link that leaves the knowledge base folder is not followed")
    if not entry.is_file():
        return Refused(_printable(relative), "not a regular file")
    try:
        scanned = check_scanned_path(relative)
    except DocumentError as refusal:
        return Refused(_printable(relative), refusal.detail)
    return FoundFile(
        Path(entry.path), scanned.file_path, scanned.category, scanned.file_name, path_key(scanned.file_path)
    )


def _printable(relative: str) -> str:
    """A name on disk may hold anything; a report and a log line may not."""
    return relative if relative.isprintable() else ascii(relative)[1:-1]
