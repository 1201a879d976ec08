"""Large bodies end at the door, announced or not, and never reach the disk whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from kbsite.body_limit import OTHERS, BodyLimit, limit_for


def run(
    path: str, parts: Iterator[bytes], headers: list[tuple[bytes, bytes]] | None = None
) -> tuple[list[Any], list[Any], int]:
    """What was sent to the client, what the application read, and how many parts were taken from the client."""
    sent: list[Any] = []
    read: list[Any] = []
    taken = 0

    async def receive() -> Any:
        nonlocal taken
        part = next(parts, None)
        taken += part is not None
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Any) -> None:
        sent.append(message)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                await send({"type": "late"})
                return
            read.append(message["body"])
            if not message["more_body"]:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                return

    scope = {"type": "http", "path": path, "headers": headers or []}
    asyncio.run(BodyLimit(application)(scope, receive, send))
    return sent, read, taken


def many(count: int, size: int = 64 * 1024) -> Iterator[bytes]:
    return (b"x" * size for _ in range(count))


def test_a_small_body_passes() -> None:
    sent, read, _taken = run("/api/v1/lookup/", many(3))
    assert sent[0]["status"] == 200
    assert sum(map(len, read)) == 3 * 64 * 1024


def test_a_body_without_a_length_ends_at_the_limit() -> None:
    sent, read, taken = run("/api/v1/documents/", many(100_000))
    assert [message["status"] for message in sent if "status" in message] == [413]
    assert b"file_too_large" in sent[1]["body"]
    assert len(sent) == 2
    assert sum(map(len, read)) <= limit_for("/api/v1/documents/")
    assert taken < 200


def test_an_announced_body_that_is_too_large_is_not_read_at_all() -> None:
    sent, read, taken = run("/api/v1/lookup/", many(5), [(b"content-length", str(OTHERS + 1).encode())])
    assert sent[0]["status"] == 413
    assert (read, taken) == ([], 0)


def test_a_body_of_exactly_the_limit_passes(settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = 64 * 1024
    sent, _read, _taken = run("/api/v1/documents/", iter([b"x" * limit_for("/api/v1/documents/")]))
    assert sent[0]["status"] == 200
    sent, _read, _taken = run("/api/v1/documents/", iter([b"x" * (limit_for("/api/v1/documents/") + 1)]))
    assert sent[0]["status"] == 413


def test_the_admin_takes_many_files_at_once(settings: Any) -> None:
    assert limit_for("/admin/documents/apidocument/upload/") > 10 * settings.UPLOAD_MAX_BYTES
