"""Several processes of one site: web processes as in production, Celery workers, the beat."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from bench.site_process import ROOT, SiteProcess
from tests.services.reachable import MILVUS

Answer = TypeVar("Answer")
PATIENCE = 60.0
BOUNDARY = "kbsite-services-boundary"


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> float:
    """Wait for something that must come; how long it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return time.monotonic() - began


class Child:
    """One process in a session of its own, with a log."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def says(self, text: str) -> bool:
        """Whether its log has this."""
        if self.process.poll() is not None:
            raise RuntimeError(f"ended with {self.process.returncode}; its log ends:\n{self.tail()}")
        return text in self.log.read_text(errors="replace")

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """SIGKILL to it and its children: as a machine that loses power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit code; killed where it does not end."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class WebProcess(SiteProcess):
    """One gunicorn with one worker on a port of its own, so that a test can choose which process it asks."""

    child: Child

    def serve(self) -> None:
        """As production does it (deploy/web.py), with one process."""
        self.child = Child("web-" + str(self.port), self.folder, self.environment, "gunicorn", *self._arguments())
        self.log = self.child.log

    def _arguments(self) -> list[str]:
        return ["-c", "deploy/web.py", "-w", "1", "-b", f"127.0.0.1:{self.port}"]

    def upload(self, name: str, text: str, category: str = "payment", **headers: str) -> tuple[int, Any]:
        """``POST /documents/``: status and answer."""
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="category"\r\n\r\n{category}\r\n',
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            f"Content-Type: text/markdown\r\n\r\n{text}\r\n--{BOUNDARY}--\r\n",
        ]
        body = "".join(parts).encode()
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        return self.call("POST", "/api/v1/documents/", body, content_type=kind, headers=headers)


class Fleet:
    """The processes of one site on one database, one Redis, one broker, one folder."""

    def __init__(self, folder: Path, variables: dict[str, str], *, milvus: bool = False) -> None:
        """With ``milvus`` the vectors lie on the server that VECTOR_STORE_TEST_URI names, where it names one."""
        self.folder = folder
        self.store = folder / "vectors" / "rows"
        self.milvus = MILVUS.url if milvus else ""
        self.collection = f"kbsite_test_{secrets.token_hex(4)}"
        self.variables = {
            "DJANGO_SETTINGS_MODULE": "tests.services.site_settings",
            "SECRET_KEY": secrets.token_hex(32),
            "PYTHONPATH": str(ROOT),
            **self._vector_store(),
            **variables,
        }
        self.children: list[Child] = []
        self.webs: list[WebProcess] = []

    def _vector_store(self) -> dict[str, str]:
        if self.milvus:
            return {"VECTOR_STORE_URI": self.milvus, "KBSITE_TEST_COLLECTION": self.collection}
        return {"VECTOR_STORE_URI": "http://127.0.0.1:9", "KBSITE_TEST_STORE": str(self.store)}

    def web(self, **variables: str) -> WebProcess:
        """One more web process, ready. The first one prepares the database."""
        site = WebProcess(self.folder)
        site.environment |= {**self.variables, **variables}
        if not self.webs:
            prepared = site.command("bootstrap")
            if prepared.returncode != 0:
                raise RuntimeError(prepared.stderr)
            site.make_key()
        else:
            site.key = self.webs[0].key
        site.serve()
        self.children.append(site.child)
        self.webs.append(site)
        until(lambda: site.status("/healthz") == 200 or not site.child.says(""), "the web process answers")
        return site

    def worker(self, *, beat: bool = False, **variables: str) -> Child:
        """One more Celery worker as in production, listening."""
        environment = {**self.webs[0].environment, **variables}
        queue = environment.get("CELERY_QUEUE", "kbsite")
        options = ["-Q", f"{queue},{queue}-llm", "--pool", "threads", "--concurrency", "4", "--loglevel", "INFO"]
        name = f"worker-{len(self.children)}"
        child = Child(
            name, self.folder, environment, "celery", "-A", "kbsite", "worker", *options, "-n", f"{queue}-{name}@%h"
        )
        self.children.append(child)
        until(lambda: child.says(" ready."), "the worker listens")
        return child

    def beat(self, every: float) -> Child:
        """The beat, sweeping every so many seconds."""
        environment = {**self.webs[0].environment, "KBSITE_TEST_SWEEP": str(every)}
        child = Child(
            "beat", self.folder, environment, "celery", "-A", "kbsite", "beat", "--pidfile=", "--loglevel", "INFO"
        )
        self.children.append(child)
        return child

    def at_once(self, count: int, call: Callable[[WebProcess, int], Answer]) -> list[Answer]:
        """So many calls at the same time, the web processes in turn; their answers in order of their numbers."""
        with ThreadPoolExecutor(count) as threads:
            calls = [threads.submit(call, self.webs[n % len(self.webs)], n) for n in range(count)]
            return [one.result() for one in calls]

    def hold_writes(self) -> None:
        """From now on a worker stops in the midst of a document, before its vectors are written."""
        self.store.parent.mkdir(parents=True, exist_ok=True)
        self.store.with_name("held").unlink(missing_ok=True)
        self.store.with_name("hold").touch()

    def is_held(self) -> bool:
        """Whether one has stopped there."""
        return self.store.with_name("held").exists()

    def release_writes(self) -> None:
        """Let them go on."""
        self.store.with_name("hold").unlink(missing_ok=True)

    def stop(self) -> None:
        """End every process; those that do not end by themselves are killed."""
        self.release_writes()
        living = [child for child in self.children if child.process.poll() is None]
        for child in living:
            child.process.terminate()
        deadline = time.monotonic() + 15
        for child in living:
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
        if self.milvus:
            from pymilvus import MilvusClient

            MilvusClient(self.milvus).drop_collection(self.collection)
