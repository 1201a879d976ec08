"""The one door to pymilvus: imported under guard, its errors translated, its tracebacks kept out of the log.

Four habits of the package are held off here: at import it loads any ``.env`` that it finds above its own folder and
obeys an environment variable ``MILVUS_URI`` (dying on a local path in it), it logs a traceback for each refused call,
and it pings its own local server until that hangs up on it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients.interfaces import ClientError, ClientTimeout
from clients.masking import mask_credentials

opening_lite = threading.RLock()
"""Held while a Lite file is opened and prepared: of two threads at it one would be told that another process has it."""

_NEVER_PING = {"grpc.keepalive_time_ms": 2**31 - 1}
"""gRPC's word for never. pymilvus pings every 10 seconds; Lite's server takes one in 5 minutes, and is in reach."""


@contextmanager
def _own_environment() -> Iterator[None]:
    """The process' environment without what pymilvus would obey, put back afterwards."""
    kept = {name: os.environ.pop(name, None) for name in ("MILVUS_URI", "MILVUS_DEFAULT_CONNECTION")}
    kept["PYTHON_DOTENV_DISABLED"] = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


with _own_environment():
    import grpc  # type: ignore[import-untyped]
    from milvus_lite.db import MilvusLite  # type: ignore[import-untyped]
    from milvus_lite.exceptions import DataDirLockedError, MilvusLiteError  # type: ignore[import-untyped]
    from milvus_lite.server_manager import server_manager_instance  # type: ignore[import-untyped]
    from pymilvus import DataType, MilvusClient
    from pymilvus.exceptions import MilvusException

__all__ = ["DataType", "StaleStoreError", "connect", "disconnect", "is_lite", "opening_lite", "translated"]


def _quieten() -> None:
    """Errors reach us as exceptions and are told once; the packages' own handlers and tracebacks go."""
    for name in ("pymilvus", "pymilvus.milvus_client", "pymilvus.bulk_writer"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.CRITICAL)
        logger.propagate = True
    for name in ("milvus_lite.adapter.grpc.servicer", "milvus_lite.server_manager", "grpc._server"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("milvus_lite", "faiss.loader"):  # what Lite does in the background still warns
        logging.getLogger(name).setLevel(logging.WARNING)


_quieten()


class StaleStoreError(ClientError):
    """The connection, or the collection as it was opened, is gone; opening again may mend it."""


def is_lite(uri: str) -> bool:
    """Whether the address is a Milvus Lite file."""
    return uri.endswith(".db")


def connect(uri: str, timeout: float) -> Any:
    """A client of its own connection. ``ClientError``: ``store_locked``, ``store_unavailable``; ``ClientTimeout``."""
    if is_lite(uri):
        return _connect_lite(uri, timeout)
    if not uri.lower().startswith(("http://", "https://", "tcp://", "unix:")):
        raise ClientError(
            f"{mask_credentials(uri)!r} is no address of a vector store.",
            code="store_unavailable",
            hint="Set VECTOR_STORE_URI to a path that ends in .db, or to http://host:19530.",
        )
    with translated(uri):
        return MilvusClient(uri, timeout=timeout, dedicated=True)


def disconnect(client: Any, uri: str, *, release: bool) -> None:
    """Close the client; with ``release`` a Lite file is let go too, so that another process may open it."""
    try:
        client.close()
    except (MilvusException, grpc.RpcError, ValueError) as error:
        logging.getLogger(__name__).debug("closing the vector store's connection: %s", error)
    if release and is_lite(uri):
        server_manager_instance.release_server(uri)


def _connect_lite(uri: str, timeout: float) -> Any:
    try:
        Path(uri).absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClientError(
            f"The folder of {uri} cannot be made: {error}.",
            code="store_unavailable",
            hint="Set DATA_DIR or VECTOR_STORE_URI to a place that this program may write to.",
        ) from error
    with opening_lite:
        try:
            return MilvusClient(uri, timeout=timeout, dedicated=True, grpc_options=_NEVER_PING)
        except (MilvusException, grpc.RpcError) as error:
            raise _why_lite_fails(uri) from error


def _why_lite_fails(uri: str) -> ClientError:
    """pymilvus only says "Open local milvus failed": opening once more without it tells the cause."""
    try:
        MilvusLite(uri).close()
    except DataDirLockedError:
        return ClientError(
            f"The vector store {uri} is in use by another process.",
            code="store_locked",
            hint="Only one process can open a Milvus Lite file: stop the other one (a running site, or a command), "
            "or set VECTOR_STORE_URI to a Milvus server.",
        )
    except (MilvusLiteError, OSError, ValueError) as error:
        return ClientError(
            f"The vector store {uri} cannot be opened: {error}.",
            code="store_unavailable",
            hint=f"Look at {uri}; moved away, it is made anew and `python manage.py reindex --all` fills it.",
        )
    return ClientError(f"The vector store {uri} did not open.", code="store_unavailable", retryable=True)


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """Raise what pymilvus and gRPC raise inside as ``ClientError``, ``ClientTimeout`` or :class:`StaleStoreError`."""
    try:
        yield
    except MilvusException as error:
        raise _from_milvus(error, mask_credentials(uri)) from error
    except grpc.RpcError as error:
        raise _from_rpc(error, mask_credentials(uri)) from error


_GONE = {2, 100, 101}  # not connected, collection not found, collection not loaded
_GONE_WORDS = ("should create connection first", "closed channel", "UNAVAILABLE")


def _from_milvus(error: Any, shown: str) -> ClientError:
    code, message = error.code, _one_line(error.message)
    if code in _GONE or code == grpc.StatusCode.UNAVAILABLE or any(word in message for word in _GONE_WORDS):
        return StaleStoreError(
            f"The vector store {shown} does not answer: {message}",
            code="store_unavailable",
            retryable=True,
            hint="Is the Milvus server running, and does VECTOR_STORE_URI name it?",
        )
    if "Retry timeout" in message or "DEADLINE_EXCEEDED" in message:
        return _timeout(shown)
    return ClientError(
        f"The vector store refused a call: {message}", code="store_error", retryable=bool(error.retriable)
    )


def _from_rpc(error: Any, shown: str) -> ClientError:
    status = error.code() if callable(getattr(error, "code", None)) else None
    if status == grpc.StatusCode.DEADLINE_EXCEEDED:
        return _timeout(shown)
    details = _one_line(error.details() if callable(getattr(error, "details", None)) else str(error))
    if status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return ClientError(
            f"The vector store {shown} refused the sign-in: {details}",
            code="store_unavailable",
            hint="Put the user and password into VECTOR_STORE_URI: http://user:password@host:19530.",
        )
    return StaleStoreError(
        f"The vector store {shown} does not answer: {details}", code="store_unavailable", retryable=True
    )


def _timeout(shown: str) -> ClientTimeout:
    return ClientTimeout(
        f"The vector store {shown} did not answer in time.",
        code="store_timeout",
        hint="Look at the Milvus server's load and log.",
    )


def _one_line(text: object) -> str:
    line = " ".join(str(text).split())
    return mask_credentials(line if len(line) <= 300 else line[:300] + "…")
