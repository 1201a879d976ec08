"""Checks that need a real server: bodies without a length, bodies that never end, bytes that no library sends."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.test.client import BOUNDARY

from bench.site_process import SiteProcess
from tests.flows.bad_inputs_world import raw_form

WireCheck = Callable[[SiteProcess], None]
MEGABYTE = 1024 * 1024
FORM = f"multipart/form-data; boundary={BOUNDARY}"
_PIECE = b"x" * (64 * 1024)


def call(site: SiteProcess, pieces: Iterable[bytes], *, length: int | None, seconds: float = 60) -> tuple[int, Any]:
    """``POST /documents/`` piece by piece, chunked where there is no ``length``: status and JSON of the answer."""
    framing = f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"
    head = (
        f"POST /api/v1/documents/ HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nAuthorization: Bearer {site.key}\r\n"
        f"Content-Type: {FORM}\r\n{framing}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", site.port), timeout=seconds) as wire:
        # The server may answer and close while we still send.
        with contextlib.suppress(ConnectionError):
            wire.sendall(head.encode())
            for piece in pieces:
                wire.sendall(piece if length is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
            if length is None:
                wire.sendall(b"0\r\n\r\n")
        return _answer(wire)


def _answer(wire: socket.socket) -> tuple[int, Any]:
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := wire.recv(65_536):
            received += piece
    head, _blank, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, json.loads(body) if body else None


def large_form(size: int) -> Iterator[bytes]:
    """A form with a file of ``size`` bytes, in pieces."""
    whole = raw_form(b'filename="large.md"', data=b"@@@")
    before, after = whole.split(b"@@@")
    yield before
    for _number in range(size // len(_PIECE)):
        yield _PIECE
    yield after


def leftovers(site: SiteProcess) -> list[str]:
    """Files in staging, and temporary files of uploads."""
    staging = site.folder / "knowledge_base" / ".staging"
    spool = Path(site.environment["TMPDIR"])
    return [str(path) for folder in (staging, spool) for path in folder.rglob("*") if path.is_file()]


def memory(site: SiteProcess, name: str) -> int:
    """``VmRSS`` or ``VmHWM`` of the server, in bytes."""
    assert site.process is not None
    lines = Path(f"/proc/{site.process.pid}/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def fifty_megabytes(site: SiteProcess) -> None:
    """Announced: not read at all."""
    before, rows = memory(site, "VmRSS"), site.documents()
    size = sum(len(piece) for piece in large_form(50 * MEGABYTE))
    status, answer = call(site, large_form(50 * MEGABYTE), length=size)
    # Where the server closed before the last byte was sent, the answer may be lost on the way.
    assert status in {413, 0}
    assert answer is None or answer["code"] == "file_too_large"
    assert max(memory(site, "VmRSS"), memory(site, "VmHWM")) - before < 30 * MEGABYTE
    assert site.documents() == rows
    assert leftovers(site) == []


def fifty_megabytes_in_chunks(site: SiteProcess) -> None:
    """Without a length: cut off at the limit while it streams in."""
    before, rows = memory(site, "VmRSS"), site.documents()
    status, answer = call(site, large_form(50 * MEGABYTE), length=None)
    assert status in {413, 0}
    assert answer is None or answer["code"] == "file_too_large"
    assert max(memory(site, "VmRSS"), memory(site, "VmHWM")) - before < 30 * MEGABYTE
    assert site.documents() == rows
    site.wait_until(lambda: leftovers(site) == [], seconds=10, what="no file left")


def slow_upload(site: SiteProcess) -> None:
    """Ten bodies that trickle in hold nobody up, and leave nothing when they break off."""
    rows = site.documents()
    wires = [socket.create_connection(("127.0.0.1", site.port), timeout=30) for _number in range(10)]
    head = (
        f"POST /api/v1/documents/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {site.key}\r\n"
        f"Content-Type: {FORM}\r\nContent-Length: 100000\r\n\r\n"
    )
    for wire in wires:
        wire.sendall(head.encode() + b"--")
    for _round in range(3):
        for wire in wires:
            wire.sendall(b"x")
        assert site.lookup("ERR_NOBODY")["found"] in {True, False}
        assert site.status("/readyz") == 200
        time.sleep(0.2)
    for wire in wires:
        wire.close()
    site.wait_until(lambda: leftovers(site) == [], seconds=10, what="no file left")
    assert site.documents() == rows


def twice_at_once(site: SiteProcess) -> None:
    """One row, the bytes of one of them in place, nothing beside."""

    def send(number: int) -> tuple[int, Any]:
        body = raw_form(b'filename="twice.md"', data=f"# Twice\n\nText {number}.\n".encode(), category=b"twice")
        return call(site, [body], length=len(body))

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(send, range(12)))
    assert {status for status, _answer in answers} <= {200, 202}, answers
    assert len({answer["id"] for _status, answer in answers}) == 1
    assert site.documents(category="twice") == 1
    site.wait_until(lambda: site.documents(category="twice", status="INDEXED") == 1, seconds=30, what="indexed")
    folder = site.folder / "knowledge_base" / "twice"
    assert [path.name for path in folder.iterdir()] == ["twice.md"]
    assert folder.joinpath("twice.md").read_bytes() in {f"# Twice\n\nText {number}.\n".encode() for number in range(12)}
    assert leftovers(site) == []


def name_in_other_bytes(site: SiteProcess) -> None:
    """GBK, Latin-1, Big5 and broken UTF-8 in the header: told what to do, nothing kept."""
    rows = site.documents()
    for name in ("支付网关.md".encode("gbk"), "支付.md".encode("big5"), "café.md".encode("latin-1"), b"a\xff\xfe.md"):
        body = raw_form(b'filename="' + name + b'"')
        status, answer = call(site, [body], length=len(body))
        assert status == 400
        assert "UTF-8" in answer["detail"]
    assert site.documents() == rows
    assert leftovers(site) == []


CHECKS: dict[str, WireCheck] = {
    "upload.content-27": fifty_megabytes,
    "upload.content-28": fifty_megabytes_in_chunks,
    "upload.content-29": slow_upload,
    "upload.content-32": twice_at_once,
    "upload.filename-59 on the wire": name_in_other_bytes,
}
