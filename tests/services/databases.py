"""Databases of the tests' own on MariaDB or MySQL: made, dropped, and swept where a killed run left them."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlsplit

PREFIX = "kbsite_test_"


def connect(url: str) -> Any:
    """A connection to the server at ``url``, without a database."""
    import MySQLdb

    parts = urlsplit(url)
    return MySQLdb.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=parts.username or "root",
        passwd=parts.password or "",
        autocommit=True,
    )


def fresh_name() -> str:
    """A name that no other run has."""
    return PREFIX + secrets.token_hex(4)


class Database:
    """One database; ``url`` is what a site is told."""

    def __init__(self, server: str) -> None:
        self.name = fresh_name()
        self.url = f"{server.rstrip('/')}/{self.name}"
        self._connection = connect(server)
        self.run(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        self.run(f"USE {self.name}")

    def run(self, statement: str) -> Any:
        """One statement; its rows."""
        cursor = self._connection.cursor()
        cursor.execute(statement)
        return cursor.fetchall()

    def drop(self) -> None:
        """Remove it."""
        self.run(f"DROP DATABASE {self.name}")
        self._connection.close()


def drop_test_databases(server: str, of_run: str) -> None:
    """What pytest-django left of a run (it makes one for each process), and what runs of a day ago or earlier left."""
    connection = connect(server)
    cursor = connection.cursor()
    cursor.execute(
        "SELECT schema_name, COALESCE(MIN(create_time) < NOW() - INTERVAL 1 DAY, 0)"
        " FROM information_schema.schemata LEFT JOIN information_schema.tables ON table_schema = schema_name"
        " GROUP BY schema_name"
    )
    for name, is_old in cursor.fetchall():
        ours = name.removeprefix("test_").startswith(PREFIX)
        if ours and (is_old or name.removeprefix("test_").startswith(of_run)):
            cursor.execute(f"DROP DATABASE `{name}`")
    connection.close()
