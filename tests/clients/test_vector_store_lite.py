"""What is particular to a Milvus Lite file: restarts, locks, a broken index, and the traps of the packages."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from milvus_lite.engine import collection  # type: ignore[import-untyped]
from milvus_lite.index.sparse_ip import SparseIpIndex  # type: ignore[import-untyped]

from clients import milvus_collection, milvus_sdk, vector_store
from clients.interfaces import ClientError
from clients.vector_store import UNFLUSHED_ROWS, MilvusVectorStore
from tests.clients.vectors import IDENTITY, axis, chunk, unit, weights

PROJECT = Path(__file__).resolve().parents[2]
WRITES_AND_DIES = """
import os, sys
from clients.vector_store import MilvusVectorStore
from tests.clients.vectors import IDENTITY, axis, chunk
store = MilvusVectorStore(sys.argv[1], identity=lambda: IDENTITY)
store.upsert(1, 1, [chunk(0, axis(0))])
os._exit(9)
"""
OPENS = """
import sys
from clients.interfaces import ClientError
from clients.vector_store import MilvusVectorStore
from tests.clients.vectors import IDENTITY
try:
    MilvusVectorStore(sys.argv[1], identity=lambda: IDENTITY).open()
except ClientError as error:
    print(f"{error.code}: {error} {error.hint}")
"""
IMPORTS = """
import os
import clients.milvus_sdk
print(os.environ["MILVUS_URI"], os.environ.get("PYTHON_DOTENV_DISABLED"), os.environ.get("KBSITE_FROM_DOTENV"))
"""


def _python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings, **environment},
    )


@pytest.fixture
def make_store(tmp_path: Path) -> Any:
    """Makes stores on one file; all are closed afterwards."""
    stores: list[MilvusVectorStore] = []

    def make(**options: Any) -> MilvusVectorStore:
        given = {"uri": str(tmp_path / "milvus.db"), "identity": lambda: IDENTITY, **options}
        stores.append(MilvusVectorStore(**given))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def test_a_restarted_store_answers_with_what_was_written(make_store: Callable[..., MilvusVectorStore]) -> None:
    first = make_store()
    first.upsert(1, 2, [chunk(0, axis(0))])
    first.flush()
    first.upsert(2, 1, [chunk(0, axis(1))])
    first.close()
    second = make_store()
    assert [(hit.document_id, hit.revision) for hit in second.search(axis(0), 5)] == [(1, 2), (2, 1)]
    assert second.counts() == {(1, 2): 1, (2, 1): 1}


def test_a_restarted_store_finds_by_terms_and_by_key(make_store: Callable[..., MilvusVectorStore]) -> None:
    first = make_store()
    first.upsert(1, 2, [chunk(0, axis(0), terms={5: 0.5}), chunk(1, axis(1))])
    first.flush()
    first.upsert(2, 1, [chunk(0, axis(1), terms={5: 0.75, 6: 0.5})])
    first.upsert(1, 2, [chunk(1, axis(2), terms={6: 0.25})])
    first.close()
    second = make_store()
    assert second.has_lexical
    found = [(hit.document_id, hit.number, hit.score) for hit in second.search_lexical({5: 1.0, 6: 1.0}, 5)]
    assert found == [(2, 0, 1.25), (1, 0, 0.5), (1, 1, 0.25)]
    assert second.vectors([(1, 2, 1)])[1, 2, 1] == pytest.approx(axis(2))


def test_a_killed_process_loses_nothing_and_leaves_no_lock(
    make_store: Callable[..., MilvusVectorStore], tmp_path: Path
) -> None:
    assert _python(WRITES_AND_DIES, str(tmp_path / "milvus.db")).returncode == 9
    assert make_store().counts() == {(1, 1): 1}


def test_a_second_process_is_told_in_one_line_what_is_wrong(
    make_store: Callable[..., MilvusVectorStore], tmp_path: Path
) -> None:
    make_store().open()
    told = _python(OPENS, str(tmp_path / "milvus.db"))
    assert told.stdout.startswith("store_locked: ")
    assert "in use by another process" in told.stdout
    assert "stop the other one" in told.stdout
    assert told.stdout.count("\n") == 1
    assert told.stderr == ""


def test_another_embedder_is_refused_until_the_store_is_reset(make_store: Callable[..., MilvusVectorStore]) -> None:
    first = make_store()
    first.upsert(1, 1, [chunk(0, axis(0))])
    first.close()
    for other in (
        replace(IDENTITY, embedder="meanings"),
        replace(IDENTITY, version="2"),
        replace(IDENTITY, terms="meanings"),
        replace(IDENTITY, dimension=16),
    ):
        changed = make_store(identity=lambda other=other: other)
        with pytest.raises(ClientError) as caught:
            changed.search(axis(0), 1)
        assert caught.value.code == "collection_mismatch"
        assert "python manage.py reindex --all" in caught.value.hint
        assert changed.health().status == "down"
        assert "reindex --all" in changed.health().hint
    changed.reset()
    assert changed.counts() == {}
    changed.upsert(1, 1, [chunk(0, unit(1, 16))])
    assert changed.health().status == "ok"


class _PlainDistances:
    """A store as Milvus Lite 3.0 was: its metric L2 answers the root of what a Milvus server answers."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_server_version(self, **_options: Any) -> str:
        return "milvus_lite-3.0.1"

    def search(self, *arguments: Any, **options: Any) -> Any:
        found = self._client.search(*arguments, **options)
        return [[{**hit, "distance": hit["distance"] ** 0.5} for hit in hits] for hits in found]


def test_a_store_that_answers_plain_distances_is_refused(
    make_store: Callable[..., MilvusVectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = make_store()
    proved.upsert(1, 1, [chunk(0, axis(0))])
    proved.close()
    monkeypatch.setattr(vector_store, "connect", lambda *given: _PlainDistances(milvus_sdk.connect(*given)))
    store = make_store()  # the file was proved on another version, which does not count for this one
    with pytest.raises(ClientError) as caught:
        store.search(axis(0), 1)
    assert caught.value.code == "metric_mismatch"
    assert "1.414" in str(caught.value)


class _OldServer:
    """A server as Milvus 2.3 was, which refuses a sparse field."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_server_version(self, **_options: Any) -> str:
        return "v2.3.5"


def _behind_an_old_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_store, "connect", lambda *given: _OldServer(milvus_sdk.connect(*given)))


def test_a_store_without_sparse_vectors_searches_without_them_and_says_so(
    make_store: Callable[..., MilvusVectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as old:
        _behind_an_old_server(old)
        store = make_store()
        store.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5}), chunk(1, axis(1))])
        assert not store.has_lexical
        assert store.search_lexical({5: 1.0}, 5) == []
        assert [hit.number for hit in store.search(axis(0), 5)] == [0, 1]
        assert sorted(store.vectors([(1, 1, 0), (1, 1, 1)])) == [(1, 1, 0), (1, 1, 1)]
        assert store.health().status == "degraded"
        assert "Lexical search is off" in store.health().hint
        store.close()
    upgraded = make_store()  # still holds what the old server made
    assert not upgraded.has_lexical
    assert [hit.number for hit in upgraded.search(axis(0), 5)] == [0, 1]
    assert "reindex --all" in upgraded.health().hint
    upgraded.reset()
    upgraded.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    assert [hit.document_id for hit in upgraded.search_lexical({5: 1.0}, 5)] == [1]
    assert upgraded.health().status == "ok"


@pytest.mark.parametrize(
    ("version", "has"),
    [
        ("v2.3.5", False),
        ("2.3.22-dev", False),
        ("1.9", False),
        ("v2.4.0", True),
        ("2.10.1", True),
        ("3.0", True),
        ("milvus_lite-3.2.2", True),
        ("master-20260101", True),
        ("", True),
    ],
)
def test_sparse_vectors_came_with_version_2_4(version: str, has: bool) -> None:
    assert milvus_collection.has_sparse_vectors(version) is has


def test_a_collection_of_the_layout_before_terms_is_refused_until_the_store_is_reset(
    make_store: Callable[..., MilvusVectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(milvus_collection, "LAYOUT", "1")
        _behind_an_old_server(before)
        first = make_store()
        first.upsert(1, 1, [chunk(0, axis(0))])
        first.close()
    store = make_store()
    with pytest.raises(ClientError) as caught:
        store.search_lexical({5: 1.0}, 1)
    assert caught.value.code == "collection_outdated"
    assert "layout 1" in str(caught.value)
    assert "layout 2" in str(caught.value)
    assert "python manage.py reindex --all" in caught.value.hint
    assert not store.has_lexical
    assert store.health().status == "down"
    store.reset()
    store.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    assert [hit.document_id for hit in store.search_lexical({5: 1.0}, 1)] == [1]


@pytest.mark.parametrize("lost", [["vector"], ["terms"], ["vector", "terms"]])
def test_an_index_that_a_killed_process_did_not_make_is_made_at_the_next_start(
    make_store: Callable[..., MilvusVectorStore], tmp_path: Path, lost: list[str]
) -> None:
    first = make_store()
    first.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    first.close()
    client = milvus_sdk.connect(str(tmp_path / "milvus.db"), 5.0)
    client.release_collection("kbsite_chunks")
    for field in lost:
        client.drop_index("kbsite_chunks", f"{field}_idx")  # so Lite calls the index of one field
    assert not set(lost) & set(client.list_indexes("kbsite_chunks"))
    assert len(client.list_indexes("kbsite_chunks")) == 2 - len(lost)
    milvus_sdk.disconnect(client, str(tmp_path / "milvus.db"), release=True)
    second = make_store()
    assert second._call(lambda opened: sorted(opened.list_indexes("kbsite_chunks"))) == ["terms", "vector"]
    assert [hit.document_id for hit in second.search(axis(0), 1)] == [1]
    assert [hit.document_id for hit in second.search_lexical({5: 1.0}, 1)] == [1]


def test_an_index_file_half_written_is_made_again(
    make_store: Callable[..., MilvusVectorStore], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_store()
    first.upsert(1, 1, [chunk(0, axis(0)), chunk(1, axis(1), terms={5: 0.5})])
    first.flush()
    first.search(axis(0), 1)
    first.search_lexical({5: 1.0}, 1)
    first.close()
    broken = list((tmp_path / "milvus.db").rglob("*.idx"))
    assert broken, "Milvus Lite keeps its index in other files now: mend this test"
    for file in broken:
        file.write_bytes(file.read_bytes()[:20])
    with caplog.at_level(logging.WARNING):
        second = make_store()
        assert [hit.number for hit in second.search(axis(1), 2)] == [1, 0]
    assert [hit.number for hit in second.search_lexical({5: 1.0}, 2)] == [1]
    assert "making its indexes again" in caplog.text


def test_threads_that_open_at_once_share_one_store(make_store: Callable[..., MilvusVectorStore]) -> None:
    stores = [make_store(), make_store()]
    failed: list[ClientError] = []

    def search(store: MilvusVectorStore) -> None:
        try:
            store.search(axis(0), 1)
        except ClientError as error:
            failed.append(error)

    threads = [threading.Thread(target=search, args=[stores[place % 2]]) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_searches_miss_nothing_while_rows_are_flushed(
    make_store: Callable[..., MilvusVectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    store.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    flushing, looked = threading.Event(), threading.Event()
    new_log = collection.WAL

    def pause(*arguments: Any, **options: Any) -> Any:
        flushing.set()  # the rows have left Lite's memory table and are in no file yet
        looked.wait(0.5)
        return new_log(*arguments, **options)

    monkeypatch.setattr(collection, "WAL", pause)
    flusher = threading.Thread(target=store.flush)
    flusher.start()
    assert flushing.wait(10)
    found, counted = store.search(axis(0), 1), store.counts()
    found_by_terms, read = store.search_lexical({5: 1.0}, 1), store.vectors([(1, 1, 0)])
    looked.set()
    flusher.join()
    assert [hit.document_id for hit in found] == [1]
    assert [hit.document_id for hit in found_by_terms] == [1]
    assert list(read) == [(1, 1, 0)]
    assert counted == {(1, 1): 1}


def test_searching_and_writing_go_on_together(make_store: Callable[..., MilvusVectorStore]) -> None:
    store = make_store()
    store.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    missed: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            found = [hit.document_id for hit in store.search(axis(0), 1)]
            by_terms = [hit.document_id for hit in store.search_lexical({5: 1.0}, 2)]
            if (found, by_terms) != ([1], [1]):
                missed.append(1)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(12):
            store.upsert(2 + turn, 1, [chunk(number, axis(1), terms={6: 0.5}) for number in range(20)])
            store.delete([1 + turn] if turn else [])
            store.flush()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert missed == []
    assert store.counts() == {(1, 1): 1, (13, 1): 20}


def test_many_rows_are_flushed_without_being_asked(
    make_store: Callable[..., MilvusVectorStore], tmp_path: Path
) -> None:
    store = make_store()
    for document_id in range(1, 5):
        store.upsert(document_id, 1, [chunk(number, unit(number)) for number in range(UNFLUSHED_ROWS // 3)])
    assert list((tmp_path / "milvus.db" / "collections" / "kbsite_chunks").rglob("data_*.parquet"))


def test_no_search_waits_for_a_sparse_index_to_be_built(
    make_store: Callable[..., MilvusVectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    build = SparseIpIndex.build

    def counting(index: Any, rows: list[dict[int, float]], **options: Any) -> None:
        built.append(len(rows))
        build(index, rows, **options)

    first = make_store()
    first.upsert(1, 1, [chunk(number, unit(number), terms=weights(number)) for number in range(UNFLUSHED_ROWS + 1)])
    first.flush()
    monkeypatch.setattr(SparseIpIndex, "build", counting)
    assert first.search_lexical(weights(7), 5)[0].number == 7
    assert built == []
    first.close()
    second = make_store()
    second.open()
    assert sum(built) == UNFLUSHED_ROWS + 1
    assert second.search_lexical(weights(7), 5)[0].number == 7
    second.upsert(2, 1, [chunk(0, unit(1), terms=weights(1_000))])
    second.flush()
    assert second.search_lexical(weights(1_000), 5)[0].document_id == 2
    assert sum(built) == UNFLUSHED_ROWS + 2


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("milvus.sqlite", "ends in .db"),
        ("http//127.0.0.1:19530", "ends in .db"),
        ("{tmp}/a file/milvus.db", "cannot be made"),
        ("{tmp}/a file.db", "cannot be opened"),
    ],
)
def test_an_address_that_cannot_work_is_said_plainly(tmp_path: Path, uri: str, says: str) -> None:
    (tmp_path / "a file").write_text("no folder")
    (tmp_path / "a file.db").write_text("no folder either")
    store = MilvusVectorStore(uri.replace("{tmp}", str(tmp_path)), identity=lambda: IDENTITY)
    with pytest.raises(ClientError) as caught:
        store.open()
    assert caught.value.code == "store_unavailable"
    assert says in f"{caught.value} {caught.value.hint}"
    assert caught.value.hint
    assert store.health().status == "down"


def test_the_packages_neither_obey_the_environment_nor_read_a_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KBSITE_FROM_DOTENV=read\n")
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "MILVUS_URI": "./some/local.db"},
    )
    assert ran.stdout.split() == ["./some/local.db", "None", "None"], ran.stderr


def test_the_local_server_is_not_pinged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, dict[str, Any]]] = []

    def connected(uri: str, **options: Any) -> object:
        given.append((uri, options))
        return object()

    monkeypatch.setattr(milvus_sdk, "MilvusClient", connected)
    milvus_sdk.connect(str(tmp_path / "milvus.db"), timeout=1)
    milvus_sdk.connect("http://127.0.0.1:19530", timeout=1)
    (_, lite), (_, server) = given
    # The longest time that there is: gRPC takes it for never.
    assert lite["grpc_options"]["grpc.keepalive_time_ms"] == 2**31 - 1
    assert "grpc_options" not in server  # behind a network a ping finds out that the connection is gone


def test_the_client_keeps_the_options_of_its_connection(make_store: Callable[..., MilvusVectorStore]) -> None:
    channels: list[dict[str, Any]] = []
    insecure = grpc.insecure_channel

    def opened(target: str, options: Any = None, **more: Any) -> Any:
        channels.append(dict(options or ()))
        return insecure(target, options=options, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grpc, "insecure_channel", opened)
        make_store().open()
    pings = [options["grpc.keepalive_time_ms"] for options in channels if "grpc.keepalive_time_ms" in options]
    assert pings
    assert set(pings) == {2**31 - 1}


def test_a_refused_call_leaves_no_traceback_in_the_log(
    make_store: Callable[..., MilvusVectorStore], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store()
    store.open()
    with pytest.raises(ClientError) as caught:
        store._call(lambda client: client.query("kbsite_chunks", filter="no such field == 1"))
    assert caught.value.code == "store_error"
    assert "\n" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_rows_are_counted_anew_only_after_a_change(
    make_store: Callable[..., MilvusVectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    asked: list[int] = []
    count = store._count

    def counting(client: Any) -> dict[tuple[int, int], int]:
        asked.append(1)
        return count(client)

    monkeypatch.setattr(store, "_count", counting)
    changes: list[Callable[[], None]] = [
        lambda: store.upsert(1, 1, [chunk(0, axis(0)), chunk(1, axis(1))]),
        lambda: store.upsert(2, 1, [chunk(0, axis(0))]),
        lambda: store.discard(1, 1),
        lambda: store.reset(),
    ]
    seen = []
    for change in changes:
        change()
        seen.append(store.counts())
        store.counts().clear()  # what is given away is not what is kept
        assert store.counts() == seen[-1]
    assert seen == [{(1, 1): 2}, {(1, 1): 2, (2, 1): 1}, {(2, 1): 1}, {}]
    assert len(asked) == 4
