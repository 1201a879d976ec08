"""The way to the model: proxies and certificates by the usual variables, on real loopback servers."""

from __future__ import annotations

import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clients import llm as llm_module
from clients.interfaces import ClientError, LLMMessage
from clients.llm import OpenAILLM
from tests.clients.llm_server import LLMServer, chunks_of, completion, llm_server, streamed

__all__ = ["llm_server"]

QUESTION = [LLMMessage("user", "Why?")]
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_module, "FIRST_WAIT", 0.01)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Proxy:
    """A proxy that leads everything to one server, and writes down what it was asked for."""

    def __init__(self, leads_to: LLMServer, *, password: str = "") -> None:
        self.asked: list[str] = []
        host, port = leads_to._http.server_address[:2]
        address = (str(host), int(port))
        asked = self.asked

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += self.request.recv(65536)
                line, _, rest = head.partition(b"\r\n")
                asked.append(line.decode())
                if password and b"proxy-authorization: basic" not in head.lower():
                    self.request.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                    self.request.shutdown(socket.SHUT_WR)
                    while self.request.recv(65536):  # closing on what is unread would take the answer back
                        pass
                    return
                with socket.create_connection(address) as onward:
                    if line.startswith(b"CONNECT "):
                        self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    else:
                        path = b"/" + line.split(b" ")[1].split(b"/", 3)[3]
                        onward.sendall(b"POST " + path + b" HTTP/1.1\r\n" + rest)
                    _both_ways(self.request, onward)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _both_ways(one: socket.socket, other: socket.socket) -> None:
    there = threading.Thread(target=_pump, args=(one, other), daemon=True)
    there.start()
    _pump(other, one)
    there.join(20)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:  # one of them went away
        return


@pytest.fixture
def proxy(llm_server: LLMServer) -> Iterator[Proxy]:
    one = Proxy(llm_server)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of an authority of our own (``ca.pem``), and one of it for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("authority")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "san.txt").write_text("subjectAltName=IP:127.0.0.1,DNS:model.test\nbasicConstraints=CA:FALSE\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Our own CA")
    run("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=model.test")
    signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san.txt")
    run("x509", "-req", "-in", "server.csr", *signed_by, "-out", "server.pem", "-days", "2")
    return folder


@pytest.fixture
def tls_server(authority: Path) -> Iterator[LLMServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    server = LLMServer(tls=context)
    server.say("Because.")
    yield server
    server.stop()


def answer(base_url: str, **patience: float) -> str:
    with closing(OpenAILLM("test-model", base_url, "key", **{"timeout": 20, **patience})) as llm:
        return llm.complete(QUESTION).text


def failure(base_url: str) -> ClientError:
    with pytest.raises(ClientError) as caught:
        answer(base_url)
    assert caught.value.code == "llm_unreachable"
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_proxy_leads_to_a_host_that_is_known_to_it_alone(
    llm_server: LLMServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm_server.say("Because.")
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    assert answer("http://model.test/v1") == "Because."
    assert proxy.asked == ["POST http://model.test/v1/chat/completions HTTP/1.1"]
    assert llm_server.requests[0].path == "/v1/chat/completions"


def test_hosts_without_a_proxy_are_asked_straight(
    llm_server: LLMServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm_server.say("Because.")
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1")
    assert answer(llm_server.base_url) == "Because."
    assert proxy.asked == []


def test_a_proxy_that_asks_for_a_password_is_said(llm_server: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    llm_server.say("Because.")
    proxy = Proxy(llm_server, password="x")
    try:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        error = failure("http://model.test/v1")
        assert "asks for a password" in str(error)
        assert "HTTPS_PROXY" in error.hint
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        error = failure("https://model.test/v1")
        assert "407" in str(error)
        assert "The proxy named in HTTPS_PROXY" in error.hint
        assert len(proxy.asked) == 2
        monkeypatch.setenv("HTTP_PROXY", f"http://someone:s3cret@{proxy.address}")
        assert answer("http://model.test/v1") == "Because."
    finally:
        proxy.stop()


def test_a_proxy_that_is_not_there_is_said_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://someone:s3cret@127.0.0.1:1")
    error = failure("http://model.test/v1")
    assert "s3cret" not in f"{error} {error.hint}"


@pytest.mark.parametrize("address", ["foo://127.0.0.1:1", "http://127.0.0.1:port", "socks5://127.0.0.1:1"])
def test_a_proxy_that_is_no_address_is_said(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    assert "HTTPS_PROXY" in failure("https://model.test/v1").hint


def test_an_unknown_authority_is_said_with_the_variable_that_names_it(tls_server: LLMServer) -> None:
    error = failure(tls_server.base_url)
    assert not error.retryable
    assert "CERTIFICATE_VERIFY_FAILED" in str(error)
    assert "SSL_CERT_FILE" in error.hint
    assert tls_server.requests == []


def test_an_authority_in_a_file_is_trusted(
    tls_server: LLMServer, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
    assert answer(tls_server.base_url) == "Because."


def test_an_authority_in_a_folder_is_trusted(
    tls_server: LLMServer, authority: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(authority / "ca.pem")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    shutil.copy(authority / "ca.pem", tmp_path / f"{name}.0")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert answer(tls_server.base_url) == "Because."


def test_a_certificate_for_another_host_is_refused(
    tls_server: LLMServer, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
    failure(tls_server.base_url.replace("127.0.0.1", "localhost"))
    assert tls_server.requests == []


def test_a_tunnel_through_a_proxy_is_encrypted_to_its_end(
    tls_server: LLMServer, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(tls_server)
    try:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        assert "SSL_CERT_FILE" in failure("https://model.test/v1").hint
        monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
        assert answer("https://model.test/v1") == "Because."
        assert proxy.asked == ["CONNECT model.test:443 HTTP/1.1"] * 2
    finally:
        proxy.stop()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_certificates_that_is_none_is_said(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    error = failure("https://127.0.0.1:1/v1")
    assert "SSL_CERT_FILE" in error.hint
    assert not error.retryable


def test_silence_in_an_encrypted_stream_is_noticed(
    tls_server: LLMServer, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
    tls_server._replies.clear()
    tls_server.reply(streamed(*chunks_of(completion("Because.")), hang_after=300))
    with pytest.raises(ClientError, match="fell silent") as caught:
        answer(tls_server.base_url, idle_timeout=0.3)
    assert caught.value.code == "llm_timeout"
