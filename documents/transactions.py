"""Repeating what the database broke off for another transaction's sake."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from django.db import OperationalError, connection
from django.db.backends.signals import connection_created

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_ATTEMPTS = 6
_MYSQL_DEADLOCK = 1213


def is_deadlock(fault: OperationalError) -> bool:
    """MySQL and MariaDB: this transaction was rolled back so that another could go on; the same again will do."""
    return bool(fault.args) and fault.args[0] == _MYSQL_DEADLOCK


def repeated_on_deadlock(step: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """For a function that is one whole transaction: run it again after a deadlock, a few times."""

    @functools.wraps(step)
    def repeating(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        return _repeated(lambda: step(*args, **kwargs), connection)

    return repeating


def repeat_single_statements() -> None:
    """From now on a statement outside any transaction, which is a transaction of its own, is run again too.

    A compare and set takes locks on more than the row it changes: through each index that its conditions use.
    """
    connection_created.connect(_watch, dispatch_uid="documents.transactions")


def _watch(*, connection: Any, **_: Any) -> None:
    if connection.vendor == "mysql" and _repeating not in connection.execute_wrappers:
        connection.execute_wrappers.append(_repeating)


def _repeating(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
    if many:  # it may be several statements, of which some are done
        return execute(sql, parameters, many, context)
    return _repeated(lambda: execute(sql, parameters, many, context), context["connection"])


def _repeated(step: Callable[[], Answer], used: Any) -> Answer:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return step()
        except OperationalError as fault:
            if attempt == _ATTEMPTS or used.in_atomic_block or not is_deadlock(fault):
                raise
        # Whoever collided begins again at another moment, or they would collide again.
        time.sleep(random.uniform(0.0, 0.005 * 2**attempt))  # noqa: S311 (no secret)
    raise AssertionError("the loop returns or raises")
