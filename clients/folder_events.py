"""What the operating system tells of changes below one folder (watchfiles: inotify, FSEvents, ReadDirectoryChanges)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from clients.interfaces import ClientError

LIMIT = "watch_limit"
FAILED = "watch_failed"
_MODIFIED = 2
_STEP_MS = 20
_GROUP_MS = 100
_ATTEMPTS = 5


@dataclass(frozen=True)
class Changes:
    """Names below the folder, relative and with ``/``; ``folders`` are those that came or went and are folders, were
    ones, or may have been (they came and went between two looks). ``everything``: look at it all."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    everything: bool = False


class FolderEvents:
    """Tells which names changed below ``base``. Folders whose name begins with a dot are not looked into, links are not
    followed; folders that are made later are watched too. Not for several threads.

    The library could watch the whole tree by itself; it would follow links out of it, and watch every folder of a
    ``.git``. So each folder is named to it, and the list is made anew when a folder comes or goes.

    Raises :class:`ClientError` with ``watch_limit`` where the system allows no more watches, ``watch_failed`` else.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._root = os.path.realpath(base)
        self._identity = _identity(self._root)
        self._folders: frozenset[str] = frozenset()
        self._notify: RustNotify | None = None
        if self._identity is None:
            raise ClientError(f"{base} is not there", code=FAILED, retryable=True)
        self._watch_folders()

    @property
    def folders(self) -> frozenset[str]:
        """The folders that are watched, relative; ``''`` is the base."""
        return frozenset(self._relative(folder) for folder in self._folders)

    def wait(self, seconds: float) -> Changes:
        """What changed since the last call; comes back at once where something did, else after ``seconds``.

        Raises :class:`ClientError` where new folders cannot be watched; what changed is told by a look at everything.
        """
        if self._notify is None:
            raise ClientError("the folder is not watched any more", code=FAILED)
        raw = self._notify.watch(_GROUP_MS, _STEP_MS, max(1, int(seconds * 1000)), None)
        if self._is_another():
            return Changes(everything=True)
        if isinstance(raw, str):
            return Changes()
        known = self._folders
        folders = _of_folders(raw, known)
        if folders:
            # Watched before anyone looks into them: nothing falls in between.
            raw = raw | self._watch_folders()
            known = known | self._folders
            folders |= _of_folders(raw, known)
        below = {path for _kind, path in raw if path not in known} | folders
        return Changes(
            paths=frozenset(self._relative(path) for path in below if path != self._root),
            folders=frozenset(self._relative(path) for path in folders | {path for path in below if _is_gone(path)}),
            everything=self._root in folders,
        )

    def is_current(self) -> bool:
        """Whether the base is still the folder that is watched: not unmounted, not moved away, not another's place."""
        return not self._is_another()

    def close(self) -> None:
        """End; may be called again."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def _is_another(self) -> bool:
        return os.path.realpath(self._base) != self._root or _identity(self._root) != self._identity

    def _relative(self, path: str) -> str:
        return path[len(self._root) :].strip(os.sep).replace(os.sep, "/")

    def _watch_folders(self) -> set[tuple[int, str]]:
        """Watch the folders that there are now; again while some come and go meanwhile. What the former watches had
        still to tell is the answer."""
        late: set[tuple[int, str]] = set()
        for _attempt in range(_ATTEMPTS):
            folders = frozenset(_folders(self._root))
            try:
                fresh = RustNotify(sorted(folders), False, False, 0, False, False)
            except FileNotFoundError:
                continue  # one went since it was listed
            except (OSError, WatchfilesRustInternalError) as fault:
                self.close()
                raise _translated(fault) from fault
            former, self._notify = self._notify, fresh
            if former is not None:
                rest = former.watch(2 * _STEP_MS, _STEP_MS, _STEP_MS, None)
                late |= set() if isinstance(rest, str) else rest
                former.close()
            self._folders = folders
            if folders == frozenset(_folders(self._root)):
                break
        return late


def _translated(fault: Exception) -> ClientError:
    text = " ".join(str(fault).split())
    # The library has no error of its own for the two limits, of watches and of instances.
    limit = "watch limit" in text or "os error 24" in text or "os error 28" in text
    return ClientError(f"the folder cannot be watched: {text}", code=LIMIT if limit else FAILED, retryable=True)


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        there = os.stat(folder)  # noqa: PTH116 (a mount and a rename are told by the numbers, not by the name)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _of_folders(raw: set[tuple[int, str]], known: frozenset[str]) -> set[str]:
    """Folders that came or went. One that was made again did both: its watch went with the former."""
    return {path for kind, path in raw if (kind != _MODIFIED if path in known else _is_folder(path))}


def _is_folder(path: str) -> bool:
    name = os.path.basename(path)  # noqa: PTH119 (names by the hundred)
    return not name.startswith(".") and os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _is_gone(path: str) -> bool:
    return not os.path.lexists(path)


def _folders(root: str) -> Iterator[str]:
    """``root`` and the folders below it that can be looked into."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = [entry for entry in listing if not entry.name.startswith(".")]
        except OSError:
            continue  # told by the scan
        yield folder
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
