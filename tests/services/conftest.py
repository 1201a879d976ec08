"""Databases, keys and queues of the tests' own on the services that answer; all of it is removed afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest
import redis
from kombu.connection import Connection

from tests.services.databases import Database
from tests.services.fleet import Fleet
from tests.services.reachable import EXPECTED, MARIADB, RABBITMQ, REDIS, Service, expected


def needs(service: Service) -> str:
    """Its address; skips with the reason where it cannot be used."""
    missing = service.missing()
    if missing:
        leave_out(service, missing)
    return service.url


def leave_out(service: Service, reason: str) -> NoReturn:
    """Skip, or fail where the caller has said that the service is here."""
    if service.name in expected():
        pytest.fail(f"{EXPECTED} promises it, but {reason}")
    pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.services)


# ---- MariaDB ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    """A database of our own on the MariaDB or MySQL that answers, dropped afterwards."""
    database = Database(needs(MARIADB))
    yield database.url
    database.drop()


# ---- Redis -----------------------------------------------------------------------------------------------------------
OWNER = "kbsite-test-owner"


@contextmanager
def empty_redis() -> Iterator[str]:
    """An empty database of the Redis that answers, taken for this run and emptied afterwards."""
    server = urlsplit(needs(REDIS))
    taken = None
    for number in range(15, 0, -1):
        url = server._replace(path=f"/{number}").geturl()
        candidate = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=5)
        try:
            if candidate.dbsize() == 0 and candidate.set(OWNER, "1", nx=True):
                taken = candidate
                break
        except redis.ResponseError:  # fewer databases than usual
            pass
        candidate.close()
    if taken is None:
        leave_out(REDIS, "redis: every database but 0 holds keys; KBSITE_TEST_REDIS_URL names another server")
    try:
        yield url
    finally:
        taken.flushdb()
        taken.close()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """One for the whole run."""
    with empty_redis() as url:
        yield url


# ---- Brokers ---------------------------------------------------------------------------------------------------------
class Broker:
    """A broker, and the queues of one site on it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.queue = f"kbsite-test-{secrets.token_hex(4)}"

    @property
    def variables(self) -> dict[str, str]:
        """What a process of the site is told."""
        return {"CELERY_BROKER_URL": self.url, "CELERY_QUEUE": self.queue}

    def _connected(self) -> Any:
        return Connection(self.url, connect_timeout=5)  # type: ignore[no-untyped-call]

    def waiting(self) -> int:
        """Messages that nobody has taken yet; 0 where there is no queue yet."""
        with self._connected() as connection:
            try:
                return int(connection.channel().queue_declare(self.queue, passive=True).message_count)
            except connection.channel_errors:
                return 0

    def purge(self) -> int:
        """Lose every message that waits; how many that were."""
        with self._connected() as connection:
            try:
                return int(connection.channel().queue_purge(self.queue) or 0)
            except connection.channel_errors:
                return 0

    def remove(self) -> None:
        """Delete queues and exchanges."""
        for name in (self.queue, f"{self.queue}-llm"):
            self._delete(lambda channel, name=name: channel.queue_delete(name))
        for name in (
            self.queue, f"{self.queue}-llm", f"{self.queue}.pidbox", f"reply.{self.queue}.pidbox", f"{self.queue}-ev"
        ):  # fmt: skip
            self._delete(lambda channel, name=name: channel.exchange_delete(name))

    def _delete(self, step: Any) -> None:
        with self._connected() as connection:
            try:
                step(connection.channel())
            except (*connection.channel_errors, NotImplementedError):
                pass


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Each kind of broker in turn."""
    url = request.getfixturevalue("redis_url") if request.param == "redis" else needs(RABBITMQ)
    made = Broker(url)
    yield made
    made.remove()


# ---- Sites -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def database_url(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[str]:
    """A database for several processes, one for each broker: MariaDB where it answers, else an SQLite file."""
    if MARIADB.missing():
        yield f"sqlite:///{tmp_path_factory.mktemp('database') / 'site.sqlite3'}"
        return
    database = Database(MARIADB.url)
    yield database.url
    database.drop()


@contextmanager
def four_processes(folder: Path, redis_url: str, **variables: str) -> Iterator[Fleet]:
    """Two web processes and two workers on MariaDB, Redis, and Milvus where a server is named."""
    database, broker = Database(needs(MARIADB)), Broker(redis_url)
    given = {"DATABASE_URL": database.url, "REDIS_URL": redis_url, **broker.variables, **variables}
    fleet = Fleet(folder, given, milvus=True)
    try:
        for _ in range(2):
            fleet.web()
        for _ in range(2):
            fleet.worker()
        yield fleet
    finally:
        fleet.stop()
        broker.remove()
        database.drop()


@pytest.fixture(scope="module")
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_url: str, broker: Broker
) -> Iterator[Fleet]:
    """A site with a broker: no process runs yet."""
    folder = tmp_path_factory.mktemp("fleet")
    made = Fleet(folder, {"DATABASE_URL": database_url, **broker.variables})
    try:
        yield made
    finally:
        made.stop()
