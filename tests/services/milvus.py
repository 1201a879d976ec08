"""`make milvus-test`: start a real Milvus server, run on it what concerns the vector store, stop it whatever happens.

The server comes from an environment of its own (`milvus` pins old versions), the tests run in the project's.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.site_process import free_port

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    ["tests/clients/test_vector_store_contract.py", "-k", "server"],
    ["tests/services/test_four_processes.py"],
)
# Every port that the server takes; free ones, so that two can run on one machine.
PORTS = (
    "etcd",
    *(f"{part}-coord" for part in ("root", "query", "index", "data")),
    *(f"{part}-node" for part in ("query", "index", "data")),
    "proxy",
    "proxy-internal",
)
START_SECONDS = 180


def main(arguments: list[str]) -> int:
    """``python -m tests.services.milvus PATH/milvus-server``: the highest exit code of the tests."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server is stopped on this way out too
    with tempfile.TemporaryDirectory(prefix="kbsite-milvus-") as folder, server(arguments[0], Path(folder)) as uri:
        sys.stdout.write(f"Milvus answers at {uri}\n")
        sys.stdout.flush()
        environment = {**os.environ, "VECTOR_STORE_TEST_URI": uri, "CI_EXPECTS_SERVICES": "milvus"}
        command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-rs"]
        return max(
            subprocess.run([*command, *tests], cwd=ROOT, env=environment, check=False).returncode for tests in TESTS
        )


@contextmanager
def server(program: str, folder: Path) -> Iterator[str]:
    """A server with its data in ``folder``; its address, once it answers. Its children end with it."""
    ports = {name: free_port() for name in PORTS}
    options = [part for name, port in ports.items() for part in (f"--{name}-port", str(port))]
    log = folder / "server.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [program, "--data", str(folder / "data"), *options], stdout=out, stderr=out, start_new_session=True
        )
    try:
        _wait(process, ports["proxy"], log)
        yield f"http://127.0.0.1:{ports['proxy']}"
    finally:
        # Its own stop leaves the server proper running: the whole session is ended.
        for one in (signal.SIGTERM, signal.SIGKILL):
            _end(process, one)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            listens = probe.connect_ex(("127.0.0.1", port)) == 0
        if listens:
            try:
                MilvusClient(f"http://127.0.0.1:{port}", timeout=5).list_collections()
            except MilvusException:
                pass  # it listens before it can answer
            else:
                return
        time.sleep(0.5)
    raise SystemExit(f"Milvus did not start; its log ends:\n{log.read_text(errors='replace')[-3000:]}")


def _end(process: subprocess.Popen[bytes], with_signal: signal.Signals) -> None:
    try:
        os.killpg(process.pid, with_signal)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        process.poll()
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
