"""One reconcile at a time, over all processes of the site: a time in a row, which the holder keeps moving on.

A process that dies leaves its time behind; after two minutes it holds nobody up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db.models import Q

from documents.models import ChangeCounter

LEASE_SECONDS = 120
_RENEW_SECONDS = 15.0
_NAME = "reconcile_until"
_MICRO = 1_000_000


class TurnLostError(Exception):
    """The lease ran out in the middle of a step, and another process has it now: this one stops where it is."""


@dataclass
class Turn:
    """The right to reconcile; ``value`` is the moment up to which it holds, in microseconds since 1970."""

    value: int
    _kept: float = field(default_factory=time.monotonic)

    def keep(self) -> None:
        """Hold it for another two minutes; cheap to call often. Raises :class:`TurnLostError`."""
        if time.monotonic() - self._kept < _RENEW_SECONDS:
            return
        until = _until()
        if not ChangeCounter.objects.filter(name=_NAME, value=self.value).update(value=until):
            raise TurnLostError
        self.value, self._kept = until, time.monotonic()


@contextmanager
def one_at_a_time(patience: float = 0.0) -> Iterator[Turn | None]:
    """The turn, given back at the end; None where another has it still after ``patience`` seconds."""
    turn = _wait_for_turn(patience)
    try:
        yield turn
    finally:
        if turn is not None:
            ChangeCounter.objects.filter(name=_NAME, value=turn.value).update(value=0)


def release_dead_turn() -> None:
    """At the start of a process that alone holds its data folder: the turn of a process before it is nobody's."""
    ChangeCounter.objects.filter(name=_NAME).update(value=0)


def _wait_for_turn(patience: float) -> Turn | None:
    deadline = time.monotonic() + patience
    while (turn := _take()) is None and time.monotonic() < deadline:
        time.sleep(0.25)
    return turn


def _take() -> Turn | None:
    ChangeCounter.objects.get_or_create(name=_NAME)
    now, until = int(time.time() * _MICRO), _until()
    # A time further ahead than was ever given comes from a clock that has jumped since.
    free = Q(value__lt=now) | Q(value__gt=now + 2 * LEASE_SECONDS * _MICRO)
    return Turn(until) if ChangeCounter.objects.filter(free, name=_NAME).update(value=until) else None


def _until() -> int:
    return int((time.time() + LEASE_SECONDS) * _MICRO)
