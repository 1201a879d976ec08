"""An answer as it comes over the wire: in pieces, each of which has its time, as events or as one JSON body."""

from __future__ import annotations

import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import httpx2

from clients.llm_stream import AnswerParts, SaidError

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of a JSON body, and of one event; characters of what a stream adds up to."""
LARGEST_STREAM = 64 * 1024 * 1024
"""Bytes of a stream, which has about 300 around every token."""
LAST_WORDS = 0.5
"""Seconds in which a connection has to end after the last event, to be used again."""

_Raw = TypeVar("_Raw", bytes, bytearray)
_EVENT = re.compile(rb"(?:data|event|id|retry)?:")
_BROKEN_OFF = frozenset({"error", "insufficient_system_resource"})


class UnreadableError(Exception):
    """What came is no answer; the message ends "The answer cannot be read: …"."""


class CutOffError(Exception):
    """The answer has begun and not come to its end."""


class LateError(Exception):
    """The endpoint let us wait; the message ends "The language model …"."""


@dataclass(frozen=True)
class Patience:
    """Seconds: until connected, from there to the first byte of an answer, between two bytes, for all together."""

    connect: float = 5.0
    first_byte: float = 30.0
    idle: float = 20.0
    total: float = 240.0


class Watch:
    """Ends a response that is silent for too long, from a thread of its own.

    The HTTP library knows one read time-out for a whole body. Here the first byte has another one than the next, and
    all together have an end, whatever drips.
    """

    def __init__(self, response: httpx2.Response, patience: Patience, *, first_by: float, deadline: float) -> None:
        self._stream = response.extensions.get("network_stream")
        self._patience = patience
        self._deadline = deadline
        self._until = min(first_by, deadline)
        self._begun = False
        self._over = False
        self._late = ""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="llm-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def beat(self) -> None:
        """A piece has come. Raises ``LateError`` where it was too late."""
        self._set(time.monotonic() + self._patience.idle, begun=True)
        self.check()

    def last_words(self) -> None:
        """The answer is whole: what still comes has little time."""
        self._set(time.monotonic() + LAST_WORDS, begun=True)

    def check(self) -> None:
        """Raises ``LateError`` where the response was ended from here."""
        if self._late:
            raise LateError(self._late)

    def _set(self, until: float, *, begun: bool) -> None:
        with self._changed:
            self._begun = begun
            earlier = until < self._until
            self._until = min(until, self._deadline)
            if earlier:
                self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._over:
                left = self._until - time.monotonic()
                if left <= 0:
                    self._late = self._reason()
                    _shut(self._stream)
                    return
                self._changed.wait(left)

    def _reason(self) -> str:
        if time.monotonic() >= self._deadline:
            return f"did not finish its answer within {self._patience.total:g} seconds"
        if self._begun:
            return f"fell silent for {self._patience.idle:g} seconds in the middle of its answer"
        return f"did not begin its answer within {self._patience.first_byte:g} seconds"


@dataclass
class Progress:
    """Whether a byte of the answer has come (comments and empty lines, which keep a connection alive, are none)."""

    begun: bool = False


def read_answer(response: httpx2.Response, watch: Watch, progress: Progress) -> tuple[AnswerParts, bool]:
    """The whole answer, and whether it came as a stream.

    Raises ``LateError``, ``CutOffError``, ``UnreadableError``, ``SaidError``, and what the HTTP library raises while
    nothing of the answer has come.
    """
    lines = _lines(_pieces(response, watch, progress))
    parts = AnswerParts()
    try:
        first = next((line for line in lines if line.strip()), b"")
        streamed = _EVENT.match(first) is not None
        if not streamed:
            _read_body(b"\n".join([first, *lines]), parts)
            return parts, False
        done = _read_events(itertools.chain([first], lines), parts, progress)
    except (httpx2.HTTPError, LateError) as error:
        if parts.finish_reason:  # all was said: the connection owed only its end
            return parts, True
        watch.check()
        if isinstance(error, LateError) or not progress.begun:
            raise
        raise CutOffError from error
    _ended(parts, done)
    if done:
        _drain(lines, watch)
    return parts, True


def _ended(parts: AnswerParts, done: bool) -> None:
    if parts.finish_reason in _BROKEN_OFF or not (done or parts.finish_reason):
        raise CutOffError


def _drain(lines: Iterator[bytes], watch: Watch) -> None:
    """Read the end of the body, so that the connection can be used again."""
    watch.last_words()
    try:
        for _ in lines:
            pass
    except (httpx2.HTTPError, LateError, UnreadableError):
        return


def _pieces(response: httpx2.Response, watch: Watch, progress: Progress) -> Iterator[bytes]:
    size = 0
    for piece in response.iter_bytes():
        watch.beat()
        size += len(piece)
        if size > LARGEST_STREAM:
            raise UnreadableError(f"it is larger than {LARGEST_STREAM} bytes")
        progress.begun = progress.begun or any(
            line.strip() and not line.startswith(b":") for line in piece.split(b"\n")
        )
        yield piece
    watch.check()


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a body without their ends; also a last one that has none."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            yield from (_bounded(line).rstrip(b"\r") for line in whole)
        _bounded(rest)
    yield bytes(rest)


def _bounded(raw: _Raw) -> _Raw:
    if len(raw) > LARGEST_ANSWER:
        raise UnreadableError(f"it is larger than {LARGEST_ANSWER} bytes")
    return raw


def _read_body(body: bytes, parts: AnswerParts) -> None:
    parts.feed(_object(_bounded(body).removeprefix(b"\xef\xbb\xbf"), "it"))


def _read_events(lines: Iterable[bytes], parts: AnswerParts, progress: Progress) -> bool:
    """Feed the events of a stream. True where the stream said that it is done."""
    fed = False
    for event in _events(lines):
        if event is None:
            return True
        try:
            parts.feed(event)
        except SaidError:
            progress.begun = fed
            raise
        fed = True
        if parts.size > LARGEST_ANSWER:
            raise UnreadableError(f"it is longer than {LARGEST_ANSWER} characters")
    return False


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any] | None]:
    """The object in each event, None for the last words ``[DONE]``.

    JSON is sent in one line, and some forget the empty line after it; what is spread over several is put together.
    """
    held: list[bytes] = []
    for line in lines:
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if data == b"[DONE]":
            yield None
        elif data and not held and (whole := _parsed(data)) is not None:
            yield whole
        elif data:
            held.append(data)
        elif held and not line.strip():
            yield _object(b"\n".join(held), "an event of the stream")
            held = []
    if held:
        raise CutOffError


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        return _object(raw, "")
    except UnreadableError:
        return None


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{what} is not JSON") from error
    if not isinstance(found, dict):
        raise UnreadableError(f"{what} is not a JSON object")
    return found


def _shut(stream: Any) -> None:
    """Wake up the thread that reads. Closing would not, and an SSL socket's own ``shutdown`` would pull its state away
    from under that thread."""
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        try:
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        except OSError:  # it ended by itself
            return
