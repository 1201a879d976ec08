"""What is repeated after a deadlock: whole transactions, and statements that are one by themselves."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from documents.models import ApiDocument
from documents.names import path_key
from documents.transactions import _repeating, repeated_on_deadlock

DEADLOCK = OperationalError(1213, "Deadlock found when trying to get lock; try restarting transaction")


class Colliding:
    """A step that meets so many deadlocks before it goes through."""

    def __init__(self, times: int, fault: OperationalError = DEADLOCK) -> None:
        self.left, self.fault, self.tried = times, fault, 0

    def __call__(self, *_: Any) -> str:
        self.tried += 1
        if self.left:
            self.left -= 1
            raise self.fault
        return "done"


@pytest.mark.django_db(transaction=True)
def test_a_step_is_run_again_after_a_deadlock_and_not_for_ever() -> None:
    once, always = Colliding(3), Colliding(99)
    assert repeated_on_deadlock(once)() == "done"
    with pytest.raises(OperationalError):
        repeated_on_deadlock(always)()
    assert (once.tried, always.tried) == (4, 6)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_repeated_for_another_fault_or_inside_a_transaction() -> None:
    other = Colliding(1, OperationalError(2006, "Server has gone away"))
    inside = Colliding(1)
    with pytest.raises(OperationalError):
        repeated_on_deadlock(other)()
    with pytest.raises(OperationalError), transaction.atomic():
        repeated_on_deadlock(inside)()
    assert (other.tried, inside.tried) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_one_statement_is_run_again_and_many_at_once_are_not() -> None:
    one, many = Colliding(1), Colliding(1)
    context = {"connection": connection}
    assert _repeating(one, "UPDATE", [], False, context) == "done"
    with pytest.raises(OperationalError):
        _repeating(many, "INSERT", [], True, context)
    assert (one.tried, many.tried) == (2, 1)


def _rows(count: int) -> list[int]:
    made = []
    for number in range(count):
        path = f"knowledge_base/api/{number}.md"
        row = {"file_path": path, "path_key": path_key(path), "file_name": f"{number}.md", "category": "api"}
        made.append(ApiDocument.objects.create(**row, title="before", updated_at=timezone.now()).pk)
    return made


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "mysql", reason="SQLite has one writer at a time")
def test_a_statement_that_the_database_broke_off_goes_through() -> None:
    """It holds the last row and waits for the first; a transaction that changed more holds that and wants the last."""
    first, *others, last = _rows(30)
    ended: list[int] = []

    def both() -> None:
        sql = "UPDATE api_document SET title = 'after' WHERE id IN (%s, %s) ORDER BY id DESC"
        try:
            with connection.cursor() as cursor:
                ended.append(cursor.execute(sql, [first, last]))
        finally:
            connection.close()

    thread = threading.Thread(target=both)
    with transaction.atomic():
        ApiDocument.objects.filter(pk__in=[first, *others]).update(title="meanwhile")
        thread.start()
        deadline = time.monotonic() + 30
        while not _waits_for_a_lock():
            assert time.monotonic() < deadline
            time.sleep(0.2)  # the server looks anew only for who has not asked for a tenth of a second
        ApiDocument.objects.filter(pk=last).update(title="meanwhile")
    thread.join(30)
    assert ended == [2]
    assert set(ApiDocument.objects.filter(pk__in=[first, last]).values_list("title", flat=True)) == {"after"}


def _waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
        return bool(cursor.fetchone()[0])
