"""A bound on request bodies while they stream in, before Django spools them: with or without a Content-Length."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from django.conf import settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

UPLOAD = "/api/v1/documents/"
OTHERS = 2 * 1024 * 1024
# The form around an upload's file: boundaries, headers, other fields.
FORM_ROOM = 256 * 1024
# The admin takes many files in one form.
ADMIN_FILES = 20


def limit_for(path: str) -> int:
    """How many bytes a request to ``path`` may have."""
    if path == UPLOAD:
        return int(settings.UPLOAD_MAX_BYTES) + FORM_ROOM
    if path.startswith("/admin/"):
        return ADMIN_FILES * int(settings.UPLOAD_MAX_BYTES) + FORM_ROOM
    return OTHERS


class BodyLimit:
    """Wraps an ASGI application: a larger body is answered with 413 and read no further."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        limit = limit_for(scope["path"])
        if _announced(scope) > limit:
            await _refuse(scope, send, limit)
            return
        await self._count(scope, receive, send, limit)

    async def _count(self, scope: MutableMapping[str, Any], receive: Receive, send: Send, limit: int) -> None:
        received = 0
        refused = False

        async def counted() -> Message:
            nonlocal received, refused
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit and not refused:
                refused = True
                await _refuse(scope, send, limit)
            # For the application the client is gone: it drops what it has.
            return {"type": "http.disconnect"} if refused else message

        async def unless_refused(message: Message) -> None:
            if not refused:
                await send(message)

        await self.application(scope, counted, unless_refused)


def _announced(scope: MutableMapping[str, Any]) -> int:
    """The Content-Length, 0 where there is none (or no number: the server has refused that already)."""
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(text) if text.isdigit() else 0


async def _refuse(scope: MutableMapping[str, Any], send: Send, limit: int) -> None:
    code = "file_too_large" if scope["path"] == UPLOAD else "request_too_large"
    body = json.dumps(
        {
            "type": f"urn:kbsite:problem:{code}",
            "title": HTTPStatus.REQUEST_ENTITY_TOO_LARGE.phrase,
            "status": int(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
            "detail": f"The request is larger than {limit} bytes, the most that is taken here.",
            "code": code,
            "errors": [],
            "request_id": "",
        }
    ).encode("utf-8")
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode("ascii")),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": int(HTTPStatus.REQUEST_ENTITY_TOO_LARGE), "headers": headers})
    await send({"type": "http.response.body", "body": body})
