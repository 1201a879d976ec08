"""What runs beside the requests of one web process: the data folder's lock, the scan, the worker, the local door."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from contextlib import ExitStack

from django.conf import settings
from django.db import DatabaseError, close_old_connections

from clients.interfaces import ClientError
from clients.registry import get_vector_store, reset_clients
from documents.data_dir import DataDirInUse, hold_data_dir
from documents.local_server import announce_server, withdraw_server
from documents.scan import scan
from documents.source import get_keyword_index
from documents.watcher import get_watcher
from documents.worker import get_worker

log = logging.getLogger("kbsite.startup")
_held = ExitStack()


class StartupRefused(Exception):  # noqa: N818 (a refusal)
    """The process must not serve; the message is the one line that an operator needs."""


def start_site() -> None:
    """Take the data folder (embedded parts are one process), announce the local door, begin the background work."""
    if settings.EMBEDDED:
        try:
            _held.enter_context(hold_data_dir(settings.DATA_DIR))
        except DataDirInUse as in_use:
            raise StartupRefused(str(in_use)) from in_use
        announce_server(f"http://{settings.HOST}:{settings.PORT}")
    threading.Thread(target=_warm_up, name="kbsite-start", daemon=True).start()


def _warm_up() -> None:
    """L0 first, then the disk, then the vectors: each is of use without the next."""
    try:
        get_keyword_index().refresh()
        if settings.WATCH_FOLDER:
            # It listens before the scan looks: what changes meanwhile is heard. Who scans nothing has it compare.
            get_watcher().start(compare_first=not settings.EMBEDDED_WORKER)
        if settings.EMBEDDED_WORKER:
            _scan()
            get_keyword_index().refresh()
            get_worker().start()
        with contextlib.suppress(ClientError):  # /readyz names it, and the worker tries again
            get_vector_store().open()
    finally:
        close_old_connections()
    _leave_out_of_collections()


def _leave_out_of_collections() -> None:
    """What the start loaded stays for good, and no garbage collection need look at it again.

    Milvus Lite keeps its rows as Python objects: a full collection over 8,000 chunks takes 0.4 s, and every question
    waits meanwhile. What of it is replaced later is freed as ever, by its reference counts.
    """
    gc.collect()  # the garbage of the start would be kept for good too
    gc.freeze()


def _scan() -> None:
    """Before the worker, which takes the processor; a scan that is cut short must not leave the site without one."""
    try:
        scan()
    except (DatabaseError, OSError):
        # Degradation point: the documents that are known answer; the worker's sweep and the next scan do the rest.
        log.exception("the scan at the start was cut short; run it again: manage.py scan")


def stop_site() -> None:
    """The reverse; safe after a start that was refused half way."""
    get_watcher().stop()
    if settings.EMBEDDED_WORKER:
        get_worker().stop()
    if settings.EMBEDDED:
        withdraw_server()
    reset_clients()
    _held.close()
