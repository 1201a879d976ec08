"""The promises of ``VectorStore``, held by the stand-in, by Milvus Lite, and by a server where one is named.

A server: ``VECTOR_STORE_TEST_URI=http://127.0.0.1:19530 pytest tests/clients/test_vector_store_contract.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from clients.fakes import InMemoryVectorStore
from clients.interfaces import ChunkVector, ClientError, CollectionIdentity, LexicalHit, VectorStore
from clients.vector_store import MilvusVectorStore
from tests.clients.vectors import DIMENSION, IDENTITY, axis, chunk, inner_product, unit, weights

SERVER = os.environ.get("VECTOR_STORE_TEST_URI", "")
INJECTED = [
    "payment' or document_id >= 0 or domain_key == '",
    'payment" || 1 == 1 || "',
    "0 or document_id >= 0",
    "payment\x00",
    "\ud800",
    "x" * 5_000,
    "域" * 64,
    "",
]


@pytest.fixture(scope="module", params=["memory", "lite", "server"])
def shared_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorStore]:
    """One store of each kind for the whole module: making a collection is what costs time."""
    if request.param == "memory":
        yield InMemoryVectorStore(identity=lambda: IDENTITY)
        return
    if request.param == "server" and not SERVER:
        pytest.skip("needs a Milvus server: set VECTOR_STORE_TEST_URI")
    uri = SERVER if request.param == "server" else str(tmp_path_factory.mktemp("lite") / "deep" / "milvus.db")
    name = f"kbsite_test_{uuid4().hex[:8]}"
    store = MilvusVectorStore(uri, identity=lambda: IDENTITY, collection=name)
    yield store
    if request.param == "server":
        from pymilvus import MilvusClient

        MilvusClient(uri).drop_collection(name)
    store.close()


@pytest.fixture
def store(shared_store: VectorStore) -> VectorStore:
    """The store, emptied."""
    shared_store.delete([document_id for document_id, _ in shared_store.counts()])
    return shared_store


def test_distances_are_squared_and_the_nearest_comes_first(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0, -1.0)), chunk(1, axis(1)), chunk(2, axis(0))])
    hits = store.search(axis(0), 10)
    assert [(hit.document_id, hit.revision, hit.number) for hit in hits] == [(1, 1, 2), (1, 1, 1), (1, 1, 0)]
    assert [hit.squared_distance for hit in hits] == pytest.approx([0.0, 2.0, 4.0], abs=1e-5)
    assert store.metric == "L2"


def test_top_k_bounds_what_is_returned(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(number, unit(number)) for number in range(12)])
    assert len(store.search(unit(3), 5)) == 5
    assert len(store.search(unit(3), 100)) == 12
    assert store.search(unit(3), 0) == []
    assert store.search(unit(3), -1) == []


def test_documents_can_be_left_out_of_a_search(store: VectorStore) -> None:
    for document_id in (1, 2, 3):
        store.upsert(document_id, 1, [chunk(0, unit(document_id), terms={7: 0.5})])
    assert {hit.document_id for hit in store.search(unit(1), 10, without=[1, 3])} == {2}
    assert len(store.search(unit(1), 10, without=[])) == 3
    if store.has_lexical:
        assert {hit.document_id for hit in store.search_lexical({7: 1.0}, 10, without=[2])} == {1, 3}
    with pytest.raises(ClientError):
        store.search(unit(1), 10, without=["1] or document_id in [2"])  # type: ignore[list-item]


def test_an_empty_store_finds_nothing(store: VectorStore) -> None:
    assert store.search(axis(0), 5) == []
    assert store.counts() == {}
    store.flush()


def test_vectors_come_back_only_when_asked_for(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(0, unit(5))])
    assert store.search(unit(5), 1)[0].vector is None
    vector = store.search(unit(5), 1, with_vectors=True)[0].vector
    assert vector is not None
    assert vector.dtype == np.float32
    assert vector == pytest.approx(unit(5), abs=1e-6)


def test_a_domain_narrows_the_search_to_its_own_chunks(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0), "payment")])
    store.upsert(2, 1, [chunk(0, axis(0), "支付")])
    store.upsert(3, 1, [chunk(0, axis(1), "Payment")])
    assert [hit.document_id for hit in store.search(axis(0), 10, domain="payment")] == [1]
    assert [hit.document_id for hit in store.search(axis(0), 10, domain="支付")] == [2]
    assert [hit.document_id for hit in store.search(axis(0), 10, domain="Payment")] == [3]
    assert store.search(axis(0), 10, domain="release") == []


@pytest.mark.parametrize("domain", INJECTED, ids=range(len(INJECTED)))
def test_no_text_of_a_domain_reaches_the_filter(store: VectorStore, domain: str) -> None:
    store.upsert(1, 1, [chunk(0, axis(0), "payment")])
    assert store.search(axis(0), 10, domain=domain) == []
    store.upsert(2, 1, [chunk(0, axis(0), domain)])
    assert [hit.document_id for hit in store.search(axis(0), 10, domain=domain)] == [2]


@pytest.mark.parametrize("wrong", ["1 or 1 == 1", "1", 1.0, None, -1, True, 2**63])
def test_only_whole_numbers_are_taken_as_ids(store: VectorStore, wrong: Any) -> None:
    store.upsert(1, 1, [chunk(0, axis(0))])
    calls: list[Callable[[], object]] = [
        lambda: store.delete([wrong]),
        lambda: store.delete_revisions(wrong, keep=1),
        lambda: store.delete_revisions(1, keep=wrong),
        lambda: store.discard(wrong, 1),
        lambda: store.discard(1, wrong),
        lambda: store.upsert(wrong, 1, [chunk(0, axis(0))]),
        lambda: store.upsert(1, wrong, [chunk(0, axis(0))]),
        lambda: store.upsert(1, 1, [ChunkVector(number=wrong, domain="payment", vector=axis(0))]),
    ]
    for call in calls:
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.code == "vector_invalid"
    assert store.counts() == {(1, 1): 1}


@pytest.mark.parametrize(
    "wrong",
    [
        np.full(DIMENSION, np.nan, dtype=np.float32),
        np.full(DIMENSION, np.inf, dtype=np.float32),
        np.zeros(DIMENSION, dtype=np.float32),
        axis(0) * 2,
        axis(0) * 0.5,
        unit(1, DIMENSION + 1),
        unit(1, DIMENSION - 1),
        np.stack([axis(0), axis(1)]),
        "a text",
    ],
    ids=["nan", "inf", "zero", "too long", "too short", "dimension above", "dimension below", "two", "text"],
)
def test_a_bad_vector_is_refused_before_anything_is_written(store: VectorStore, wrong: Any) -> None:
    with pytest.raises(ClientError) as caught:
        store.upsert(1, 1, [chunk(0, axis(0)), chunk(1, wrong)])
    assert caught.value.code == "vector_invalid"
    with pytest.raises(ClientError):
        store.search(wrong, 1)
    assert store.counts() == {}


def test_two_chunks_with_one_number_are_refused(store: VectorStore) -> None:
    with pytest.raises(ClientError, match="same number"):
        store.upsert(1, 1, [chunk(0, axis(0)), chunk(0, axis(1))])


def test_writing_a_chunk_again_replaces_it(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0), "payment")])
    store.upsert(1, 1, [chunk(0, axis(1), "release")])
    assert store.counts() == {(1, 1): 1}
    assert store.search(axis(1), 5, domain="release")[0].squared_distance == pytest.approx(0.0, abs=1e-5)
    assert store.search(axis(0), 5, domain="payment") == []


def test_deleting_documents_leaves_the_others(store: VectorStore) -> None:
    for document_id in (1, 2, 3, 11):
        store.upsert(document_id, 1, [chunk(0, axis(0)), chunk(1, axis(1))])
    store.delete([1, 3, 404])
    assert {hit.document_id for hit in store.search(axis(0), 10)} == {2, 11}
    store.delete([])
    assert store.counts() == {(2, 1): 2, (11, 1): 2}


def test_old_revisions_go_and_the_kept_one_stays(store: VectorStore) -> None:
    for revision in (1, 2, 3):
        store.upsert(7, revision, [chunk(0, axis(revision)), chunk(1, axis(0))])
    store.upsert(8, 1, [chunk(0, axis(5))])
    store.delete_revisions(7, keep=3)
    assert store.counts() == {(7, 3): 2, (8, 1): 1}
    assert {hit.revision for hit in store.search(axis(0), 10) if hit.document_id == 7} == {3}


def test_one_revision_can_be_discarded(store: VectorStore) -> None:
    store.upsert(7, 1, [chunk(0, axis(0))])
    store.upsert(7, 2, [chunk(0, axis(0))])
    store.discard(7, 2)
    assert store.counts() == {(7, 1): 1}
    store.upsert(7, 2, [chunk(0, axis(0))])
    assert store.counts() == {(7, 1): 1, (7, 2): 1}


def test_everything_is_counted_and_searched_across_batches_and_flushes(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(number, unit(number)) for number in range(450)])
    store.upsert(2, 4, [chunk(number, unit(1_000 + number)) for number in range(3)])
    assert store.counts() == {(1, 1): 450, (2, 4): 3}
    store.flush()
    assert store.counts() == {(1, 1): 450, (2, 4): 3}
    nearest = store.search(unit(444), 1)[0]
    assert (nearest.document_id, nearest.number) == (1, 444)
    store.delete([1])
    assert store.counts() == {(2, 4): 3}


def test_a_reset_store_is_empty_and_goes_on(store: VectorStore) -> None:
    store.upsert(1, 1, [chunk(0, axis(0))])
    store.reset()
    assert store.counts() == {}
    store.upsert(2, 1, [chunk(0, axis(0))])
    assert [hit.document_id for hit in store.search(axis(0), 5)] == [2]


def test_an_open_store_is_healthy(store: VectorStore) -> None:
    store.open()
    store.open()
    assert store.health().status == ("ok" if store.has_lexical else "degraded")


# ---- Terms -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lexical_store(store: VectorStore) -> VectorStore:
    """The store, where it holds sparse vectors: a server before Milvus 2.4 alone has none."""
    if not store.has_lexical:
        assert isinstance(store, MilvusVectorStore)
        assert store._uri == SERVER
        pytest.skip("this server has no sparse vectors")
    return store


def _keys(hits: list[LexicalHit]) -> list[tuple[int, int, int]]:
    return [(hit.document_id, hit.revision, hit.number) for hit in hits]


def test_terms_find_chunks_by_their_inner_product_and_the_best_comes_first(lexical_store: VectorStore) -> None:
    written = {(1, 1, number): weights(number) for number in range(300)}  # more than are left unflushed
    written.update({(2, 3, number): weights(1_000 + number) for number in range(20)})
    for document_id, revision in ((1, 1), (2, 3)):
        chunks = [chunk(key[2], unit(key[2]), terms=terms) for key, terms in written.items() if key[0] == document_id]
        lexical_store.upsert(document_id, revision, chunks)
    query = weights(77, terms=5)
    expected = {key: score for key, terms in written.items() if (score := inner_product(query, terms)) > 0}
    assert 20 < len(expected) < len(written)
    hits = lexical_store.search_lexical(query, 1_000)
    assert {key: hit.score for key, hit in zip(_keys(hits), hits, strict=True)} == pytest.approx(expected, abs=1e-5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert _keys(lexical_store.search_lexical(query, 7)) == _keys(hits)[:7]


def test_chunks_of_one_score_come_by_their_keys(lexical_store: VectorStore) -> None:
    for document_id, revision, number in ((11, 1, 0), (2, 2, 1), (2, 2, 0), (2, 10, 0)):
        lexical_store.upsert(document_id, revision, [chunk(number, axis(0), terms={5: 0.5, 9: 0.25})])
    lexical_store.upsert(99, 1, [chunk(0, axis(0), terms={5: 0.5, 9: 0.5})])
    hits = _keys(lexical_store.search_lexical({9: 1.0, 5: 2.0}, 10))
    assert hits == [(99, 1, 0), (2, 2, 0), (2, 2, 1), (2, 10, 0), (11, 1, 0)]


def test_what_scores_nothing_is_not_found(lexical_store: VectorStore) -> None:
    lexical_store.upsert(1, 1, [chunk(0, axis(0), terms={0: 0.5}), chunk(1, axis(0), terms={2**31 - 1: 0.5})])
    lexical_store.upsert(2, 1, [chunk(0, axis(0)), chunk(1, axis(1), terms={7: 0.5})])
    assert _keys(lexical_store.search_lexical({0: 1.0, 2**31 - 1: 2.0, 8: 3.0}, 10)) == [(1, 1, 1), (1, 1, 0)]
    assert lexical_store.search_lexical({8: 1.0}, 10) == []
    assert lexical_store.search_lexical({}, 10) == []
    assert lexical_store.search_lexical({0: 1.0}, 0) == []
    assert lexical_store.search_lexical({0: 1.0}, -1) == []
    assert len(lexical_store.search(axis(0), 10)) == 4  # without terms, and with them, a chunk is found by its vector


def test_a_domain_narrows_the_lexical_search(lexical_store: VectorStore) -> None:
    lexical_store.upsert(1, 1, [chunk(0, axis(0), "payment", {5: 0.5})])
    lexical_store.upsert(2, 1, [chunk(0, axis(0), "支付", {5: 0.4})])
    assert _keys(lexical_store.search_lexical({5: 1.0}, 10)) == [(1, 1, 0), (2, 1, 0)]
    assert _keys(lexical_store.search_lexical({5: 1.0}, 10, domain="支付")) == [(2, 1, 0)]
    for domain in INJECTED:
        assert lexical_store.search_lexical({5: 1.0}, 10, domain=domain) == []


@pytest.mark.parametrize("flushed", [False, True])
def test_no_stale_terms_are_found_after_writing_again_and_deleting(lexical_store: VectorStore, flushed: bool) -> None:
    def settle() -> None:
        if flushed:
            lexical_store.flush()

    for revision in (1, 2):
        lexical_store.upsert(7, revision, [chunk(0, axis(0), terms={5: 0.5}), chunk(1, axis(1), terms={6: 0.5})])
    lexical_store.upsert(8, 1, [chunk(0, axis(0), terms={5: 0.25})])
    settle()
    assert len(lexical_store.search_lexical({5: 1.0}, 10)) == 3
    lexical_store.upsert(7, 2, [chunk(0, axis(0), terms={9: 0.5}), chunk(1, axis(1))])
    settle()
    assert _keys(lexical_store.search_lexical({5: 1.0}, 10)) == [(7, 1, 0), (8, 1, 0)]
    assert _keys(lexical_store.search_lexical({6: 1.0}, 10)) == [(7, 1, 1)]
    assert _keys(lexical_store.search_lexical({9: 1.0}, 10)) == [(7, 2, 0)]
    lexical_store.delete_revisions(7, keep=2)
    settle()
    assert _keys(lexical_store.search_lexical({5: 1.0, 6: 1.0, 9: 1.0}, 10)) == [(7, 2, 0), (8, 1, 0)]
    lexical_store.discard(7, 2)
    settle()
    assert _keys(lexical_store.search_lexical({5: 1.0, 9: 1.0}, 10)) == [(8, 1, 0)]
    lexical_store.delete([8])
    settle()
    assert lexical_store.search_lexical({5: 1.0, 6: 1.0, 9: 1.0}, 10) == []


def test_the_stand_in_can_be_without_sparse_vectors() -> None:
    store = InMemoryVectorStore(identity=lambda: IDENTITY)
    store.has_lexical = False
    store.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    assert store.search_lexical({5: 1.0}, 5) == []
    assert [hit.document_id for hit in store.search(axis(0), 5)] == [1]
    assert store.health().status == "degraded"
    assert "Lexical search is off" in store.health().hint


@pytest.mark.parametrize(
    "wrong",
    [
        {-1: 1.0},
        {2**31: 1.0},
        {True: 1.0},
        {1.5: 1.0},
        {"1": 1.0},
        {1: 0.0},
        {1: -0.5},
        {1: float("nan")},
        {1: float("inf")},
        {1: 1e-60},
        {1: 1e60},
        {1: True},
        {1: "0.5"},
        {1: None},
        [(1, 0.5)],
        None,
    ],
    ids=str,
)
def test_bad_terms_are_refused_before_anything_is_written(store: VectorStore, wrong: Any) -> None:
    bad = ChunkVector(number=1, domain="payment", vector=axis(1), terms=wrong)
    calls: list[Callable[[], object]] = [
        lambda: store.upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5}), bad]),
        lambda: store.search_lexical(wrong, 5),
    ]
    for call in calls:
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.code == "vector_invalid"
    assert store.counts() == {}


def test_numpy_numbers_are_terms_and_weights(lexical_store: VectorStore) -> None:
    terms: dict[Any, Any] = {np.int64(9): np.float32(0.5), np.uint32(5): np.float64(0.25), 7: 2}
    lexical_store.upsert(1, 1, [chunk(0, axis(0), terms=terms)])
    assert lexical_store.search_lexical(terms, 1)[0].score == pytest.approx(0.25 + 0.0625 + 4, abs=1e-5)


# ---- Vectors by key --------------------------------------------------------------------------------------------------


def test_vectors_are_read_back_by_their_keys(store: VectorStore) -> None:
    store.upsert(1, 2, [chunk(number, unit(number)) for number in range(600)])
    store.upsert(12, 1, [chunk(0, axis(3))])
    asked = [(1, 2, number) for number in range(600)] + [(12, 1, 0), (12, 1, 0), (1, 1, 0), (1, 21, 0), (404, 1, 0)]
    found = store.vectors(asked)
    assert sorted(found) == sorted({*asked[:601]})
    assert found[1, 2, 599].dtype == np.float32
    assert found[1, 2, 599] == pytest.approx(unit(599), abs=1e-6)
    assert found[12, 1, 0] == pytest.approx(axis(3), abs=1e-6)
    assert store.vectors([]) == {}
    store.upsert(12, 1, [chunk(0, axis(4))])
    assert store.vectors([(12, 1, 0)])[12, 1, 0] == pytest.approx(axis(4), abs=1e-6)
    store.delete([1, 12])
    assert store.vectors(asked) == {}


@pytest.mark.parametrize("wrong", ['1"] or pk in ["1', "1", 1.0, None, -1, True])
def test_only_whole_numbers_are_taken_as_keys(store: VectorStore, wrong: Any) -> None:
    store.upsert(1, 1, [chunk(1, axis(0))])
    for key in ((wrong, 1, 1), (1, wrong, 1), (1, 1, wrong)):
        with pytest.raises(ClientError) as caught:
            store.vectors([key])
        assert caught.value.code == "vector_invalid"


@pytest.fixture(params=["memory", "lite", "server"])
def made_by(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[CollectionIdentity], VectorStore]]:
    """One store of each kind, as it is after the site's embedder was changed to another."""
    if request.param == "server" and not SERVER:
        pytest.skip("needs a Milvus server: set VECTOR_STORE_TEST_URI")
    present = [IDENTITY]
    uri = SERVER if request.param == "server" else str(tmp_path / "milvus.db")
    name = f"kbsite_test_{uuid4().hex[:8]}"
    store: VectorStore = (
        InMemoryVectorStore(identity=lambda: present[0])
        if request.param == "memory"
        else MilvusVectorStore(uri, identity=lambda: present[0], collection=name)
    )

    def changed(identity: CollectionIdentity) -> VectorStore:
        store.close()
        present[0] = identity
        return store

    yield changed
    if request.param == "server":
        from pymilvus import MilvusClient

        MilvusClient(uri).drop_collection(name)
    store.close()


def test_terms_of_another_kind_are_refused_until_the_store_is_reset(
    made_by: Callable[[CollectionIdentity], VectorStore],
) -> None:
    made_by(IDENTITY).upsert(1, 1, [chunk(0, axis(0), terms={5: 0.5})])
    store = made_by(replace(IDENTITY, terms="meanings"))
    calls: list[Callable[[], object]] = [
        lambda: store.search_lexical({5: 1.0}, 5),
        lambda: store.search(axis(0), 5),
        lambda: store.upsert(1, 2, [chunk(0, axis(0), terms={5: 0.5})]),
    ]
    for call in calls:
        with pytest.raises(ClientError, match=r"meanings|bm25-1") as caught:
            call()
        assert caught.value.code == "collection_mismatch"
        assert "reindex --all" in caught.value.hint
    store.reset()
    assert store.counts() == {}
    assert made_by(IDENTITY).health().status == "down"
