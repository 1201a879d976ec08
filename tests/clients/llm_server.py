"""A scripted OpenAI-compatible server on loopback, for every test that needs a language model.

    def test_…(llm_server: LLMServer) -> None:
        llm_server.say("An answer [1].")
        llm = OpenAILLM("test-model", llm_server.base_url, "test-key")

Replies are given in the order in which they were scripted; the last one is given again until another is scripted.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Reply:
    """One scripted answer.

    ``cut`` closes the connection after that many bytes of the body, ``hang`` says nothing at all, ``drip`` sends the
    body byte by byte, that many seconds apart.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    hang: bool = False
    drip: float = 0.0


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


def completion(content: Any, **message: Any) -> dict[str, Any]:
    """A chat completion as OpenAI gives it."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "served-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
    }


class LLMServer:
    """The server: script it, point a client at ``base_url``, look at ``requests``."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.ended = threading.Event()
        self._replies: list[Reply | Callable[[Request], Reply]] = []
        self._last: Reply | Callable[[Request], Reply] = Reply(b'{"error": {"message": "no answer was scripted"}}', 400)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def reply(self, *replies: Reply | Callable[[Request], Reply]) -> None:
        """Script the next answers; a callable makes its answer from the request."""
        self._replies.extend(replies)

    def json(self, body: object, status: int = 200, **headers: str) -> None:
        """Script a JSON answer. ``retry_after="1"`` becomes the header ``Retry-After``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reply(Reply(json.dumps(body).encode(), status, {"Content-Type": "application/json", **named}))

    def say(self, *texts: str) -> None:
        """Script plain answers."""
        for text in texts:
            self.json(completion(text))

    def next_reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            if self._replies:
                self._last = self._replies.pop(0)
            scripted = self._last
        return scripted(request) if callable(scripted) else scripted

    def stop(self) -> None:
        self.ended.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _handler_for(server: LLMServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.next_reply(Request(self.path, headers, json.loads(raw or b"{}")))
            self.close_connection = True
            if reply.hang:
                server.ended.wait(60)
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            try:
                if reply.drip:
                    for place in range(len(reply.body)):
                        self.wfile.write(reply.body[place : place + 1])
                        if server.ended.wait(reply.drip):
                            return
                    return
                self.wfile.write(reply.body[: reply.cut])
                if reply.cut is not None:
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client went away
                return

        def log_message(self, format: str, *args: Any) -> None:
            """Tests look at ``requests``; nothing goes to the console."""

    return Handler


@pytest.fixture
def llm_server() -> Iterator[LLMServer]:
    """A scripted language model for one test. Import it into the test module, or name it in a conftest."""
    server = LLMServer()
    yield server
    server.stop()
