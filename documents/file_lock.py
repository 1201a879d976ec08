"""A lock among the processes of one machine: a file, whose lock ends with its holder however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileLock:
    """One holder at a time. Each instance stands for one holder, in whatever process or thread; not for several."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def held(self) -> bool:
        """Whether this instance holds it."""
        return self._descriptor >= 0

    def take(self, *, wait: bool = False) -> bool:
        """Take it, or say that another has it; with ``wait``, come back with it. Raises ``OSError`` for the disk."""
        if self.held:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let another have it; may be called again."""
        if self.held:
            os.close(self._descriptor)
            self._descriptor = -1
