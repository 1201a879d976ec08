"""The handler behind ASGI: questions that wait for a model leave the threads of all other requests alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kbsite.handler import QUESTION_THREADS, ThreadedHandler


def scope(path: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [(b"host", b"testserver")]}


async def ask(handler: ThreadedHandler, path: str) -> int:
    """One request; its status."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await handler(scope(path), receive, send)
    return int(sent[0]["status"])


def test_more_questions_than_threads_leave_the_site_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = ThreadedHandler()
    waiting, released = threading.Semaphore(0), threading.Event()
    answered = handler._answer

    def slow_for_questions(scope: Any, body: Any) -> Any:
        if scope["path"] == "/api/v1/chat/":
            waiting.release()
            released.wait(30)
        return answered(scope, body)

    monkeypatch.setattr(handler, "_answer", slow_for_questions)

    async def story() -> tuple[int, list[int]]:
        questions = [asyncio.create_task(ask(handler, "/api/v1/chat/")) for _ in range(QUESTION_THREADS + 40)]
        await asyncio.sleep(0)
        for _ in range(QUESTION_THREADS):
            assert await asyncio.to_thread(waiting.acquire, timeout=30)
        health = await asyncio.wait_for(ask(handler, "/healthz"), 30)
        released.set()
        return health, await asyncio.gather(*questions)

    health, others = asyncio.run(story())
    assert health == 200
    assert set(others) == {401}  # nobody has signed in


def test_an_answer_is_the_views_answer() -> None:
    handler = ThreadedHandler()
    assert asyncio.run(ask(handler, "/healthz")) == 200
    assert asyncio.run(ask(handler, "/api/v1/nothing-here/")) == 404
