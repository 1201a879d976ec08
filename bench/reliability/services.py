"""A site of several processes on the MariaDB and the Redis that answer here; what it made there is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.reliability.stacks import FleetStack
from tests.services.databases import Database
from tests.services.reachable import MARIADB, REDIS


def missing() -> str:
    """Why there can be none; empty where there can."""
    return MARIADB.missing() or REDIS.missing()


@contextmanager
def fleet_stack(folder: Path, redis_url: str | None = None) -> Iterator[FleetStack]:
    """Not started yet. Without ``redis_url`` an empty database of the Redis is taken."""
    from tests.services.conftest import Broker, empty_redis

    if redis_url is None:
        with empty_redis() as url, fleet_stack(folder, url) as stack:
            yield stack
        return
    database, broker = Database(MARIADB.url), Broker(redis_url)
    stack = FleetStack(
        folder,
        {"DATABASE_URL": database.url, "REDIS_URL": redis_url, **broker.variables},
        lambda: database.run("UPDATE change_counter SET value = 0 WHERE name = 'reconcile_until'"),
    )
    try:
        yield stack
    finally:
        stack.stop()
        broker.remove()
        database.drop()
