"""Files of the knowledge base: safe paths, staging, publishing, the bytes of earlier revisions. No database here.

``.staging/`` and ``.history/`` lie inside the base folder, on one file system with it, so that a rename is atomic and a
hard link possible.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import time
import unicodedata
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.utils.translation import gettext as _

from documents.errors import DocumentError
from documents.names import PREFIX

STAGING = ".staging"
HISTORY = ".history"
_READ_SIZE = 256 * 1024
_STAGED_NAME = re.compile(r"(\d{1,19})\.(\d{1,10})")


class UnsafePath(DocumentError):  # noqa: N818 (a refusal, named after what is refused)
    """The path leaves the base folder, or runs through a symbolic link."""

    def __init__(self, file_path: str) -> None:
        detail = _("%(path)s runs through a symbolic link, which the knowledge base does not follow.")
        super().__init__(detail % {"path": file_path}, code="unsafe_path", field="category", status=409)


@dataclass(frozen=True)
class StagedFile:
    """A staged revision that lies in ``.staging/`` as ``{document id}.{revision}``."""

    document_id: int
    revision: int
    path: Path


def base() -> Path:
    """The knowledge base folder (it may be missing)."""
    return Path(settings.KNOWLEDGE_BASE_PATH)


def content_hash(data: bytes) -> str:
    """SHA-256, as the row keeps it."""
    return hashlib.sha256(data).hexdigest()


def hash_of_file(path: Path) -> str:
    """SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bounded(file: BinaryIO, limit: int) -> bytes:
    """Everything that ``file`` holds; stops and raises ``file_too_large`` as soon as ``limit`` bytes are passed."""
    parts: list[bytes] = []
    total = 0
    while part := file.read(min(_READ_SIZE, limit + 1 - total)):
        total += len(part)
        if total > limit:
            raise too_large(limit)
        parts.append(part)
    return b"".join(parts)


def too_large(limit: int) -> DocumentError:
    """The refusal of a file past ``UPLOAD_MAX_BYTES``."""
    detail = _("The file is larger than %(limit)s bytes, the most that is taken (UPLOAD_MAX_BYTES).") % {"limit": limit}
    return DocumentError(detail, code="file_too_large", field="file", status=413)


def inside(file_path: str) -> Path:
    """Where a document's file belongs (it may not be there). Raises :class:`UnsafePath`."""
    relative = file_path.removeprefix(PREFIX)
    parts = relative.split("/")
    if not file_path.startswith(PREFIX) or any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise UnsafePath(file_path)
    return base().joinpath(*parts)


def locate(file_path: str) -> Path:
    """The file of a document on this disk; raises :class:`UnsafePath` where its folder is reached over a link.

    Names are compared in NFC, so that a file that another system wrote in NFD is found under its document's path. Where
    nothing is there yet, the answer is where the file belongs.
    """
    target = inside(file_path)
    if not os.path.lexists(target):
        target = _in_other_form(file_path) or target
    parent = target.parent
    expected = Path(os.path.realpath(base())) / parent.relative_to(base())
    if Path(os.path.realpath(parent)) != expected:
        raise UnsafePath(file_path)
    return target


def _in_other_form(file_path: str) -> Path | None:
    folder = base()
    for part in file_path.removeprefix(PREFIX).split("/"):
        if os.path.lexists(folder / part):
            folder = folder / part
            continue
        if part.isascii() or not folder.is_dir():
            return None
        names = (entry.name for entry in folder.iterdir())
        twin = next((name for name in names if unicodedata.normalize("NFC", name) == part), None)
        if twin is None:
            return None
        folder = folder / twin
    return folder


def read_published(file_path: str) -> bytes:
    """The bytes on disk. ``FileNotFoundError`` where there are none, ``OSError`` where they cannot be read."""
    target = locate(file_path)
    if target.is_symlink():
        real = os.path.realpath(target)
        if not real.startswith(os.path.realpath(base()) + os.sep):
            raise UnsafePath(file_path)
    return target.read_bytes()


def make_folder(file_path: str) -> None:
    """The folder of a document, made if missing. Raises :class:`UnsafePath`, or ``OSError``."""
    parent = locate(file_path).parent
    if not parent.is_dir():
        parent.mkdir(parents=True, exist_ok=True)
        sync_folder(parent.parent)


def inner_folder(name: str) -> Path:
    """``.staging`` or ``.history``, made if missing; a link in its place is refused."""
    folder = base() / name
    if folder.is_symlink():
        raise UnsafePath(PREFIX + name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_temporary(data: bytes) -> Path:
    """A synced file ``.staging/tmp-…`` with these bytes; nothing is left where that fails."""
    path = inner_folder(STAGING) / f"tmp-{uuid.uuid4().hex}"
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def staged_path(document_id: int, revision: int) -> Path:
    """Where a saved revision waits until it is published."""
    return base() / STAGING / f"{int(document_id)}.{int(revision)}"


def stage(temporary: Path, document_id: int, revision: int) -> None:
    """Give a temporary file the name of its revision; synced."""
    target = staged_path(document_id, revision)
    temporary.replace(target)
    sync_folder(target.parent)


def drop_staged(document_id: int, revision: int) -> None:
    """Remove a staged revision; missing is fine."""
    staged_path(document_id, revision).unlink(missing_ok=True)


def put_in_place(source: Path, file_path: str) -> None:
    """Rename ``source`` over the document's file (atomic) and sync the folder."""
    make_folder(file_path)
    target = locate(file_path)
    source.replace(target)
    sync_folder(target.parent)


def restore(kept: Path, file_path: str) -> None:
    """Put kept bytes back in a document's place; what is kept stays kept."""
    copy = inner_folder(STAGING) / f"tmp-{uuid.uuid4().hex}"
    try:
        shutil.copyfile(kept, copy)
        put_in_place(copy, file_path)
    finally:
        copy.unlink(missing_ok=True)


def unlink_published(file_path: str) -> None:
    """Remove a document's file, synced; missing is fine. Its folder stays: another upload may be on its way there."""
    target = locate(file_path)
    target.unlink(missing_ok=True)
    # Where the folder is gone too there is nothing left to sync.
    with contextlib.suppress(FileNotFoundError):
        sync_folder(target.parent)


def history_path(stored_name: str) -> Path:
    """Where the bytes of an earlier revision are."""
    return base() / HISTORY / stored_name


def keep(source: Path, stored_name: str) -> None:
    """Keep the bytes of ``source`` under ``.history/``: a hard link where the disk can, else a copy. Idempotent."""
    target = inner_folder(HISTORY) / stored_name
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError as refused:
        if refused.errno not in {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP}:
            raise
        partial = target.with_name(f"tmp-{uuid.uuid4().hex}")
        try:
            shutil.copyfile(source, partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    sync_folder(target.parent)


def staged_files() -> Iterator[StagedFile]:
    """Every staged revision."""
    for path in _listed(base() / STAGING):
        if match := _STAGED_NAME.fullmatch(path.name):
            yield StagedFile(int(match[1]), int(match[2]), path)


def age_in_seconds(path: Path) -> float:
    """Since the file was made, linked or renamed; 0 for one that is gone."""
    try:
        return time.time() - path.stat().st_ctime
    except FileNotFoundError:
        return 0.0


def temporary_files() -> Iterator[Path]:
    """Files of writes that were under way, here or in a process that died."""
    for name in (STAGING, HISTORY):
        yield from (path for path in _listed(base() / name) if path.name.startswith("tmp-"))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
