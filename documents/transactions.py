"""Repeating a transaction that the database broke off for another one's sake."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_ATTEMPTS = 4
_MYSQL_DEADLOCK = 1213


def is_deadlock(fault: OperationalError) -> bool:
    """MySQL and MariaDB: this transaction was rolled back so that another could go on; the same again will do."""
    return bool(fault.args) and fault.args[0] == _MYSQL_DEADLOCK


def repeated_on_deadlock(step: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """For a function that is one whole transaction: run it again after a deadlock, a few times."""

    @functools.wraps(step)
    def repeating(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return step(*args, **kwargs)
            except OperationalError as fault:
                if attempt == _ATTEMPTS or connection.in_atomic_block or not is_deadlock(fault):
                    raise
        raise AssertionError("the loop returns or raises")

    return repeating
