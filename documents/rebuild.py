"""Building the vectors anew: of some documents, or of all with an empty collection (a changed embedder).

Commands write rows and a request; whoever holds the vector store (the worker) carries it out.
"""

from __future__ import annotations

import logging

from django.db import transaction

from clients.interfaces import ClientError
from clients.registry import get_vector_store
from documents.counters import bump, put, read
from documents.models import ApiDocument
from documents.terms import remove_all_chunks
from documents.vectors import unflushed, vector_writer
from documents.wakeup import wake_worker

log = logging.getLogger("documents.rebuild")
_REQUESTED = "reset_requested"
_DONE = "reset_done"
_STATES = ApiDocument.Status
COLLECTION_OUTDATED = "collection_outdated"
"""The present embedder's vectors as another version of this program laid them out."""
_ANOTHER_MAKE = ("collection_mismatch", COLLECTION_OUTDATED)


def request_rebuild_of_all() -> None:
    """Ask for every document's vectors to be made again; a collection of another embedder is emptied first."""
    with transaction.atomic(durable=True):
        bump(_REQUESTED)
    wake_worker()


def reset_if_requested() -> bool:
    """Carry out a request of :func:`request_rebuild_of_all`; True where there was one."""
    requested = read(_REQUESTED)
    if requested == read(_DONE):
        return False
    with vector_writer:
        try:
            get_vector_store().open()
        except ClientError as fault:
            if fault.code not in _ANOTHER_MAKE:
                # Degradation point: the request stays and is tried in the next round.
                log.debug("the vector store cannot be rebuilt yet: %s", fault)
                return False
            log.warning("the collection is of another make and is made anew: %s", fault)
            if not _empty_the_store():
                return False
        _queue_all()
        put(_DONE, requested)
    return True


def replace_lost_vectors() -> bool:
    """Queue every document where the store is empty although there are indexed ones; True where that was so.

    A Milvus Lite file that was lost or removed is made anew when the store is opened, and nothing else would tell.
    Raises what the store raises.
    """
    if not ApiDocument.objects.filter(indexed_revision__gt=0, chunk_count__gt=0).exists():
        return False
    with vector_writer:
        if get_vector_store().counts():
            return False
        log.warning("the vector store is empty although documents were indexed: their vectors are made anew")
        _queue_all()
    return True


def _empty_the_store() -> bool:
    """Rows first: from here on no chunk counts, whatever of the store is left if this stops half way."""
    with transaction.atomic(durable=True):
        ApiDocument.objects.update(indexed_revision=0, indexed_hash="", chunk_count=0)
        remove_all_chunks()
    try:
        get_vector_store().reset()
    except ClientError as fault:
        # Degradation point: the request stays and is tried in the next round.
        log.error("the vector store could not be emptied: %s %s", fault, fault.hint)
        return False
    unflushed.clear()
    return True


def _queue_all() -> None:
    """A job that is running now loses its lease: it may hold vectors of the former embedder."""
    rows = ApiDocument.objects.exclude(status=_STATES.DELETING).filter(missing_since=None)
    number = rows.update(
        status=_STATES.PENDING, status_reason="", error_code="", attempts=0, next_attempt_at=None,
        lease_owner="", lease_expires_at=None,
    )  # fmt: skip
    log.info("%s documents are queued to be indexed again", number)
