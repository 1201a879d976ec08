"""Reconciling the folder with the rows: which files differ, and having the scan take them in.

The scan hashes every file. A pass of each minute reads only those whose stamp (size, times, inode) moved since this
process read them last; a full pass reads all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import F

from documents import storage
from documents.models import ApiDocument
from documents.names import PREFIX
from documents.reconcile_findings import Look
from documents.scan import scan
from documents.scan_report import ScanReport, scan_state
from documents.walk import FoundFile, Refused, walk

_Stamp = tuple[int, int, int, int]
_ROW = ("pk", "file_path", "content_hash", "revision", "published_revision", "status", "missing_since")
_DELETING = ApiDocument.Status.DELETING


class _Read:
    """What this process read of the folder: hashes by stamp, and the files that the scan refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: dict[str, tuple[_Stamp, str]] = {}
        self._refused: dict[str, _Stamp] = {}

    def hash_of(self, file: FoundFile, *, anew: bool) -> str:
        """SHA-256 of the file; ``anew`` reads it whatever its stamp says. Raises ``OSError``."""
        stamp = _stamp(file)
        known = self._hashes.get(file.file_path)
        if known is not None and known[0] == stamp and not anew:
            return known[1]
        digest = storage.hash_of_file(file.path)
        with self._lock:
            self._hashes[file.file_path] = (stamp, digest)
        return digest

    def refuse(self, file: FoundFile) -> None:
        """The scan did not take it, and will not until it changes."""
        with self._lock:
            self._refused[file.file_path] = _stamp(file)

    def is_refused(self, file: FoundFile) -> bool:
        """Whether it was refused as it is now."""
        return self._refused.get(file.file_path) == _stamp(file)

    def keep_only(self, paths: Iterable[str]) -> None:
        """Forget files that are no longer there."""
        there = set(paths)
        with self._lock:
            self._hashes = {path: known for path, known in self._hashes.items() if path in there}
            self._refused = {path: known for path, known in self._refused.items() if path in there}


_read = _Read()


@dataclass
class _Differences:
    """Documents' paths by what is the matter with their file."""

    new: dict[str, FoundFile] = field(default_factory=dict)
    changed: dict[str, FoundFile] = field(default_factory=dict)
    back: dict[str, FoundFile] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.back or self.missing)


def files(look: Look) -> None:
    """Files without a document, changed, missing and returned ones; all are the scan's to take in (DOC-7)."""
    held_back = scan_state().status != "ok"
    if not storage.base().is_dir():
        has_rows = ApiDocument.objects.exclude(status=_DELETING).exists()
        if has_rows:
            _scan(look, needed=not held_back)
            look.note("files_vanished", str(storage.base()), mended=False, count=_documents())
        return
    before = _differences(look)
    # What is held back already is not looked at again each minute, until something else happens.
    known = held_back and bool(before.missing) and not (before.new or before.changed or before.back)
    report = _scan(look, needed=(bool(before) or held_back) and not known)
    _tell(look, before, report, held_back=held_back)


def _scan(look: Look, *, needed: bool) -> ScanReport | None:
    look.keep_turn()
    return scan(dry_run=not look.mend) if needed else None


def _documents() -> int:
    return ApiDocument.objects.exclude(status=_DELETING).filter(missing_since=None).count()


def _differences(look: Look) -> _Differences:
    found, unseen = _walk()
    _read.keep_only(found)
    differences = _Differences()
    rows = {row[1]: row for row in ApiDocument.objects.values_list(*_ROW).iterator(chunk_size=2_000)}
    for path, file in found.items():
        look.keep_turn()
        if path not in rows:
            if file.path.exists() and (look.full or not _read.is_refused(file)):
                differences.new[path] = file
            continue
        _, _, digest, revision, published, status, missing = rows[path]
        if status == _DELETING or revision != published:
            continue
        if missing is not None:
            differences.back[path] = file
        elif _differs(file, digest, anew=look.full) and _still(path, digest):
            differences.changed[path] = file
    for path, (_pk, _path, digest, revision, published, status, missing) in rows.items():
        settled = revision == published and status != _DELETING and missing is None
        if settled and path not in found and not path.startswith(unseen) and _still(path, digest) and not _there(path):
            differences.missing.append(path)
    return differences


def _walk() -> tuple[dict[str, FoundFile], tuple[str, ...]]:
    """Files by path, and the prefixes of what cannot be seen now. As the scan has it, of two spellings the exact."""
    found: dict[str, FoundFile] = {}
    unseen: list[str] = []
    try:
        for item in walk(storage.base()):
            if isinstance(item, Refused):
                unseen += [PREFIX + item.relative] if item.unreadable else []
            elif item.file_path not in found or item.is_spelled_so:
                found[item.file_path] = item
    except OSError:  # the scan says so
        unseen.append(PREFIX)
    return found, tuple(unseen)


def _differs(file: FoundFile, digest: str, *, anew: bool) -> bool:
    try:
        return _read.hash_of(file, anew=anew) != digest
    except OSError:  # gone since the walk, or unreadable: the scan says which
        return False


def _still(path: str, digest: str) -> bool:
    """Whether the row is as it was read: no upload or deletion came while the folder was walked."""
    rows = ApiDocument.objects.filter(file_path=path, content_hash=digest, missing_since=None)
    return rows.filter(published_revision=F("revision")).exclude(status=_DELETING).exists()


def _there(path: str) -> bool:
    try:
        return os.path.lexists(storage.locate(path))
    except storage.UnsafePath:
        return False


def _stamp(file: FoundFile) -> _Stamp:
    try:
        stat = file.path.stat()
    except OSError:
        return (0, 0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


# ---- After the scan --------------------------------------------------------------------------------------------------
def _tell(look: Look, before: _Differences, report: ScanReport | None, *, held_back: bool) -> None:
    refused = dict(report.skipped) if report is not None else {}
    for path, file in before.new.items():
        reason = refused.get(path)
        if reason is not None:
            _read.refuse(file)
            look.note("file_refused", path, mended=False, reason=reason)
        else:
            look.note("file_new", path, mended=_has_row(path) or not file.path.exists())
    for path, file in before.changed.items():
        look.note("file_changed", path, mended=_is_taken(path, file))
    for path, file in before.back.items():
        look.note("file_back", path, mended=_is_taken(path, file))
    vanished = report.held_back if report is not None else len(before.missing) if held_back else 0
    if vanished:
        look.note("files_vanished", str(storage.base()), mended=False, count=vanished)
        return
    for path in before.missing:
        shown = ApiDocument.objects.filter(file_path=path, missing_since=None).exclude(status=_DELETING)
        look.note("file_missing", path, mended=_there(path) or not shown.exists())


def _has_row(path: str) -> bool:
    return ApiDocument.objects.filter(file_path=path).exists()


def _is_taken(path: str, file: FoundFile) -> bool:
    row = ApiDocument.objects.filter(file_path=path).values_list("content_hash", "missing_since").first()
    if row is None or row[1] is not None:
        return row is None
    return not _differs(file, row[0], anew=False)
