"""Hot reload (DOC-9): a thread that takes in what others do to the files, within two seconds.

One web process of a machine watches, the one that holds ``DATA_DIR/watcher.lock``; when it ends, however, the next one
does. Several machines may each have a watcher: scans are one at a time on the site. Whatever changed while nobody
watched, or where the system tells of nothing (another machine's writes to a network mount), a comparison of the whole
folder finds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings
from django.db import close_old_connections, connection

from clients.folder_events import FolderEvents
from clients.interfaces import ClientError
from documents import storage
from documents.file_lock import FileLock
from documents.models import ApiDocument
from documents.names import PREFIX, path_key
from documents.region import Region
from documents.scan import scan, scan_part
from documents.touched import Touched
from documents.watch_state import COMPARE_SECONDS, remember_unwatched, remember_watched

log = logging.getLogger("documents.watcher")
RESCAN_SECONDS = 300.0
MANY = 1_000
"""More names than that at once, and the system may have lost some more: the whole folder is compared."""
_MISSING = "the folder is missing"
_LISTEN_SECONDS = 0.5
_LISTEN_CLOSELY_SECONDS = 0.1
_TAKE_OVER_SECONDS = 2.0
_PAUSE_AFTER_FAULT = 5.0
_OPEN_SECONDS = 10.0
_JOIN_SECONDS = 8.0


class FolderWatcher:
    """One thread of this process. Start and stop may be called again and again."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = FileLock(settings.DATA_DIR / "watcher.lock")
        self._begin_anew(compare=True)

    def _begin_anew(self, *, compare: bool) -> None:
        self._events: FolderEvents | None = None
        self._touched = Touched(storage.base())
        self._compare = compare
        self._compared = time.monotonic()
        self._fault = ""

    # ---- Start and stop ----------------------------------------------------------------------------------------------

    def start(self, *, compare_first: bool) -> None:
        """Begin; comes back when it listens, or when it is clear that another process does.

        ``compare_first``: compare the whole folder. Who scans it anyway starts this before: then nothing falls between
        the two.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop.clear()
        self._listening.clear()
        self._begin_anew(compare=compare_first)
        self._thread = threading.Thread(target=self._run, name="documents-watcher", daemon=True)
        self._thread.start()
        self._listening.wait(_OPEN_SECONDS)

    def stop(self, timeout: float = _JOIN_SECONDS) -> None:
        """End; what was touched and not yet taken in is found by the next start."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                log.warning("the watcher did not end within %s s", timeout)
        self._thread = None

    @property
    def watches(self) -> bool:
        """Whether this process is the one, and the system tells it of changes."""
        return self._lock.held and self._events is not None

    # ---- The thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._turn()
                except Exception as fault:  # noqa: BLE001 (degradation point: documents answer as they are known, and
                    # the whole folder is compared when the database, or the disk, is back)
                    log.warning("watcher: next try in %s s: %s: %s", _PAUSE_AFTER_FAULT, type(fault).__name__, fault)
                    self._compare = True
                    self._listening.set()
                    self._stop.wait(_PAUSE_AFTER_FAULT)
                close_old_connections()
        finally:
            self._close()
            self._lock.release()
            connection.close()

    def _turn(self) -> None:
        """One round: be the one, listen, take in."""
        if not self._is_the_one():
            self._listening.set()
            self._stop.wait(_TAKE_OVER_SECONDS)
            return
        events = self._events = self._events or self._listen()
        self._listening.set()
        if events is None:
            self._stop.wait(_LISTEN_SECONDS)
            return
        if self._compare or self._is_due(RESCAN_SECONDS if settings.EMBEDDED_WORKER else float("inf")):
            self._compare_all()
        self._hear(events)
        ready = self._touched.take()
        if ready:
            self._take_in(ready)

    def _is_the_one(self) -> bool:
        if self._lock.held:
            return True
        if not self._lock.take():
            self._compare = True  # for the day it is: nobody has watched between the other's end and then
            return False
        log.info("this process watches %s", storage.base())
        return True

    def _listen(self) -> FolderEvents | None:
        """Have the system tell of changes. Where it does not, the whole folder is compared from time to time."""
        if not storage.base().is_dir():
            self._without_events(_MISSING)
            return None
        if self._fault not in ("", _MISSING) and not self._is_due(COMPARE_SECONDS):
            return None
        try:
            events = FolderEvents(storage.base())
        except ClientError as fault:
            remember_unwatched(fault.code)
            self._without_events(str(fault))
            return None
        if self._fault:
            log.info("the folder is watched again")
            self._fault, self._compare = "", True
        remember_watched()
        return events

    def _without_events(self, fault: str) -> None:
        if fault != self._fault:
            log.warning("watcher: %s", fault)
            self._fault = fault
        if self._compare or (fault != _MISSING and self._is_due(COMPARE_SECONDS)):
            self._compare_all()

    def _hear(self, events: FolderEvents) -> None:
        try:
            changes = events.wait(_LISTEN_CLOSELY_SECONDS if self._touched else _LISTEN_SECONDS)
        except ClientError as fault:
            log.warning("watcher: %s", fault)
            self._close()
            self._compare = True
            return
        if changes.everything:
            log.info("the folder came or went: it is looked at anew")
            self._close()
            self._compare = True
        self._touched.note(changes.paths, changes.folders)

    def _close(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events = None

    # ---- Taking in ---------------------------------------------------------------------------------------------------

    def _is_due(self, seconds: float) -> bool:
        return time.monotonic() - self._compared >= seconds

    def _compare_all(self) -> None:
        self._compared = time.monotonic()
        scan()
        self._compare = False

    def _take_in(self, paths: frozenset[str]) -> None:
        if len(paths) > MANY:
            self._compare_all()
            return
        news = not_known(paths)
        if news:
            scan_part(Region(news))


def not_known(paths: Iterable[str]) -> list[str]:
    """Those of ``paths`` (relative) that are not just as their rows say. Our own renames are known by their hash; what
    is gone and was no document's, nor a folder of one, by nothing."""
    by_path = {PREFIX + path: path for path in paths if not _never_mattered(path)}
    rows = ApiDocument.objects.filter(path_key__in=[path_key(path) for path in by_path], missing_since=None)
    columns = ("file_path", "content_hash", "size", "revision", "published_revision", "status")
    known = set()
    for file_path, digest, size, revision, published, status in rows.values_list(*columns):
        settled = revision == published and status != ApiDocument.Status.DELETING
        if settled and file_path in by_path and _is_file(storage.base() / by_path[file_path], digest, size):
            known.add(by_path[file_path])
    return sorted(set(by_path.values()) - known)


def _never_mattered(path: str) -> bool:
    if path.lower().endswith(".md") or os.path.lexists(storage.base() / path):
        return False
    below = f"{PREFIX}{unicodedata.normalize('NFC', path)}/"
    return not ApiDocument.objects.filter(file_path__startswith=below).exists()


def _is_file(path: Path, digest: str, size: int) -> bool:
    try:
        return not path.is_symlink() and path.stat().st_size == size and storage.hash_of_file(path) == digest
    except OSError:
        return False


_watcher: FolderWatcher | None = None
_watcher_lock = threading.Lock()


def get_watcher() -> FolderWatcher:
    """The one watcher of this process (started by the site, not by this call)."""
    global _watcher
    with _watcher_lock:
        if _watcher is None:
            _watcher = FolderWatcher()
        return _watcher
