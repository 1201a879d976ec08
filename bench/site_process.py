"""A whole site as a process of its own, on a folder of its own: for benchmarks and for tests of start and restart."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SiteProcess:
    """`manage.py bootstrap` and uvicorn, the two steps of `make run`. ``embedder`` defaults to the light one."""

    def __init__(
        self, folder: Path, *, knowledge_base: Path | None = None, embedder: str = "hashing", **variables: str
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
            "DATA_DIR": str(folder / "data"),
            "KNOWLEDGE_BASE_PATH": str(knowledge_base or folder / "knowledge_base"),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "EMBEDDER": embedder,
            "KBSITE_ADMIN_PASSWORD": "a-first-password-1",
            "PYTHONUNBUFFERED": "1",
            **variables,
        }
        self.log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.key = ""

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one `manage.py` command against this site."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def start(self, *, seconds: float = 60) -> SiteProcess:
        """Prepare, serve, and wait until `/readyz` answers."""
        prepared = self.command("bootstrap")
        if prepared.returncode != 0:
            raise RuntimeError(prepared.stderr)
        self.serve()
        self.wait_until(lambda: self.status("/readyz") == 200, seconds=seconds, what="/readyz")
        if not self.key:
            self.make_key()
        return self

    def make_key(self) -> None:
        """A key with every scope, kept for :meth:`call`."""
        scopes = [part for scope in ("read", "write", "ops", "chat") for part in ("--scope", scope)]
        self.key = self.command("create_api_key", "bench", *scopes).stdout.strip().splitlines()[-1]

    def serve(self) -> None:
        """Start the server process without waiting."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "uvicorn",
                    "kbsite.asgi:application",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(self.port),
                    "--log-level",
                    "warning",
                ],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def stop(self, *, with_signal: int = signal.SIGTERM) -> None:
        """End the server and wait for it."""
        if self.process is None:
            return
        self.process.send_signal(with_signal)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def wait_until(self, condition: Callable[[], bool], *, seconds: float, what: str, every: float = 0.05) -> float:
        """Poll until ``condition()``; how long that took. Raises with the end of the log."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if condition():
                return time.monotonic() - began
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(every)
        raise TimeoutError(f"{what} not reached in {seconds} s; the log ends:\n{self.log.read_text()[-3000:]}")

    def status(self, path: str) -> int:
        """The HTTP status of a GET without a key; 0 where nobody answers."""
        try:
            with urlopen(self.url + path, timeout=5) as answer:
                return int(answer.status)
        except HTTPError as refusal:
            return refusal.code
        except (URLError, OSError):
            return 0

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """One call with the key: status and the JSON answer (None where there is no body)."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": content_type, **(headers or {})}
        request = Request(self.url + path, data=data, method=method, headers=sent)
        try:
            with urlopen(request, timeout=120) as answer:
                status, text = int(answer.status), answer.read()
        except HTTPError as refusal:
            status, text = refusal.code, refusal.read()
        return status, json.loads(text) if text else None

    def lookup(self, query: str, **more: str) -> dict[str, Any]:
        """One lookup; raises unless it is answered 200."""
        status, answer = self.call("POST", "/api/v1/lookup/", {"query": query, **more})
        if status != 200:
            raise RuntimeError(f"{status}: {answer}")
        return dict(answer)

    def ready(self) -> dict[str, Any]:
        """What `/readyz` says."""
        with urlopen(self.url + "/readyz", timeout=5) as answer:
            return dict(json.loads(answer.read()))

    def documents(self, **filters: str) -> int:
        """How many documents there are with these filters."""
        query = "&".join(f"{name}={value}" for name, value in {**filters, "page_size": "1"}.items())
        return int(self.call("GET", f"/api/v1/documents/?{query}")[1]["count"])

    def __enter__(self) -> SiteProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
