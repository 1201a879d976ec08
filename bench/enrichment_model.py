"""A language model for measuring: an OpenAI-compatible endpoint on loopback that answers after a fixed time.

It keeps what it was asked: which documents, how often, and how many at once.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PATH = re.compile(r'^path: "([^"]+)"', re.MULTILINE)


class MeasuredModel:
    """Begin with :meth:`start`; ``seconds`` is how long one answer takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked: Counter[str] = Counter()
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def start(self) -> None:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, body: dict[str, Any]) -> bytes:
        """The completion for one request, after its time."""
        text = str(body["messages"][-1]["content"])
        found = _PATH.search(text)
        with self._lock:
            self.asked[found[1] if found else ""] += 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(self.seconds)
        with self._lock:
            self._now -= 1
        return json.dumps(_completion(found[1] if found else "")).encode()


def _completion(path: str) -> dict[str, Any]:
    name = path.rpartition("/")[2].removesuffix(".md")
    fields = {
        "title": f"Runbook {name}",
        "summary": f"What to do when {name} stops, and whom to call.",
        "keywords": [name, "standby restart"],
        "covers": [f"{name} stops answering", "The standby has to take over"],
        "when_to_retrieve": f"When {name} does not answer or its standby has to take over.",
    }
    message = {"role": "assistant", "content": json.dumps(fields)}
    return {"model": "measured", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}


def _handler_for(model: MeasuredModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = model.answer(json.loads(raw))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Only figures are printed."""

    return Handler
