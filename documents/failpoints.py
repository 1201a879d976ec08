"""Named places at the borders of the protocol where a test stops the process: dead, waiting, or with a full disk.

Nothing happens at any of them unless the settings allow it (the tests' own do, a site's never) and a folder is named. A
file in that folder, called as the place, says what happens to the first process that comes by: it takes the file away
and leaves ``{place}.hit``.

- ``kill``: the process kills itself, as a machine that loses power would.
- ``pause``: it waits until somebody removes the ``.hit`` file.
- ``full``: the disk is full.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

PLACES: Final = frozenset({
    # An upload, a replacement, an edit
    "upload.temporary_written", "upload.before_commit", "upload.after_commit", "upload.after_publish",
    # Putting a revision in its place, and taking one back
    "publish.history_kept", "publish.renamed", "publish.after_commit", "withdraw.before_commit",
    # A worker's job
    "index.claimed", "index.embedded", "index.upserted", "index.before_commit", "index.after_commit",
    # A deletion
    "delete.marked", "delete.vectors_removed", "delete.history_kept", "delete.unlinked", "delete.after_commit",
    # The folder
    "scan.began", "scan.looked", "scan.read", "scan.before_commit", "absorb.before_commit",
    # What follows of itself
    "domain.before_write", "enrichment.before_commit", "sweep.published",
    # Before each step of a reconcile
    "reconcile.staged", "reconcile.files", "reconcile.deletions", "reconcile.leases", "reconcile.domains",
    "reconcile.counter", "reconcile.earlier_revisions", "reconcile.vectors_and_chunks", "reconcile.terms",
    "reconcile.keyword_index",
})  # fmt: skip
PAUSE_SECONDS: Final = 60.0
"""A pause that nobody ends is ended: a forgotten one must not hang a run."""
_folder: Path | None = None


def failpoint(place: str) -> None:
    """What a test wants to happen here; nothing on a site."""
    if _folder is not None:
        _come_by(_folder, place)


def arm(folder: Path | None) -> None:
    """Look into this folder from now on; None disarms. Raises ``ImproperlyConfigured`` outside the tests' settings."""
    global _folder
    if folder is not None and not settings.FAILPOINTS_ALLOWED:
        raise ImproperlyConfigured(
            "KBSITE_FAILPOINTS is set: it stops the site at named places and is for tests alone; unset it."
        )
    _folder = folder


def _come_by(folder: Path, place: str) -> None:
    if place not in PLACES:
        raise ImproperlyConfigured(f"failpoint {place!r} is not in documents.failpoints.PLACES.")
    hit = folder / f"{place}.hit"
    try:
        (folder / place).rename(hit)  # of several processes one takes it
        action = hit.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "pause":
        _wait_until_gone(hit)
    elif action == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    else:
        raise ImproperlyConfigured(f"failpoint {place}: {action!r} is none of kill, pause, full.")


def _wait_until_gone(hit: Path) -> None:
    deadline = time.monotonic() + PAUSE_SECONDS
    while hit.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
