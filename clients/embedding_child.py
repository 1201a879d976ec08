"""What an indexing child process runs. Light on purpose: it imports one embedder, neither Django nor the web app."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from clients.interfaces import ClientError, ClientTimeout, Embedder

NICENESS = 10
"""Below the web's priority: lookups stay fast while documents are indexed."""


def _give_way() -> None:
    """Embed only while nobody else wants the processor.

    With niceness alone an exact lookup beside two embedding processes on two cores took 68 ms at p95: a process that
    wakes up waits for the end of a nice one's slice. An idle one is put aside at once.
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if hasattr(os, "sched_setscheduler") and hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):  # not allowed here: niceness has to do
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def serve(connection: Connection, build: Callable[[], Embedder]) -> None:
    """Embed one text after the other until the parent closes its end, which also happens when the parent dies.

    Answers ``("ok", vector)`` or ``("error", fields of a ClientError)``.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    _give_way()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its children
    embedder: Embedder | None = None
    while True:
        try:
            text = connection.recv()
        except (EOFError, OSError):
            return
        try:
            embedder = embedder or build()
            answer: tuple[str, Any] = ("ok", embedder.embed_documents([text])[0])
        except ClientError as error:
            answer = ("error", _packed(error))
        try:
            connection.send(answer)
        except OSError:
            return


def unpacked(fields: dict[str, Any]) -> ClientError:
    """The error that a child met, to be raised in the parent."""
    if fields.pop("timeout"):
        return ClientTimeout(fields["message"], code=fields["code"], hint=fields["hint"])
    return ClientError(fields.pop("message"), **fields)


def _packed(error: ClientError) -> dict[str, Any]:
    return {
        "message": str(error),
        "code": error.code,
        "retryable": error.retryable,
        "hint": error.hint,
        "timeout": isinstance(error, ClientTimeout),
    }
