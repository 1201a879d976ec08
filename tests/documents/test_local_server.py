"""How commands reach the running server, and that nobody else does."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.http import Http404, HttpRequest, HttpResponse
from django.test import RequestFactory

from documents import local_server
from documents.data_dir import DataDirInUse, hold_data_dir
from documents.local_server import LocalServerError, announce_server, call_running_server, internal, withdraw_server

GONE = 2**22 + 1
"""No process has this id (above the kernel's largest)."""


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return tmp_path / "data"


@internal
def echo(payload: dict[str, Any]) -> dict[str, Any]:
    return {"echo": payload}


def knock(token: str = "", **changes: Any) -> HttpResponse:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    meta = {"REMOTE_ADDR": "127.0.0.1", **changes}
    request = RequestFactory(headers=headers).post(
        "/internal/echo/", {"a": "中"}, content_type="application/json", **meta
    )
    return echo(request)


def token_of(folder: Path) -> str:
    return str(json.loads((folder / "server.json").read_text())["token"])


def test_the_file_is_for_its_owner_only(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    path = data_dir / "server.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert (content["url"], content["pid"]) == ("http://127.0.0.1:8000", os.getpid())
    assert len(content["token"]) >= 32
    assert [entry.name for entry in data_dir.iterdir()] == ["server.json"]


def test_each_start_has_a_fresh_token(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    first = token_of(data_dir)
    announce_server("http://127.0.0.1:8000")
    assert token_of(data_dir) != first
    with pytest.raises(Http404):
        knock(first)


@pytest.mark.parametrize(
    ("bound", "called"),
    [
        ("http://0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://[::]:80", "http://[::1]:80"),
        ("http://localhost:9", "http://localhost:9"),
    ],
)
def test_a_server_on_every_address_is_called_on_loopback(data_dir: Path, bound: str, called: str) -> None:
    announce_server(bound)
    assert json.loads((data_dir / "server.json").read_text())["url"] == called


def test_withdrawing_removes_ones_own_file_only(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    withdraw_server()
    assert not (data_dir / "server.json").exists()
    withdraw_server()
    (data_dir / "server.json").write_text(json.dumps({"url": "http://x", "pid": os.getppid(), "token": "t"}))
    withdraw_server()
    assert (data_dir / "server.json").exists()


def test_the_token_opens_an_internal_route_from_this_machine(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    answer = knock(token_of(data_dir))
    assert json.loads(answer.content) == {"echo": {"a": "中"}}
    assert "中".encode() in answer.content
    assert knock(token_of(data_dir), REMOTE_ADDR="::1").status_code == 200


def test_without_the_token_or_from_elsewhere_there_is_no_such_route(data_dir: Path) -> None:
    with pytest.raises(Http404):
        knock("anything")
    announce_server("http://127.0.0.1:8000")
    token = token_of(data_dir)
    for sent, changes in (
        ("", {}),
        ("wrong", {}),
        ("中", {}),
        (token, {"REMOTE_ADDR": "10.0.0.7"}),
        (token, {"REMOTE_ADDR": ""}),
        (token, {"HTTP_X_FORWARDED_FOR": "10.0.0.7"}),
    ):
        with pytest.raises(Http404):
            knock(sent, **changes)


def test_an_internal_route_takes_a_json_object_by_post(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    factory = RequestFactory(headers={"Authorization": f"Bearer {token_of(data_dir)}"})

    def send(request: HttpRequest) -> int:
        return echo(request).status_code

    assert send(factory.get("/internal/echo/")) == 405
    for body in ("[1]", "{", "", "7"):
        assert send(factory.post("/internal/echo/", body, content_type="application/json")) == 400


# ---- The calling side ----------------------------------------------------------------------------------------------
class Answerer(BaseHTTPRequestHandler):
    """A server that remembers what it was sent and answers what it was told to."""

    seen: ClassVar[list[dict[str, Any]]] = []
    answer: ClassVar[tuple[int, bytes]] = (200, b"{}")

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        type(self).seen.append({**dict(self.headers), "path": self.path, "body": self.rfile.read(length)})
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server(data_dir: Path) -> Iterator[type[Answerer]]:
    Answerer.seen, Answerer.answer = [], (200, b'{"found": true}')
    web = HTTPServer(("127.0.0.1", 0), Answerer)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    announce_server(f"http://127.0.0.1:{web.server_port}")
    path = data_dir / "server.json"
    # The parent process stands for a server: it lives, and is not this one.
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": os.getppid()}))
    yield Answerer
    web.shutdown()
    thread.join()
    web.server_close()


def test_a_command_calls_the_running_server_with_its_token(
    server: type[Answerer], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # never used for this machine itself
    assert call_running_server("/internal/lookup/", {"query": "支付"}) == {"found": True}
    [sent] = server.seen
    assert sent["path"] == "/internal/lookup/"
    assert sent["Authorization"] == f"Bearer {token_of(data_dir)}"
    assert json.loads(sent["body"]) == {"query": "支付"}


def test_a_site_under_its_own_name_lets_its_commands_in(server: type[Answerer], settings: Any) -> None:
    settings.ALLOWED_HOSTS = [".kb.example"]
    call_running_server("/internal/lookup/", {})
    assert server.seen[0]["Host"] == "kb.example"


def test_a_refusal_of_the_server_is_one_line_with_its_code(server: type[Answerer]) -> None:
    server.answer = (503, json.dumps({"detail": "The store is locked.", "code": "store_locked"}).encode())
    with pytest.raises(LocalServerError, match=r"The store is locked\.") as refusal:
        call_running_server("/internal/lookup/", {})
    assert refusal.value.code == "store_locked"
    server.answer = (500, b"<html>")
    with pytest.raises(LocalServerError, match="answered 500"):
        call_running_server("/internal/lookup/", {})


def test_an_answer_that_is_no_object_is_an_error(server: type[Answerer]) -> None:
    server.answer = (200, b"[]")
    with pytest.raises(LocalServerError):
        call_running_server("/internal/lookup/", {})


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "x"}', '{"url": "x", "pid": "me", "token": "t"}'])
def test_a_broken_file_counts_as_no_server(data_dir: Path, content: str) -> None:
    (data_dir / "server.json").write_text(content)
    assert call_running_server("/internal/lookup/", {}) is None


@pytest.mark.parametrize("pid", [GONE, 0, -1, 10**30])
def test_a_file_of_a_dead_process_is_ignored(data_dir: Path, pid: int) -> None:
    (data_dir / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": pid, "token": "t"}))
    assert local_server.running_server() is None
    assert call_running_server("/internal/lookup/", {}) is None


def test_a_dead_server_whose_pid_is_somebody_elses_is_ignored(data_dir: Path) -> None:
    content = {"url": "http://127.0.0.1:1", "pid": os.getppid(), "token": "t"}
    (data_dir / "server.json").write_text(json.dumps(content))
    assert call_running_server("/internal/lookup/", {}) is None


def test_no_file_is_no_server_and_a_server_does_not_call_itself(data_dir: Path) -> None:
    assert call_running_server("/internal/lookup/", {}) is None
    announce_server("http://127.0.0.1:1")
    assert call_running_server("/internal/lookup/", {}) is None


# ---- The folder's lock ---------------------------------------------------------------------------------------------
def test_a_second_process_is_told_in_one_line_who_holds_the_folder(data_dir: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom documents.data_dir import hold_data_dir, DataDirInUse\n"
        "try:\n    with hold_data_dir(Path(sys.argv[1])):\n        print('held')\n"
        "except DataDirInUse as refusal:\n    print(refusal)\n"
    )

    def other() -> str:
        command = [sys.executable, "-c", code, str(data_dir)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with hold_data_dir(data_dir):
        said = other()
        assert "\n" not in said
        assert str(data_dir) in said
        assert str(os.getpid()) in said
        with pytest.raises(DataDirInUse):
            hold_data_dir(data_dir).__enter__()
    assert other() == "held"


def test_a_folder_that_is_missing_is_made_and_a_crash_leaves_nothing_held(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with pytest.raises(RuntimeError), hold_data_dir(folder):
        raise RuntimeError
    with hold_data_dir(folder):
        assert (folder / "lock").read_text().strip() == str(os.getpid())
