"""What a worker does with one document: file to chunks to vectors, and INDEXED only if nothing changed meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from clients.embedding_pool import IndexingEmbedder, Passages
from clients.interfaces import ChunkVector, ClientError, SparseVector
from clients.registry import get_vector_store
from documents import storage
from documents.content import current_bytes
from documents.disk_changes import absorb
from documents.errors import DocumentError
from documents.failpoints import failpoint
from documents.jobs import LEASE_SECONDS, Claim, fail, give_back, held, renew
from documents.models import ApiDocument, DocumentChunk
from documents.publishing import publish
from documents.reading import body_of
from documents.terms import count_chunks, packed, remove_chunks
from documents.transactions import repeated_on_deadlock
from documents.vectors import unflushed, vector_writer
from retrieval.bm25 import chunk_weights, terms_of_chunks
from retrieval.chunking import Chunk, TooManyChunks, chunk_body
from retrieval.lexical import is_cjk_text

log = logging.getLogger("documents.ingest")
_RENEW_SECONDS = LEASE_SECONDS / 6
_ROWS_AT_A_TIME = 500
OnProgress = Callable[[int, int], None]
"""Called with chunks done and chunks in all; may raise :class:`Stopped`."""


class Stopped(Exception):  # noqa: N818 (no fault: the way out of a running embedding)
    """The worker is stopping: the job is given back."""


class _Superseded(Exception):  # noqa: N818 (no fault)
    """A later revision, a deletion or another worker has the row: this job's work is dropped."""


@dataclass(frozen=True)
class _Content:
    """What is stored of a text beside its vectors; ``terms`` of each chunk's words, with repetitions.

    The words are kept whatever the lexical search finds by: how much of a question a chunk covers is told by them.
    """

    chunks: Sequence[Chunk]
    terms: Sequence[Sequence[int]]
    in_cjk: bool

    def vectors(self, passages: Passages, domain: str) -> list[ChunkVector]:
        """What the vector store holds: the embedder's own lexical weights where it makes them, else BM25's."""
        weights: Iterable[SparseVector] = map(chunk_weights, self.terms)
        if passages.weights is not None:
            weights = passages.weights
        return [
            ChunkVector(chunk.number, domain, vector, of_chunk)
            for chunk, vector, of_chunk in zip(self.chunks, passages.vectors, weights, strict=True)
        ]


@dataclass(frozen=True)
class Indexed:
    """What a finished job made."""

    document_id: int
    chunks: int
    seconds: float


def index_claimed(
    job: Claim,
    embedder: IndexingEmbedder,
    on_progress: OnProgress | None = None,
    *,
    stopping: Callable[[], bool] = lambda: False,
) -> Indexed | None:
    """Index a document whose lease this job holds. None where it failed (the row says why) or was overtaken.

    A fault while ``stopping()`` is the stop's own (the embedding processes are gone): the lease is given back.
    """
    began = time.monotonic()
    failpoint("index.claimed")
    try:
        title, body = _title_and_body(job)
        chunks = _chunks_of(body)
        content = _Content(chunks, terms_of_chunks(chunks, title=title), is_cjk_text(body))
        passages = _embed(job, chunks, embedder, on_progress) if chunks else None
        failpoint("index.embedded")
        _write(job, content, content.vectors(passages, job.category) if passages is not None else [])
    except Stopped:
        give_back(job)
        return None
    except _Superseded:
        log.info("%s: revision %s was overtaken while it was indexed", job.file_path, job.revision)
        return None
    except Exception as fault:
        # Degradation point: whatever one document does, the row says so and the worker goes on to the next.
        if stopping():
            give_back(job)
            return None
        if not isinstance(fault, ClientError | DocumentError | OSError):
            log.exception("%s: indexing failed unexpectedly", job.file_path)
        fail(job, fault)
        return None
    seconds = time.monotonic() - began
    log.info("%s: indexed, %s chunks in %.1f s", job.file_path, len(chunks), seconds)
    return Indexed(job.document_id, len(chunks), seconds)


def _title_and_body(job: Claim) -> tuple[str, str]:
    """What the row stands for; the bytes must have the row's hash."""
    document = held(job).first()
    if document is None:
        raise _Superseded
    if document.published_revision != document.revision:
        publish(job.document_id, job.revision)
        document.refresh_from_db()
    data = current_bytes(document)
    if storage.content_hash(data) != job.content_hash:
        if absorb(job.document_id):
            raise _Superseded  # someone edited the file: that is a new revision, and its own job
        detail = _("The file was edited on disk; the scan takes the edit in as a new revision.")
        raise DocumentError(detail, code="file_changed", status=409)
    return document.title, body_of(data)


def _chunks_of(body: str) -> list[Chunk]:
    try:
        return chunk_body(body)
    except TooManyChunks as fault:
        detail = _("The document has more than %(limit)s passages; split it into several files.")
        raise DocumentError(detail % {"limit": fault.limit}, code="too_many_chunks") from fault


def _embed(job: Claim, chunks: Sequence[Chunk], embedder: IndexingEmbedder, on_progress: OnProgress | None) -> Passages:
    """Vectors and own weights of all chunks; the lease is kept meanwhile, no connection to the database is."""
    get_vector_store().open()  # a store that is down is known before the work, not after it
    last = time.monotonic()

    def on_done(done: int) -> None:
        nonlocal last
        if on_progress is not None:
            on_progress(done, len(chunks))
        if time.monotonic() - last > _RENEW_SECONDS:
            last = time.monotonic()
            kept = renew(job)
            _let_connection_go()
            if not kept:
                raise _Superseded

    _let_connection_go()
    return embedder.embed_passages([chunk.text for chunk in chunks], on_done=on_done)


def _let_connection_go() -> None:
    """A model may work for minutes: the database is not kept waiting."""
    if not connection.in_atomic_block:
        connection.close()


def _write(job: Claim, content: _Content, rows: Sequence[ChunkVector]) -> None:
    """Vectors, then the row, then the older vectors; under the writer's lock from first to last.

    The lock is what makes the last step safe: no other revision of this document can be written in between.
    """
    store = get_vector_store()
    with vector_writer:
        if not held(job).exists():
            raise _Superseded
        if rows:
            if job.former_indexed_revision == job.revision and job.former_chunk_count > len(rows):
                store.discard(job.document_id, job.revision)  # rebuilt in fewer chunks: no tail may stay
            unflushed.set()
            store.upsert(job.document_id, job.revision, rows)
        failpoint("index.upserted")
        if not _commit(job, content):
            _discard_unless_wanted(job)
            raise _Superseded
        _remove_older_vectors(job)


@repeated_on_deadlock
def _commit(job: Claim, content: _Content) -> bool:
    """INDEXED and the chunk texts in one transaction, only where the lease still holds."""
    with transaction.atomic(durable=True):
        done = held(job).update(
            status=ApiDocument.Status.INDEXED,
            status_reason="",
            error_code="",
            indexed_revision=job.revision,
            indexed_hash=job.content_hash,
            indexed_at=timezone.now(),
            chunk_count=len(content.chunks),
            in_cjk=content.in_cjk,
            lease_owner="",
            lease_expires_at=None,
            attempts=0,
            next_attempt_at=None,
        )
        if not done:
            return False
        remove_chunks([job.document_id])
        rows = [_row(job, chunk, packed(terms)) for chunk, terms in zip(content.chunks, content.terms, strict=True)]
        DocumentChunk.objects.bulk_create(rows, batch_size=_ROWS_AT_A_TIME)
        count_chunks(rows)
        failpoint("index.before_commit")
    failpoint("index.after_commit")
    return True


def _row(job: Claim, chunk: Chunk, terms: bytes) -> DocumentChunk:
    return DocumentChunk(
        document_id=job.document_id,
        revision=job.revision,
        number=chunk.number,
        section=chunk.section[:500],
        heading_path=list(chunk.heading_path),
        start=chunk.start,
        end=chunk.end,
        text=chunk.text,
        terms=terms,
    )


def _discard_unless_wanted(job: Claim) -> None:
    """Overtaken: remove these vectors, unless the revision is still the row's (another job's have the same keys)."""
    if not ApiDocument.objects.filter(pk=job.document_id, revision=job.revision).exists():
        get_vector_store().discard(job.document_id, job.revision)


def _remove_older_vectors(job: Claim) -> None:
    store = get_vector_store()
    try:
        if settings.CELERY_BROKER_URL:
            # Other processes may be writing a later revision: only what this job replaced is certainly old.
            if job.former_indexed_revision not in (0, job.revision):
                store.discard(job.document_id, job.former_indexed_revision)
        else:
            store.delete_revisions(job.document_id, keep=job.revision)
    except ClientError as fault:
        # Degradation point: they answer no one, each hit's revision is compared with the row's.
        log.warning("%s: older vectors stay in the store for now: %s", job.file_path, fault)
