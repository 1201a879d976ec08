"""One process at a time on a data folder with embedded parts, by a lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "lock"


class DataDirInUse(Exception):  # noqa: N818 (a state, not a fault)
    """Another process holds the folder; the message is one line with the folder, the process and what to do."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"DATA_DIR {path} is in use by {holder}: stop that one first, or set DATA_DIR to another folder."
        )


@contextmanager
def hold_data_dir(path: Path) -> Iterator[None]:
    """Hold ``path`` (made if missing) while the block runs; raises :class:`DataDirInUse` at once if another does.

    A second hold in the same process is refused too: whoever holds the folder once has what it needs.
    """
    path.mkdir(parents=True, exist_ok=True)
    # Opened without truncation: the holder's pid must stay readable for those who are refused.
    descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirInUse(path, _holder(descriptor)) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> int | None:
    """The pid that the holder wrote, None where it has not got that far."""
    text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
