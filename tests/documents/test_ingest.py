"""Indexing one document: chunks, vectors and INDEXED together, and never the work of a job that was overtaken."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from clients.embedding_pool import IndexingEmbedder, make_indexing_embedder
from clients.interfaces import ClientError
from clients.registry import get_embedder, get_vector_store, reset_clients
from documents import ingest, jobs
from documents.ingest import Stopped, index_claimed
from documents.models import ApiDocument
from documents.services import delete_document, set_enabled
from documents.terms import term_counts, unpacked
from documents.worker import run_due_jobs
from retrieval.bm25 import chunk_terms, chunk_weights, query_terms
from retrieval.chunking import chunk_body
from tests.clients.bge_m3_stand_in import StandInForBgeM3
from tests.documents.library import indexed, kept, text, upload, vectors

pytestmark = pytest.mark.django_db
LONG = "\n\n".join(f"# Section {number}\n\nText of section {number}." for number in range(5))
OLD = text("OLD_CODE", LONG)
NEW = text("NEW_CODE", "# Only one\n\nnew text\n")


@pytest.fixture
def embedder() -> IndexingEmbedder:
    return make_indexing_embedder(get_embedder(), 0)


def claimed(document_id: int) -> jobs.Claim:
    job = jobs.claim(document_id)
    assert job is not None
    return job


def between(monkeypatch: Any, embedder: IndexingEmbedder, step: Any) -> None:
    """Have ``step`` happen once, while the texts are being embedded."""
    real = embedder.embed_documents
    done: list[int] = []

    def embed(texts: Any, *, on_done: Any = None) -> Any:
        if not done:
            done.append(1)
            step()
        return real(texts, on_done=on_done)

    monkeypatch.setattr(embedder, "embed_documents", embed)


def test_chunks_vectors_and_state_come_together(knowledge_base: Path) -> None:
    document = indexed(OLD)
    assert (document.indexed_revision, document.chunk_count) == (1, 5)
    assert document.indexed_hash == document.content_hash
    assert document.indexed_at is not None
    assert (document.lease_owner, document.lease_expires_at, document.attempts) == ("", None, 0)
    assert vectors() == {(document.pk, 1): 5}
    rows = list(document.chunks.order_by("number"))
    assert [(row.revision, row.number, row.section) for row in rows] == [(1, n, f"Section {n}") for n in range(5)]
    assert "OLD_CODE" not in "".join(row.text for row in rows)  # no frontmatter in a chunk
    assert rows[2].heading_path == ["Section 2"]


def test_the_vectors_are_the_texts_own_and_carry_the_domain(knowledge_base: Path) -> None:
    document = indexed(OLD)
    query = get_embedder().embed_documents([document.chunks.get(number=3).text])[0]
    hit = get_vector_store().search(np.asarray(query), 1, domain="payment")[0]
    assert (hit.document_id, hit.revision, hit.number) == (document.pk, 1, 3)
    assert hit.squared_distance == pytest.approx(0, abs=1e-5)
    assert get_vector_store().search(np.asarray(query), 1, domain="api") == []


def test_the_lexical_search_finds_by_counted_words(knowledge_base: Path) -> None:
    document = indexed(text(body="zebra zebra", title="Lion"))
    weights = chunk_weights(chunk_terms("zebra zebra", title="Lion"))
    found = {term: get_vector_store().search_lexical({term: 1.0}, 5)[0] for term in query_terms("zebra lion")}
    assert {hit.document_id for hit in found.values()} == {document.pk}
    assert {term: hit.score for term, hit in found.items()} == pytest.approx(weights)


def test_the_lexical_search_finds_by_the_weights_of_an_embedder_that_makes_some(
    knowledge_base: Path, settings: Any
) -> None:
    model = StandInForBgeM3()
    chosen = {"BACKEND": "clients.embedding.BgeM3Embedder", "OPTIONS": {"load": lambda *_: model}}
    settings.CLIENTS = {**settings.CLIENTS, "embedder": {**chosen, "QUERY_CACHE": {"redis_url": ""}}}
    reset_clients()
    document = indexed(OLD)
    assert [hit.score for hit in get_vector_store().search_lexical({7: 2.0}, 9)] == [1.0] * 5
    assert sum(len(texts) for texts, _ in model.calls) == 5  # one pass for vectors and weights
    word = query_terms("section")
    assert get_vector_store().search_lexical(dict.fromkeys(word, 1.0), 9) == []
    assert all(set(word) <= set(unpacked(chunk.terms)) for chunk in document.chunks.all())
    assert term_counts(word) == (dict.fromkeys(word, 5), 5)


def test_a_body_without_text_is_indexed_with_no_chunk(knowledge_base: Path) -> None:
    document = indexed("---\ntitle: a\nkeywords: [ONLY_HEADER]\n---\n")
    assert (document.chunk_count, document.indexed_revision) == (0, 1)
    assert vectors() == {}


def test_too_many_chunks_fail_with_the_reason(knowledge_base: Path) -> None:
    document = upload("# a\n" * 30_000).document
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.error_code) == ("FAILED", "too_many_chunks")
    assert "split it" in document.status_reason
    assert document.next_attempt_at is None  # trying again cannot help
    assert vectors() == {}


def test_a_replacement_while_it_is_indexed_drops_the_work(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = upload(OLD).document
    between(monkeypatch, embedder, lambda: upload(NEW))
    assert index_claimed(claimed(document.pk), embedder) is None
    assert vectors() == {}
    document.refresh_from_db()
    assert (document.status, document.revision, document.indexed_revision) == ("PENDING", 2, 0)
    assert not document.chunks.exists()
    run_due_jobs()
    assert vectors() == {(document.pk, 2): 1}


def test_a_replacement_that_is_indexed_first_stays(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = upload(OLD).document

    def overtake() -> None:
        upload(NEW)
        run_due_jobs()

    between(monkeypatch, embedder, overtake)
    assert index_claimed(claimed(document.pk), embedder) is None
    document.refresh_from_db()
    assert (document.status, document.indexed_revision, document.chunk_count) == ("INDEXED", 2, 1)
    assert vectors() == {(document.pk, 2): 1}


def test_a_replacement_after_the_vectors_are_in_drops_them_again(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = upload(OLD).document
    store = get_vector_store()
    real = store.upsert

    def upsert_then_replace(*args: Any) -> None:
        real(*args)
        monkeypatch.undo()
        upload(NEW)

    monkeypatch.setattr(store, "upsert", upsert_then_replace)
    assert index_claimed(claimed(document.pk), embedder) is None
    assert vectors() == {}
    document.refresh_from_db()
    assert (document.status, document.indexed_revision) == ("PENDING", 0)


def test_a_deletion_while_it_is_indexed_leaves_nothing(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = upload(OLD).document
    between(monkeypatch, embedder, lambda: delete_document(document_id=document.pk, user=None))
    assert index_claimed(claimed(document.pk), embedder) is None
    assert vectors() == {}
    assert not ApiDocument.objects.exists()


def test_a_deletion_after_the_vectors_are_in_leaves_nothing(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = upload(OLD).document
    monkeypatch.setattr(ingest, "_commit", lambda *_: not delete_document(document_id=document.pk, user=None))
    assert index_claimed(claimed(document.pk), embedder) is None
    assert vectors() == {}


def test_hiding_while_it_is_indexed_stays_and_the_work_counts(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = upload(OLD).document
    between(monkeypatch, embedder, lambda: set_enabled(document_id=document.pk, enabled=False))
    assert index_claimed(claimed(document.pk), embedder) is not None
    document.refresh_from_db()
    assert (document.status, document.enabled) == ("INDEXED", False)


def test_an_edit_on_disk_is_taken_in_as_a_revision_of_its_own(knowledge_base: Path) -> None:
    document = upload(OLD).document
    (knowledge_base / "payment" / "timeouts.md").write_text(NEW)
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.revision, document.indexed_revision) == ("INDEXED", 2, 2)
    assert document.metadata is not None
    assert document.metadata["keywords"] == ["NEW_CODE"]
    assert vectors() == {(document.pk, 2): 1}
    assert kept() == []


@pytest.mark.parametrize("call", ["open", "upsert"])
def test_a_store_that_is_down_is_said_and_tried_again(knowledge_base: Path, monkeypatch: Any, call: str) -> None:
    def down(*_args: Any) -> None:
        raise ClientError("The store does not answer.", code="store_unavailable", retryable=True, hint="Start Milvus.")

    monkeypatch.setattr(get_vector_store(), call, down)
    document = upload(OLD).document
    before = timezone.now()
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.error_code, document.attempts) == ("FAILED", "store_unavailable", 1)
    assert document.status_reason == "The store does not answer. Start Milvus."
    assert document.next_attempt_at is not None
    assert before < document.next_attempt_at < before + timedelta(seconds=60)
    monkeypatch.undo()
    ApiDocument.objects.update(next_attempt_at=timezone.now())
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.status_reason, document.attempts) == ("INDEXED", "", 0)


def test_an_embedder_that_refuses_is_not_tried_again_by_itself(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise ClientError("The key is not accepted.", code="embedder_refused_key", hint="Set OPENAI_API_KEY.")

    monkeypatch.setattr(embedder, "embed_documents", refuse)
    document = upload(OLD).document
    index_claimed(claimed(document.pk), embedder)
    document.refresh_from_db()
    assert (document.status, document.next_attempt_at) == ("FAILED", None)
    assert "Set OPENAI_API_KEY." in document.status_reason


def test_the_waits_between_tries_grow_and_end(knowledge_base: Path, embedder: IndexingEmbedder) -> None:
    document = upload(OLD).document
    waits = []
    for _attempt in range(12):
        job = claimed(document.pk)
        now = timezone.now()
        jobs.fail(job, ClientError("down", retryable=True))
        row = ApiDocument.objects.get()
        assert row.next_attempt_at is not None
        waits.append(round((row.next_attempt_at - now).total_seconds()))
        ApiDocument.objects.update(next_attempt_at=now)
    assert waits[:4] == [5, 10, 20, 40]
    assert max(waits) == waits[-1] == 600


def test_a_job_that_is_stopped_is_given_back(knowledge_base: Path, embedder: IndexingEmbedder) -> None:
    document = upload(OLD).document

    def stop(_done: int, _total: int) -> None:
        raise Stopped

    assert index_claimed(claimed(document.pk), embedder, stop) is None
    document.refresh_from_db()
    assert (document.status, document.attempts, document.lease_owner) == ("PENDING", 0, "")


def test_a_leased_document_is_nobody_elses(knowledge_base: Path) -> None:
    document = upload(OLD).document
    claimed(document.pk)
    assert jobs.claim(document.pk) is None
    assert jobs.due_documents() == []


@pytest.mark.parametrize("moment", [timedelta(seconds=-1), timedelta(days=400)])
def test_a_lease_that_has_run_out_or_lies_absurdly_far_ahead_is_taken_over(
    knowledge_base: Path, embedder: IndexingEmbedder, moment: timedelta
) -> None:
    document = upload(OLD).document
    dead = claimed(document.pk)
    ApiDocument.objects.update(lease_expires_at=timezone.now() + moment)
    job = claimed(document.pk)
    assert index_claimed(job, embedder) is not None
    # The first owner wakes up and finishes too: same revision, same keys, nothing is lost or doubled.
    assert index_claimed(dead, embedder) is None
    document.refresh_from_db()
    assert (document.status, document.indexed_revision) == ("INDEXED", 1)
    assert vectors() == {(document.pk, 1): 5}


def test_a_retry_that_a_clock_jump_put_far_ahead_is_due(knowledge_base: Path) -> None:
    document = upload(OLD).document
    ApiDocument.objects.update(status="FAILED", next_attempt_at=timezone.now() + timedelta(days=400))
    assert jobs.due_documents() == [document.pk]


def test_a_document_that_kills_its_worker_again_and_again_is_given_up(knowledge_base: Path) -> None:
    document = upload(OLD).document
    for _crash in range(10):
        if jobs.claim(document.pk) is None:
            break
        ApiDocument.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    document.refresh_from_db()
    assert document.status == "FAILED"
    assert "cut off" in document.status_reason
    assert document.next_attempt_at is None
    assert jobs.due_documents() == []


def test_leases_of_a_process_that_ended_are_released_and_our_own_are_not(knowledge_base: Path) -> None:
    dead, ours = upload(OLD).document, upload(NEW, "new.md").document
    claimed(dead.pk)
    ApiDocument.objects.update(lease_owner="12345-former-process")
    claimed(ours.pk)
    assert jobs.release_dead_leases() == 1
    assert jobs.due_documents() == [dead.pk]


def test_fresh_changes_go_before_what_failed(knowledge_base: Path) -> None:
    first = upload(OLD).document
    ApiDocument.objects.filter(pk=first.pk).update(attempts=1)
    second = upload(NEW, "second.md").document
    assert jobs.due_documents() == [second.pk, first.pk]


def test_a_rebuild_into_fewer_chunks_leaves_no_tail(
    knowledge_base: Path, monkeypatch: Any, embedder: IndexingEmbedder
) -> None:
    document = indexed(OLD)
    ApiDocument.objects.update(status="PENDING")
    monkeypatch.setattr(ingest, "chunk_body", lambda body: chunk_body(body)[:2])
    index_claimed(claimed(document.pk), embedder)
    assert vectors() == {(document.pk, 1): 2}
    document.refresh_from_db()
    assert (document.chunk_count, document.chunks.count()) == (2, 2)


def test_old_vectors_that_cannot_be_removed_do_not_undo_the_new_ones(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(OLD)
    upload(NEW)

    def down(*_args: Any, **_kwargs: Any) -> None:
        raise ClientError("down", code="store_unavailable", retryable=True)

    monkeypatch.setattr(get_vector_store(), "delete_revisions", down)
    run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.indexed_revision) == ("INDEXED", 2)


def test_with_a_broker_only_the_replaced_revision_is_removed(
    knowledge_base: Path, settings: Any, monkeypatch: Any
) -> None:
    document = indexed(OLD)
    settings.CELERY_BROKER_URL = "memory://"
    monkeypatch.setattr("documents.wakeup.Celery.send_task", lambda *_args, **_kwargs: None)
    upload(NEW)
    run_due_jobs()
    assert vectors() == {(document.pk, 2): 1}
