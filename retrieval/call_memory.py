"""The action memory as one lookup uses it: it may be absent (no scope) or fail, and the lookup goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from clients.interfaces import ClientError
from retrieval.action_memory import HeldDocument, MemoryScope, RetrievedDocTracker
from retrieval.parts import Marks
from retrieval.stopwatch import Stopwatch

log = logging.getLogger(__name__)

T = TypeVar("T")


class CallMemory:
    """Nothing is remembered without a scope, nor after the memory failed once (``error`` then says why)."""

    def __init__(self, tracker: RetrievedDocTracker, scope: MemoryScope | None, watch: Stopwatch) -> None:
        self._tracker = tracker
        self._key = scope.key if scope is not None else None
        self._watch = watch
        self._claimed: list[str] = []
        self._served_domains: list[str] = []
        self._marks: Marks | None = None
        self.error = ""

    @property
    def marks(self) -> Marks:
        """What the scope held when this lookup began to look."""
        if self._marks is None:
            self._marks = Marks(self._ask(self._tracker.marks, frozenset()))
        return self._marks

    def count_lookup(self) -> int:
        return self._ask(self._tracker.count_lookup, 0)

    def count_repeat(self) -> int:
        return self._ask(self._tracker.count_repeat, 0)

    def held(self) -> list[HeldDocument]:
        return self._ask(self._tracker.held_documents, [])

    def domains(self) -> list[str]:
        """Domains retrieved in this scope, this call's included; this call's alone where nothing is remembered."""
        remembered: list[str] = self._ask(self._tracker.get_retrieved_domains, [])
        return list(dict.fromkeys([*remembered, *self._served_domains]))

    def claim(self, unless: Sequence[frozenset[str]], marks: frozenset[str]) -> bool:
        """May this call serve the text? Of parallel calls exactly one is told yes."""
        before = self.marks.all
        wanted = sorted(marks)
        sets = [one for one in unless if one]
        if not self._ask(lambda key: self._tracker.claim(key, unless=sets, marks=wanted), True):
            return False
        self._claimed.extend(mark for mark in wanted if mark not in before)
        return True

    def give_back(self) -> None:
        """Release what this call claimed: it broke off, and nothing of it was served."""
        claimed, self._claimed = self._claimed, []
        if claimed:
            self._ask(lambda key: self._tracker.release(key, claimed), None)

    def remember(self, *, domain: str, path: str, title: str) -> None:
        """A document was served."""
        self._served_domains.append(domain)
        self._ask(lambda key: self._tracker.mark_retrieved(key, domain, path, title=title), True)

    def _ask(self, action: Callable[[str], T], otherwise: T) -> T:
        if self._key is None:
            return otherwise
        # Degradation point "memory": a lookup without its memory still answers.
        try:
            with self._watch.stage("memory"):
                return action(self._key)
        except ClientError as error:
            self.error = f"{error.code}: {error}"
            self._key = None
            log.warning("action memory left out of this lookup: %s", self.error)
            return otherwise
