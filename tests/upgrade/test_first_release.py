"""A site of the first landed release is brought to this version the way an operator does it: migrate, then start.

Nothing of this process' database is used: the commands run as processes of their own on a copy of what it left.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = Path(__file__).parent / "first_release"
TABLES = ("auth_user", "api_key", "chat_session", "agent_run", "chat_message", "document_history", "knowledge_domain")


class Site:
    """A copy of what the first release left, and this version's commands on it."""

    def __init__(self, folder: Path) -> None:
        self.before: dict[str, list[dict[str, Any]]] = {}
        self.after: dict[str, list[dict[str, Any]]] = {}
        self.data, self.knowledge_base = folder / "data", folder / "knowledge_base"
        self.data.mkdir()
        shutil.copytree(FIXTURE / "knowledge_base", self.knowledge_base)
        with sqlite3.connect(self.data / "kbsite.sqlite3") as database:
            database.executescript((FIXTURE / "database.sql").read_text(encoding="utf-8"))
        packed = base64.b64decode((FIXTURE / "vectors.tar.gz.base64").read_bytes())
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
            tar.extractall(self.data, filter="data")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        database = sqlite3.connect(self.data / "kbsite.sqlite3")
        database.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in database.execute(statement)]
        finally:
            database.close()

    def table(self, name: str) -> list[dict[str, Any]]:
        return self.rows(f"SELECT * FROM {name} ORDER BY id")  # noqa: S608 (our own tables)

    def manage(self, *command: str) -> str:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        own = {
            "DATA_DIR": str(self.data),
            "KNOWLEDGE_BASE_PATH": str(self.knowledge_base),
            "EMBEDDER": "hashing",
            "SECRET_KEY": "upgrade-" + "x" * 50,
        }
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=kept | own,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def asked(self, query: str) -> dict[str, Any]:
        return dict(json.loads(self.manage("lookup", query, "--json")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("first"))
    made.before = {table: made.table(table) for table in (*TABLES, "api_document")}
    made.manage("migrate", "--verbosity", "0")
    made.after = {table: made.table(table) for table in made.before}
    return made


def test_every_row_is_there_as_it_was(site: Site) -> None:
    for table, before in site.before.items():
        after = site.after[table]
        assert [{name: row[name] for name in then} for row, then in zip(after, before, strict=True)] == before, table


def test_exact_lookups_answer_at_once(site: Site) -> None:
    answer = site.asked("E-504")
    assert answer["found"]
    assert "thirty seconds" in json.dumps(answer)
    assert site.asked("WAIT-1")["found"]
    assert not site.asked("HIDDEN-1")["found"]
    assert not site.asked("GONE-1")["found"]


def test_the_vectors_of_the_old_layout_are_made_again_and_answer(site: Site) -> None:
    site.manage("reindex", "--all")
    documents = site.rows("SELECT * FROM api_document")
    assert {row["status"] for row in documents} == {"INDEXED"}
    assert all(row["indexed_revision"] == row["revision"] and row["chunk_count"] for row in documents)
    assert site.rows("SELECT count(*) AS n FROM term_count")[0]["n"] > 0
    answer = site.asked("how many working days until a refund reaches the customer")
    assert answer["found"]
    assert "five working days" in json.dumps(answer)


def test_a_backup_of_the_upgraded_site_comes_back_elsewhere(site: Site, tmp_path: Path) -> None:
    archive = tmp_path / "first.tar.gz"
    site.manage("backup", str(archive))
    other = object.__new__(Site)
    other.data, other.knowledge_base = tmp_path / "data", tmp_path / "knowledge_base"
    other.manage("restore", str(archive))
    for table in TABLES:
        assert other.table(table) == site.table(table), table
    assert other.asked("E-504") == site.asked("E-504")
