"""Services are used where they answer: by a variable, else at the usual loopback address. Nothing is started here."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

DEFAULT_MYSQL = "mysql://root@127.0.0.1:3306/"


def answers(url: str, default_port: int) -> bool:
    """Whether something listens there."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or default_port), timeout=1):
            return True
    except OSError:
        return False


@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    """A database of our own on the MariaDB or MySQL that answers, dropped afterwards."""
    server = os.environ.get("KBSITE_TEST_MYSQL_URL", DEFAULT_MYSQL).rstrip("/")
    driver = pytest.importorskip("MySQLdb", reason="mysqlclient is not installed (requirements/production.txt)")
    if not answers(server, 3306):
        pytest.skip(f"no MariaDB or MySQL answers at {urlsplit(server).hostname}; KBSITE_TEST_MYSQL_URL names another")
    parts = urlsplit(server)
    name = f"kbsite_test_{secrets.token_hex(4)}"
    connection = driver.connect(
        host=parts.hostname, port=parts.port or 3306, user=parts.username or "root", passwd=parts.password or ""
    )
    cursor = connection.cursor()
    cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    try:
        yield f"{server}/{name}"
    finally:
        cursor.execute(f"DROP DATABASE {name}")
        connection.close()
