"""Chunk vectors in Milvus: a Milvus Lite file (one process) or a Milvus server, behind one class."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from clients import milvus_collection, milvus_rows
from clients.interfaces import (
    ChunkVector,
    ClientError,
    CollectionIdentity,
    LexicalHit,
    PartHealth,
    SparseVector,
    Vector,
    VectorHit,
)
from clients.milvus_sdk import StaleStoreError, connect, disconnect, is_lite, opening_lite, translated
from clients.shared_lock import SharedLock
from clients.vector_store_checks import (
    NO_LEXICAL_HINT,
    check_chunks,
    check_int,
    check_keys,
    check_query,
    check_terms,
    present_identity,
)

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

UNFLUSHED_ROWS = 128
"""No more than these are left unflushed: Milvus Lite indexes their terms anew in each search (250 of them: 70 ms)."""
BATCH = UNFLUSHED_ROWS
IDS_IN_A_FILTER = 500


class MilvusVectorStore:
    """The vector store of a site.

    ``uri`` is a path that ends in ``.db`` (Milvus Lite) or a server's address, ``identity`` gives what the site's
    vectors are made by (by default the registry's embedder, asked when the store opens), ``timeout`` is in seconds, for
    each call.

    Locks, always taken in this order: ``_writing`` (one writer at a time: concurrent ones lost deletes), ``_access`` (a
    Lite flush moves rows while no search looks on: it would miss them for a moment), ``_opening``.
    """

    metric = milvus_collection.METRIC

    def __init__(
        self,
        uri: str,
        *,
        identity: Callable[[], CollectionIdentity] = present_identity,
        collection: str = "kbsite_chunks",
        timeout: float = 10.0,
    ) -> None:
        self._uri = uri
        self._identity = identity
        self._name = collection
        self._timeout = timeout
        self._lite = is_lite(uri)
        self._writing = threading.RLock()
        self._access = SharedLock()
        self._opening = threading.Lock()
        self._client: Any = None
        self._dimension = 0
        self._lexical = False
        self._cold = False
        self._unflushed = 0
        self._changes = 0
        self._counted: tuple[int, dict[tuple[int, int], int]] = (-1, {})
        self._failure: ClientError | None = None
        self._failure_holds_until = 0.0

    # ---- Opening ---------------------------------------------------------------------------------------------------

    @property
    def has_lexical(self) -> bool:
        """Whether the collection holds sparse vectors. Opens the store; false where that fails."""
        try:
            self.open()
        except ClientError:
            return False
        return self._lexical

    def open(self) -> None:
        """Connect, make the collection if missing, prove the metric, load. Idempotent."""
        self._opened()
        if self._cold:
            self._warm()

    def close(self) -> None:
        """Let go of the connection; of a Lite file too, so that another process may open it."""
        with self._writing, self._access.exclusive(), self._opening:
            client, self._client, self._failure = self._client, None, None
            if client is not None:
                disconnect(client, self._uri, release=True)

    def _opened(self) -> Any:
        client = self._client
        if client is not None:
            return client
        identity = self._identity()  # before the lock: it may ask the registry, which has a lock of its own
        with self._opening:
            if self._client is None:
                self._raise_fresh_failure()
                began = time.monotonic()
                try:
                    client, self._lexical = self._prepared(identity)
                except ClientError as error:
                    # A server that lets callers wait is not asked by each of them in turn: half the time is a rest.
                    self._failure = error
                    self._failure_holds_until = 2 * time.monotonic() - began
                    raise
                self._dimension = identity.dimension
                self._counted = (-1, {})  # the file may have been another process' in between
                self._cold = True
                self._client = client  # last: whoever sees it goes on without the lock
            return self._client

    def _warm(self) -> None:
        """Have Milvus Lite build its sparse indexes now, so that no question waits for it (25,000 chunks: 3 s).

        Without ``_access``: a flush that waited for this would keep every search out. Where it fails, as on a store
        that is closed meanwhile, the next lexical search does it.
        """
        client, self._cold = self._opened(), False
        if self._lite and self._lexical:
            with suppress(ClientError, ValueError), translated(self._uri):
                milvus_rows.build_sparse_indexes(client, self._name)

    def _raise_fresh_failure(self) -> None:
        if self._failure is not None and time.monotonic() < self._failure_holds_until:
            raise copy.copy(self._failure)
        self._failure = None

    def _prepared(self, identity: CollectionIdentity, *, empty: bool = False) -> tuple[Any, bool]:
        """A client with the collection loaded, and whether that holds sparse vectors."""
        with opening_lite if self._lite else nullcontext():
            client = connect(self._uri, self._timeout)
            ready = False
            try:
                if empty:
                    with translated(self._uri):
                        client.drop_collection(self._name, timeout=self._timeout)
                lexical = milvus_collection.prepare(client, self._uri, self._name, identity, lite=self._lite)
                ready = True
            finally:
                if not ready:
                    disconnect(client, self._uri, release=True)
            return client, lexical

    def _forget(self, client: Any) -> None:
        with self._opening:
            if self._client is client:
                self._client = None
                disconnect(client, self._uri, release=False)

    def _call(self, work: Callable[[Any], Answer]) -> Answer:
        """Run ``work`` with the client; once more after opening again, where the server or the collection had gone.

        Each of our calls may be made twice: writes are upserts and deletes by key.
        """
        client = self._opened()
        try:
            with translated(self._uri):
                return work(client)
        except StaleStoreError as error:
            logger.info("vector store: opening again (%s)", error)
            self._forget(client)
        client = self._opened()
        with translated(self._uri):
            return work(client)

    # ---- Writing ---------------------------------------------------------------------------------------------------

    def upsert(self, document_id: int, revision: int, chunks: Sequence[ChunkVector]) -> None:
        """Write the vectors of one revision. ``ClientError`` (``vector_invalid``) before anything is written."""
        document_id, revision = check_int(document_id, "A document's id"), check_int(revision, "A revision")
        self.open()
        matrix = check_chunks(chunks, self._dimension)
        terms = [check_terms(chunk.terms) for chunk in chunks]
        rows = milvus_rows.chunk_rows(document_id, revision, chunks, matrix, terms if self._lexical else None)
        with self._writing:
            for start in range(0, len(rows), BATCH):
                self._write(rows[start : start + BATCH])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        if self._unflushed + len(rows) > UNFLUSHED_ROWS:
            self.flush()
        with self._changing():
            self._call(lambda client: client.upsert(self._name, rows, timeout=self._timeout))
        self._unflushed += len(rows)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """What is counted while rows change is not kept: the number of changes moves before and after."""
        self._changes += 1
        try:
            yield
        finally:
            self._changes += 1

    def delete(self, document_ids: Sequence[int]) -> None:
        """Remove every vector of these documents. Unknown ids are no error."""
        ids = sorted({check_int(document_id, "A document's id") for document_id in document_ids})
        for start in range(0, len(ids), IDS_IN_A_FILTER):
            self._remove(f"document_id in [{', '.join(map(str, ids[start : start + IDS_IN_A_FILTER]))}]")

    def delete_revisions(self, document_id: int, *, keep: int) -> None:
        """Remove the vectors of every revision of a document but ``keep``."""
        document_id, keep = check_int(document_id, "A document's id"), check_int(keep, "A revision")
        self._remove(f"document_id == {document_id} and revision != {keep}")

    def discard(self, document_id: int, revision: int) -> None:
        """Remove the vectors of one revision."""
        document_id, revision = check_int(document_id, "A document's id"), check_int(revision, "A revision")
        self._remove(f"document_id == {document_id} and revision == {revision}")

    def _remove(self, int_filter: str) -> None:
        """Delete by key what a filter of ints finds, until it finds nothing.

        "Strong" sees other processes' writes; the last look is also the barrier after which this process' searches see
        the deletion (on a server "Session" covers upserts but not deletions: 8 of 8 were still found).
        """
        with self._writing:
            before: set[str] = set()
            while keys := self._call(
                lambda client: milvus_rows.pks_of(client, self._name, int_filter, timeout=self._timeout)
            ):
                if before >= keys:
                    raise ClientError(
                        "The vector store kept rows that it was told to delete.", code="store_error", retryable=True
                    )
                before = keys
                self._delete_keys(sorted(keys))

    def _delete_keys(self, keys: list[str]) -> None:
        with self._changing():
            self._call(lambda client: client.delete(self._name, ids=keys, timeout=self._timeout))

    def flush(self) -> None:
        """Settle what was written. Milvus Lite only: a server searches its growing segments fast, and limits flushes.

        The store flushes by itself after ``UNFLUSHED_ROWS`` rows; a writer calls this once more when it has nothing
        left to do. (A flush takes some 20 ms and leaves a file, so not after each document.)
        """
        if not self._lite:
            return
        with self._writing:
            self.open()
            with self._access.exclusive():
                self._call(lambda client: client.flush(self._name, timeout=milvus_collection.LOAD_TIMEOUT))
            self._unflushed = 0
            self._warm()

    def reset(self) -> None:
        """Drop everything and begin an empty collection for the present embedder."""
        identity = self._identity()
        with self._writing, self._access.exclusive(), self._opening:
            if self._client is not None:
                disconnect(self._client, self._uri, release=False)
            self._client = self._failure = None
            with self._changing():
                client, self._lexical = self._prepared(identity, empty=True)
            self._dimension = identity.dimension
            self._unflushed = 0
            self._client = client

    # ---- Reading ---------------------------------------------------------------------------------------------------

    def search(
        self,
        vector: Vector,
        top_k: int,
        *,
        domain: str | None = None,
        without: Sequence[int] = (),
        with_vectors: bool = False,
    ) -> list[VectorHit]:
        """The nearest chunks, nearest first; ``domain`` narrows, ``without`` leaves documents out. At most 16,384."""
        self.open()
        query = check_query(vector, self._dimension)
        narrowed = milvus_rows.narrowed_to(domain, without)
        if top_k < 1:
            return []
        with self._access.shared():
            return self._call(
                lambda client: milvus_rows.nearest(
                    client,
                    self._name,
                    query,
                    top_k,
                    narrowed=narrowed,
                    with_vectors=with_vectors,
                    timeout=self._timeout,
                )
            )

    def search_lexical(
        self, query: SparseVector, top_k: int, *, domain: str | None = None, without: Sequence[int] = ()
    ) -> list[LexicalHit]:
        """The chunks of the highest inner product, best first; narrowed as :meth:`search`. At most 16,384."""
        terms = check_terms(query)
        narrowed = milvus_rows.narrowed_to(domain, without)
        self.open()
        if top_k < 1 or not terms or not self._lexical:
            return []
        with self._access.shared():
            return self._call(
                lambda client: milvus_rows.best_by_terms(
                    client, self._name, terms, top_k, narrowed=narrowed, timeout=self._timeout
                )
            )

    def vectors(self, keys: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int, int], Vector]:
        """The dense vectors of chunks, by (document id, revision, number); unknown keys are missing from the answer."""
        checked = check_keys(keys)
        self.open()
        with self._access.shared():
            return self._call(lambda client: milvus_rows.vectors_of(client, self._name, checked, timeout=self._timeout))

    def counts(self) -> dict[tuple[int, int], int]:
        """Chunks by ``(document id, revision)``, over all rows.

        Counting takes Milvus Lite 0.7 s of processor time for each 10,000 rows; it is kept until a row changes, which
        in Lite only this process can do.
        """
        if self._lite and self._counted[0] == self._changes:
            return dict(self._counted[1])
        with self._access.shared():
            changes = self._changes
            counts = self._call(self._count)
            if changes % 2 == 0 and changes == self._changes:
                self._counted = (changes, counts)
        return dict(counts)

    def _count(self, client: Any) -> dict[tuple[int, int], int]:
        return milvus_rows.count_revisions(client, self._name, lite=self._lite, timeout=self._timeout)

    def health(self) -> PartHealth:
        """Ok, degraded (being opened, or without sparse vectors) or down, with what to do. Never raises."""
        if self._client is None and self._opening.locked():
            return PartHealth("degraded", "The vector store is being opened.")
        try:
            self._call(lambda client: client.get_load_state(self._name, timeout=2.0))
        except ClientError as error:
            return PartHealth("down", f"{error} {error.hint}".strip())
        return PartHealth("ok") if self._lexical else PartHealth("degraded", NO_LEXICAL_HINT)
