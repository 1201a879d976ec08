"""An OpenAI-compatible embeddings endpoint on loopback: real HTTP, vectors by hashing, misbehaviour on demand."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from clients.embedding_hashing import HashingEmbedder

DIMENSION = 1024


class EmbeddingEndpoint(ThreadingHTTPServer):
    """``requests`` holds the bodies received; ``status`` other than 200 refuses, ``spoil`` changes the data."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.status = 200
        self.hold: threading.Event | None = None
        self.spoil: Any = lambda data: data
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def stop(self) -> None:
        if self.hold is not None:
            self.hold.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingEndpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.keys.append(self.headers.get("Authorization", ""))
        if self.server.hold is not None:
            self.server.hold.wait()
        if self.server.status != 200:
            self._answer(self.server.status, {"error": {"message": "refused by the test", "type": "test"}})
            return
        if any(not text.strip() for text in body["input"]):  # as the real ones do
            self._answer(400, {"error": {"message": "input must not be empty", "type": "invalid_request_error"}})
            return
        rows = HashingEmbedder().embed_documents(body["input"]) * 3.0  # real ones need not be of unit length
        data = [{"object": "embedding", "index": i, "embedding": row.tolist()} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        answer = {"object": "list", "data": self.server.spoil(data[::-1]), "model": body["model"], "usage": usage}
        self._answer(200, answer)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.send_header("retry-after-ms", "1")  # the SDK tries again at once
            self.end_headers()
            self.wfile.write(payload)
        except ConnectionError:
            pass  # the client had given up

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
