"""A vector store for several processes without a Milvus server: the stand-in of ``clients/fakes.py`` in one file.

Each call takes the file's lock, does its work on the rows in it, and puts them back. Slow and right, which is what the
tests of several processes need: what they are about is leases, messages and rows.
"""

from __future__ import annotations

import fcntl
import functools
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients.fakes import InMemoryVectorStore
from clients.interfaces import CollectionIdentity
from clients.vector_store_checks import present_identity

_READS = frozenset({"search", "search_lexical", "vectors", "counts", "flush", "health"})


class FileVectorStore:
    """``InMemoryVectorStore`` in a file that every process opens for each call.

    While a file ``hold`` lies beside it, a write waits (and says so in ``held``): a test kills the process then.
    """

    metric = "L2"
    has_lexical = True

    def __init__(self, path: str, *, identity: Callable[[], CollectionIdentity] = present_identity) -> None:
        self._path = Path(path)
        self._identity = identity
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not hasattr(InMemoryVectorStore, name):
            raise AttributeError(name)
        return functools.partial(self._call, name)

    def close(self) -> None:
        """Nothing is kept open."""

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        if name == "upsert":
            self._wait_while_held()
        with self._path.with_suffix(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            store = InMemoryVectorStore(identity=self._identity)
            if self._path.exists():
                store._rows, store._made_for = pickle.loads(self._path.read_bytes())  # noqa: S301 (our own file)
            answer = getattr(store, name)(*given, **named)
            if name not in _READS:
                fresh = self._path.with_suffix(".new")
                fresh.write_bytes(pickle.dumps((store._rows, store._made_for)))
                fresh.replace(self._path)
        return answer

    def _wait_while_held(self) -> None:
        hold, held = self._path.with_name("hold"), self._path.with_name("held")
        while hold.exists():
            held.touch()
            time.sleep(0.02)
