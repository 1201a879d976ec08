"""Which services answer here: named by a variable, else at their usual loopback port. Nothing is started."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

EXPECTED = "CI_EXPECTS_SERVICES"
"""Names of services, comma-separated, whose tests must not be skipped."""


@dataclass(frozen=True)
class Service:
    """One service and where the tests look for it."""

    name: str
    variable: str
    usual: str
    usual_port: int
    module: str

    @property
    def url(self) -> str:
        """Where it is looked for."""
        return os.environ.get(self.variable) or self.usual

    def missing(self) -> str:
        """Why its tests cannot run; empty where they can."""
        if not find_spec(self.module):
            return f"{self.name}: the package {self.module} is not installed (make install-production)"
        if not self.url:
            return f"{self.name}: {self.variable} names none"
        if not answers(self.url, self.usual_port):
            where = urlsplit(self.url)
            place = f"{where.hostname}:{where.port or self.usual_port}"
            return f"{self.name}: nothing answers at {place}; {self.variable} names another"
        return ""


def answers(url: str, default_port: int) -> bool:
    """Whether something listens there."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or default_port), timeout=1):
            return True
    except OSError:
        return False


MARIADB = Service("mariadb", "KBSITE_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/", 3306, "MySQLdb")
REDIS = Service("redis", "KBSITE_TEST_REDIS_URL", "redis://127.0.0.1:6379/0", 6379, "redis")
RABBITMQ = Service("rabbitmq", "KBSITE_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672//", 5672, "amqp")
MILVUS = Service("milvus", "VECTOR_STORE_TEST_URI", "", 19530, "pymilvus")
SERVICES = (MARIADB, REDIS, RABBITMQ, MILVUS)


def expected() -> frozenset[str]:
    """The services that the caller says are here."""
    return frozenset(name.strip() for name in os.environ.get(EXPECTED, "").split(",") if name.strip())
