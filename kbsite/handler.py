"""Django behind ASGI with one hop: a request's signals, middleware and view all run in one thread of a pool.

Django's own handler keeps the middleware chain asynchronous and sends each synchronous part to a thread by itself, with
a new thread and a new database connection for every request: 11 ms of processor time for one that does nothing. All of
today's views are synchronous. A view that streams belongs behind Django's own handler, from ``kbsite/asgi.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, cast

from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.core.signals import request_started
from django.http.response import FileResponse, HttpResponseBase
from django.urls import set_script_prefix

THREADS = 40
"""Requests at once."""
QUESTION_THREADS = 24
"""Questions at once. A model may hold one for a minute: they have threads of their own, so that the rest answers."""
QUESTION_PATHS = frozenset({"/ask/", "/api/v1/chat/"})

Scope = MutableMapping[str, Any]
Body = IO[bytes]


class ThreadedHandler(ASGIHandler):
    """The pool's threads live on, and so do their database connections (``CONN_MAX_AGE``)."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)  # not ASGIHandler's, which would load an asynchronous chain
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._questions = ThreadPoolExecutor(QUESTION_THREADS, thread_name_prefix="question")

    async def __call__(
        self,
        scope: Scope,
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Read the body, answer in a thread, send the answer."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop = asyncio.get_running_loop()
        threads = self._questions if scope["path"] in QUESTION_PATHS else self._threads
        response = await loop.run_in_executor(threads, self._answer, scope, body)
        await self.send_response(response, send)
        if response.streaming:
            await loop.run_in_executor(self._threads, response.close)

    def _answer(self, scope: Scope, body: Body) -> HttpResponseBase:
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=self.__class__, scope=scope)
        with body:
            request, refusal = self.create_request(scope, body)
            response = self.get_response(request) if request is not None else cast(HttpResponseBase, refusal)
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()  # its content stays; Django looks after the thread's connection now
        return response
