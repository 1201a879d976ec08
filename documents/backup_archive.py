"""The file of a backup: a tar archive (gzipped where its name says so) that ends in a manifest with every hash.

``rows/{app}.{model}.jsonl``, then ``knowledge_base/…`` with each document's bytes under its path, ``.history/…`` with
those of earlier revisions, and ``manifest.json`` last: an archive that was cut off has none. ``tar`` takes single files
out of it.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

FORMAT = 1
MANIFEST = "manifest.json"
ROWS = "rows/"
DOCUMENTS = "knowledge_base/"
HISTORY = ".history/"
_NAME = re.compile(
    r"rows/[a-z_]+\.[a-z_]+\.jsonl|knowledge_base/.+|\.history/\d{1,19}\.\d{1,10}\.[0-9a-f]{16}", re.DOTALL
)
_MAX_MANIFEST = 256 * 1024 * 1024
_PIECE = 1024 * 1024


class BackupError(Exception):
    """A backup cannot be written, or what is there is none that can be restored; one line that says what to do."""


class ArchiveWriter:
    """Adds members and remembers their hashes; each as a stream, none wholly in memory but a document's bytes."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.members: dict[str, tuple[int, str]] = {}

    def add_bytes(self, name: str, data: bytes) -> None:
        self._add(name, io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest())

    def add_lines(self, name: str, lines: Iterable[bytes]) -> int:
        """A member of unknown length, by way of a temporary file; how many lines that were."""
        digest, count = hashlib.sha256(), 0
        with tempfile.TemporaryFile() as file:
            for line in lines:
                file.write(line)
                digest.update(line)
                count += 1
            size = file.tell()
            file.seek(0)
            self._add(name, file, size, digest.hexdigest())
        return count

    def finish(self, facts: dict[str, Any]) -> None:
        """The manifest, as the last member."""
        data = json.dumps({"format": FORMAT, **facts, "members": self.members}, ensure_ascii=False, indent=1).encode()
        self._add(MANIFEST, io.BytesIO(data), len(data), "")

    def _add(self, name: str, file: IO[bytes], size: int, digest: str) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, 0o600, int(time.time())
        self._tar.addfile(info, file)
        self._tar.members = []  # type: ignore[attr-defined]  # tarfile would keep every header in memory
        self.members[name] = (size, digest)


@contextmanager
def new_archive(path: Path, *, force: bool) -> Iterator[ArchiveWriter]:
    """Write ``path`` by way of ``{path}.partial`` (mode 0600), synced, renamed at the end; a failure leaves nothing.

    Raises :class:`BackupError` where the file exists (unless ``force``) or another backup writes it, and ``OSError``.
    """
    _refuse_existing(path, force=force)
    partial = path.with_name(f"{path.name}.partial")
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(
                f"{partial} is being written by another backup: wait for it, or choose another name."
            ) from None
        try:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(0)
            with (
                _compressed(file, path) as stream,
                tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
            ):
                yield ArchiveWriter(tar)
            file.flush()
            os.fsync(file.fileno())
            _refuse_existing(path, force=force)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _refuse_existing(path: Path, *, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise BackupError(f"{path} exists: choose another name, or say --force to replace it.")


@contextmanager
def _compressed(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix not in {".gz", ".tgz"}:
        yield file
        return
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6) as packed:
        yield cast(IO[bytes], packed)


# ---- Reading ---------------------------------------------------------------------------------------------------------
def members_of(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """``(name, stream)`` of every member, in order; read each before the next. Nothing is ever unpacked by its name.

    Raises :class:`BackupError` on a member that no backup has (a link, another path) and on a damaged file.
    """
    with readable(path), tarfile.open(path, mode="r|*") as tar:
        for info in tar:
            if not info.isreg() or not (info.name == MANIFEST or _NAME.fullmatch(info.name)):
                raise BackupError(f"{path} holds {info.name!r}, which no backup of this program does: it is not read.")
            stream = tar.extractfile(info)
            yield info.name, cast(IO[bytes], stream)  # a regular file has one
            tar.members = []  # type: ignore[attr-defined]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say in one line what a damaged or unreadable file is; for every loop over :func:`members_of`."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise BackupError(f"{path} is damaged or no backup ({fault}): take another one.") from fault
    except FileNotFoundError:
        raise BackupError(f"There is no file {path}.") from None


def verified_manifest(path: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Read the whole archive once and hold every member against the manifest. Raises :class:`BackupError`."""
    seen: dict[str, tuple[int, str]] = {}
    manifest: dict[str, Any] | None = None
    with readable(path):
        for name, stream in members_of(path):
            if name in seen or manifest is not None:
                raise BackupError(f"{path} holds {name!r} twice or after its end: it is not read.")
            if name == MANIFEST:
                manifest = _manifest(path, stream)
                continue
            seen[name] = _measured(stream)
            if len(seen) % 1000 == 0:
                tell(f"{len(seen)} files checked")
    if manifest is None:
        raise BackupError(f"{path} is cut off: it has no manifest. Take another backup.")
    expected = {name: (int(size), str(digest)) for name, (size, digest) in manifest["members"].items()}
    wrong = sorted(name for name in {*seen, *expected} if seen.get(name) != expected.get(name))
    if wrong:
        raise BackupError(
            f"{path} is damaged: {wrong[0]!r} is not what was backed up ({len(wrong)} such). Take another."
        )
    return manifest


def _measured(stream: IO[bytes]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while piece := stream.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _manifest(path: Path, stream: IO[bytes]) -> dict[str, Any]:
    try:
        read = json.loads(stream.read(_MAX_MANIFEST))
        if read["format"] > FORMAT:
            raise BackupError(f"{path} was made by a newer version of kbsite: restore it with that one.")
        dict(read["members"]), dict(read["migrations"]), dict(read["last_ids"]), int(read["counter"])
    except (ValueError, KeyError, TypeError) as fault:
        raise BackupError(f"{path} has no manifest that can be read ({fault}): take another backup.") from fault
    return cast(dict[str, Any], read)
