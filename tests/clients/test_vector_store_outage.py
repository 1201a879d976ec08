"""A vector store on the network: gone, back, slow. The server here is Milvus Lite's own, on a port of its own."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from milvus_lite.adapter.grpc.server import start_server_in_thread  # type: ignore[import-untyped]

from clients import vector_store
from clients.interfaces import ClientError, ClientTimeout
from clients.vector_store import MilvusVectorStore
from tests.clients.vectors import IDENTITY, axis, chunk


class Server:
    """A Milvus server on loopback that can be switched off and on."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.uri = f"http://127.0.0.1:{self.port}"
        self._folder = str(folder)
        self._running: Any = None
        self.start()

    def start(self) -> None:
        self._running = start_server_in_thread(self._folder, port=self.port)

    def stop(self) -> None:
        if self._running is not None:
            server, database, _port = self._running
            server.stop(grace=None).wait()
            database.close()
            self._running = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "server.db")
    yield running
    running.stop()


@pytest.fixture
def store(server: Server) -> Iterator[MilvusVectorStore]:
    made = MilvusVectorStore(server.uri, identity=lambda: IDENTITY, timeout=5.0)
    yield made
    made.close()


def test_the_first_call_after_an_outage_connects_and_loads_again(server: Server, store: MilvusVectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0))])
    server.stop()
    with pytest.raises(ClientError) as caught:
        store.search(axis(0), 1)
    assert caught.value.code == "store_unavailable"
    assert caught.value.retryable
    assert store.health().status == "down"
    time.sleep(0.1)  # a failed opening rests as long as it took, some milliseconds here
    server.start()
    assert [hit.document_id for hit in store.search(axis(0), 1)] == [1]
    assert store.health().status == "ok"


def test_a_server_that_restarted_unnoticed_costs_no_error(server: Server, store: MilvusVectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0))])
    server.stop()
    server.start()
    assert [hit.document_id for hit in store.search(axis(0), 1)] == [1]
    server.stop()
    server.start()
    store.upsert(2, 1, [chunk(0, axis(0), terms={5: 0.5})])
    assert store.counts() == {(1, 1): 1, (2, 1): 1}
    server.stop()
    server.start()
    assert [hit.document_id for hit in store.search_lexical({5: 1.0}, 1)] == [2]
    server.stop()
    server.start()
    assert list(store.vectors([(2, 1, 0)])) == [(2, 1, 0)]


def test_a_collection_that_another_process_reset_is_opened_again(server: Server, store: MilvusVectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0))])
    other = MilvusVectorStore(server.uri, identity=lambda: IDENTITY)
    other.reset()
    other.upsert(2, 1, [chunk(0, axis(0))])
    assert [hit.document_id for hit in store.search(axis(0), 5)] == [2]
    other.close()
    assert store.health().status == "ok"


def test_a_server_that_lets_callers_wait_is_not_asked_by_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def slow(uri: str, timeout: float) -> Any:
        asked.append(uri)
        time.sleep(0.5)
        raise ClientTimeout("no answer", code="store_timeout", hint="look at it")

    monkeypatch.setattr(vector_store, "connect", slow)
    store = MilvusVectorStore("http://127.0.0.1:1", identity=lambda: IDENTITY)
    for _ in range(5):
        with pytest.raises(ClientTimeout) as caught:
            store.open()
        assert (caught.value.code, caught.value.hint) == ("store_timeout", "look at it")
    assert len(asked) < 5


def test_a_password_in_the_address_is_in_no_message() -> None:
    store = MilvusVectorStore("http://root:s3cret@127.0.0.1:1", identity=lambda: IDENTITY, timeout=1.0)
    with pytest.raises(ClientError) as caught:
        store.open()
    assert caught.value.code == "store_unavailable"
    assert "s3cret" not in f"{caught.value} {caught.value.hint} {store.health()}"
