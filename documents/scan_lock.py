"""One scan at a time on the whole site: several machines meet at the database, the processes of one at a file.

For thrift and for true counts: what a scan does to a row is done under the row's lock, so that two at once are safe.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection

from documents.file_lock import FileLock

log = logging.getLogger("documents.scan")
_PATIENCE_SECONDS = 60


@contextmanager
def alone_on_the_site() -> Iterator[None]:
    """While the block runs no other scan does. A lock that somebody keeps for a minute is passed by, and told.

    The lock ends with its connection, or its process: nothing is left of a holder that was killed.
    """
    if connection.vendor == "mysql":
        with _named_lock(_name()):
            yield
        return
    lock = FileLock(settings.DATA_DIR / "scan.lock")
    lock.take(wait=True)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _named_lock(name: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, %s)", [name, _PATIENCE_SECONDS])
        taken = cursor.fetchone() == (1,)
    if not taken:
        log.warning("scan: another one has been running for over %s s; this one begins beside it", _PATIENCE_SECONDS)
    try:
        yield
    finally:
        if taken:
            with connection.cursor() as cursor:
                cursor.execute("SELECT RELEASE_LOCK(%s)", [name])


def _name() -> str:
    """Of this site alone: such names hold for the whole database server, and have at most 64 characters."""
    return "kbsite.scan." + hashlib.sha256(str(connection.settings_dict["NAME"]).encode()).hexdigest()[:32]
