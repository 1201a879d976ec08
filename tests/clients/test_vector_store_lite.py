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

import pytest
from milvus_lite.engine import collection  # type: ignore[import-untyped]

from clients import milvus_sdk, vector_store
from clients.interfaces import ClientError
from clients.vector_store import UNFLUSHED_ROWS, MilvusVectorStore
from tests.clients.vectors import IDENTITY, axis, chunk, unit

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


def test_an_index_file_half_written_is_made_again(
    make_store: Callable[..., MilvusVectorStore], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_store()
    first.upsert(1, 1, [chunk(0, axis(0)), chunk(1, axis(1))])
    first.flush()
    first.search(axis(0), 1)
    first.close()
    broken = list((tmp_path / "milvus.db").rglob("*.idx"))
    assert broken, "Milvus Lite keeps its index in other files now: mend this test"
    for file in broken:
        file.write_bytes(file.read_bytes()[:20])
    with caplog.at_level(logging.WARNING):
        second = make_store()
        assert [hit.number for hit in second.search(axis(1), 2)] == [1, 0]
    assert "making its index again" in caplog.text


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
    store.upsert(1, 1, [chunk(0, axis(0))])
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
    looked.set()
    flusher.join()
    assert [hit.document_id for hit in found] == [1]
    assert counted == {(1, 1): 1}


def test_searching_and_writing_go_on_together(make_store: Callable[..., MilvusVectorStore]) -> None:
    store = make_store()
    store.upsert(1, 1, [chunk(0, axis(0))])
    missed: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            if [hit.document_id for hit in store.search(axis(0), 1)] != [1]:
                missed.append(1)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(12):
            store.upsert(2 + turn, 1, [chunk(number, axis(1)) for number in range(20)])
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
