"""A scripted OpenAI-compatible server on loopback, for every test that needs a language model.

    def test_…(llm_server: LLMServer) -> None:
        llm_server.say("An answer [1].")
        llm = OpenAILLM("test-model", llm_server.base_url, "test-key")

Replies are given in the order in which they were scripted; the last one is given again until another is scripted.
What ``say`` and ``json`` script is streamed to a client that asks for a stream. ``llm_personas`` has whole providers.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Reply:
    """One scripted answer.

    ``cut`` closes the connection after that many bytes of the body, ``hang`` says nothing at all, ``hang_after`` falls
    silent after that many bytes of the body, ``pause`` is silent for so many seconds before it, ``drip`` sends the body
    byte by byte, that many seconds apart.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    hang: bool = False
    hang_after: int | None = None
    pause: float = 0.0
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


def chunks_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chunks in which OpenAI streams a completion; the text five characters at a time, usage in the last one."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000}
    head |= {name: whole[name] for name in ("model",) if name in whole}
    choices = whole.get("choices") or []
    if not (choices and isinstance(choices[0], dict)):
        return [{**head, "choices": choices}]
    message = choices[0].get("message")
    if not isinstance(message, dict):
        return [{**head, "choices": [{"index": 0, "delta": message}]}]
    content = message.get("content")
    pieces = [content[at : at + 5] for at in range(0, len(content), 5)] if isinstance(content, str) else [content]
    deltas = [{**message, "content": None}, *({"content": piece} for piece in pieces)]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if "finish_reason" in choices[0]:
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choices[0]["finish_reason"]}]})
    if "usage" in whole:
        chunks.append({**head, "choices": [], "usage": whole["usage"]})
    return chunks


def events(chunks: Iterable[object], *, done: bool = True) -> bytes:
    """Chunks as server-sent events; text stands for itself (a comment, or an event that is not JSON)."""
    told = [chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}" for chunk in chunks]
    return "".join(f"{line}\n\n" for line in [*told, *(["data: [DONE]"] if done else [])]).encode()


def streamed(*chunks: object, done: bool = True, **more: Any) -> Reply:
    """A stream of these chunks, whatever the client asks for; ``more`` as in ``Reply``."""
    return Reply(events(chunks, done=done), headers={"Content-Type": "text/event-stream"}, **more)


def as_asked(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Callable[[Request], Reply]:
    """A completion as a stream for the client that asks for one; an error, or what is no completion, always whole."""

    def answer(request: Request) -> Reply:
        if status == 200 and request.body.get("stream") and isinstance(body, dict) and "choices" in body:
            return streamed(*chunks_of(body))
        return Reply(json.dumps(body).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    return answer


class LLMServer:
    """The server: script it, point a client at ``base_url``, look at ``requests``."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.ended = threading.Event()
        self._replies: list[Reply | Callable[[Request], Reply]] = []
        self._last: Reply | Callable[[Request], Reply] = Reply(b'{"error": {"message": "no answer was scripted"}}', 400)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}/v1"

    def reply(self, *replies: Reply | Callable[[Request], Reply]) -> None:
        """Script the next answers; a callable makes its answer from the request."""
        self._replies.extend(replies)

    def json(self, body: object, status: int = 200, **headers: str) -> None:
        """Script a JSON answer. ``retry_after="1"`` becomes the header ``Retry-After``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reply(as_asked(body, status, named))

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
            if reply.hang_after is None:  # else only the end of the connection would be the end of the body
                self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            server.ended.wait(reply.pause)
            try:
                if reply.drip:
                    for place in range(len(reply.body)):
                        self.wfile.write(reply.body[place : place + 1])
                        if server.ended.wait(reply.drip):
                            return
                    return
                self.wfile.write(reply.body[: reply.hang_after if reply.cut is None else reply.cut])
                if reply.hang_after is not None:
                    self.wfile.flush()
                    server.ended.wait(60)
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
