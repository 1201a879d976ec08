"""The keyword index of a process, kept in step with the documents' rows by their change counter (CONSISTENCY)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from clients.interfaces import PartHealth
from retrieval.interfaces import DocumentSource, IndexChanges
from retrieval.keyword_index import Found, KeywordIndex, KeywordMatch, RowCheck

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 2.0
"""Seconds. Another process' change must be found within 2 s (DOC-3), so a failing source is tried that often."""


@dataclass(frozen=True)
class _Failure:
    """Why the last try to read the source failed, and when the next one may be made (on the monotonic clock)."""

    reason: str
    pause: float
    again_at: float


class SyncedKeywordIndex:
    """A :class:`KeywordIndex` that follows a :class:`DocumentSource`. Safe for many threads; made once a process.

    A lookup calls :meth:`refresh` (one cheap read of the counter) and then :meth:`find` or :meth:`match` with its own
    row check. Neither raises because the source fails: the index then answers from what it has, nothing at first, and
    :meth:`health` says so (L0-7).
    """

    def __init__(self, source: DocumentSource) -> None:
        self._source = source
        self._index = KeywordIndex()
        self._sequence: int | None = None
        self._failure: _Failure | None = None
        self._lock = Lock()  # held by the one thread that reads changes; readers of the index never wait for it

    def __len__(self) -> int:
        return len(self._index)

    @property
    def loaded(self) -> bool:
        """Whether the index has been read from the source at least once."""
        return self._sequence is not None

    def load(self) -> bool:
        """Read the index now, if that has not been done yet. False if it could not be read."""
        return self.loaded or self.refresh()

    def refresh(self) -> bool:
        """Take over what has changed in the source. True when the index is as new as the source.

        Every change that was counted before the call is in the index after it. After a failure the source is left alone
        for a moment (0.25 s, doubling to 2 s) and False is the answer.
        """
        failure = self._failure
        if failure is not None and monotonic() < failure.again_at:
            return False
        # L0-7, a named degradation point: whatever the source raises, the site answers on with what it has.
        try:
            if failure is not None or self._source.sequence() != self._sequence:
                self._catch_up()
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            return False
        return True

    def reload(self) -> bool:
        """Read every document again, aside, and swap: for ``reindex``, or an index in doubt. False on failure."""
        try:
            with self._lock:
                self._read_all()
        except Exception as error:  # noqa: BLE001 - L0-7, as in refresh
            self._failed(error)
            return False
        return True

    def check(self, *, mend: bool = True) -> list[int]:
        """Hold the index against every document: ids that it knew wrongly. With ``mend`` it is right afterwards.

        An index that was never read is not wrong, nor is what changes meanwhile: then nothing is judged. Raises what
        the source raises.
        """
        if not self.loaded or not self.refresh():
            return []
        with self._lock:
            fresh = KeywordIndex()
            changes = self._source.entries_since(0)
            if changes.sequence != self._sequence or self._source.sequence() != self._sequence:
                return []
            _apply(fresh, changes)
            wrong = self._index.differing(fresh)
            if wrong and mend:
                self._index = fresh
        if wrong:
            logger.warning("keyword index: %d documents were not as their rows are: %s", len(wrong), wrong[:20])
        return wrong

    def match(self, query: str, live: RowCheck | None = None) -> Sequence[KeywordMatch]:
        """:meth:`KeywordIndex.match` on what was last read; the first use loads."""
        self.load()
        return self._index.match(query, live)

    def find(self, query: str, live: RowCheck | None = None, *, wanted: int = 1) -> Found:
        """:meth:`KeywordIndex.find` on what was last read; the first use loads."""
        self.load()
        return self._index.find(query, live, wanted=wanted)

    def exact_match(self, query: str) -> Sequence[KeywordMatch]:
        """Every document that matches at this moment, its row checked, in index order (L0-4).

        Raises what the source raises if the rows cannot be read.
        """
        self.refresh()
        return self._index.match(query, self._living)

    def forget_missing(self, document_ids: Iterable[int]) -> None:
        """Drop documents of which a row check found no row, unless that check was older than the index.

        A transaction that began before a document was added does not see its row, while another thread has read it into
        the index already; such a document stays.
        """
        missing = list(document_ids)
        if missing and self._source.sequence() == self._sequence:
            index = self._index
            dropped = [number for number in missing if index.remove(number)]
            logger.debug("keyword index: dropped documents without a row: %s", dropped)

    def health(self) -> PartHealth:
        """How the index stands; loads it if nothing has tried that yet, so that the answer is about the index."""
        if not self.loaded and self._failure is None:
            self.load()
        failure = self._failure
        counts = f"{len(self._index)} documents, {self._index.keyword_count} keywords, change {self._sequence or 0}"
        if failure is None:
            return PartHealth("ok", counts)
        if self.loaded:
            return PartHealth(
                "degraded",
                f"{counts}; newer changes could not be read: {failure.reason}. Check the database; lookups keep trying",
            )
        return PartHealth(
            "down",
            f"the keyword index could not be loaded: {failure.reason}. Lookups find by meaning only. Check the "
            "database and its migrations; lookups keep trying",
        )

    def _living(self, ids: Sequence[int]) -> list[int]:
        states = self._source.states(ids)
        self.forget_missing(number for number in ids if number not in states)
        return [number for number in ids if number in states and states[number].servable]

    def _catch_up(self) -> None:
        with self._lock:
            # Again, under the lock: another thread may have read these changes, or newer ones, while this one waited.
            now = self._source.sequence()
            if self._sequence is None or now < self._sequence:
                self._read_all()  # the first time, or the counter went back: another database, or a restored one
            elif now != self._sequence:
                changes = self._source.entries_since(self._sequence)
                _apply(self._index, changes)
                self._succeeded(changes.sequence)
            else:
                self._succeeded(now)

    def _read_all(self) -> None:
        begin = monotonic()
        index = KeywordIndex()
        changes = self._source.entries_since(0)
        _apply(index, changes)
        self._index = index
        self._succeeded(changes.sequence)
        taken = (monotonic() - begin) * 1000
        logger.info("keyword index: read %d documents in %.0f ms", len(index), taken)

    def _succeeded(self, sequence: int) -> None:
        self._sequence = sequence
        if self._failure is not None:
            logger.info("keyword index: the documents can be read again")
            self._failure = None

    def _failed(self, error: Exception) -> None:
        before = self._failure
        pause = _FIRST_PAUSE if before is None else min(before.pause * 2, _LONGEST_PAUSE)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        self._failure = _Failure(reason, pause, monotonic() + pause)
        if before is None or before.reason != reason:
            logger.warning("keyword index: the documents could not be read: %s", reason)


def _apply(index: KeywordIndex, changes: IndexChanges) -> None:
    for number in changes.removed:
        index.remove(number)
    for entry in changes.entries:
        index.put(entry)
