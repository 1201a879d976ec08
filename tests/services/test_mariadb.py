"""The tables on MariaDB or MySQL: every migration runs, nothing is left to migrate, names differ as Python says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ROUND_TRIP = """
import json
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from documents.models import ApiDocument
from documents.names import path_key

def add(name):
    path = f"knowledge_base/api/{name}"
    return ApiDocument.objects.create(
        file_path=path, path_key=path_key(path), file_name=name, category="api", title="\\U0001F600 " + name,
        metadata={"keywords": ["\\u652f\\u4ed8", "\\U0001F600"]}, updated_at=timezone.now(),
    )

names = ["caf\\u00e9.md", "cafe.md", "\\U0001F600.md", "\\U0001F680.md", "a.md"]
for name in names:
    add(name)
found = [row.file_name for row in ApiDocument.objects.order_by("id")]
emoji = ApiDocument.objects.filter(file_name="\\U0001F600.md").count()
upper = ApiDocument.objects.filter(file_name="A.md").count()
twin = "taken"
try:
    with transaction.atomic():
        add("A.md")
    twin = "added"
except IntegrityError:
    pass
with connection.cursor() as cursor:
    cursor.execute("SELECT DISTINCT table_collation FROM information_schema.tables WHERE table_schema = DATABASE()")
    collations = sorted(row[0] for row in cursor.fetchall())
keywords = ApiDocument.objects.first().metadata["keywords"]
said = {"found": found, "emoji": emoji, "upper": upper, "twin": twin, "collations": collations, "keywords": keywords}
print(json.dumps(said))
"""


def manage(mariadb_url: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": mariadb_url,
        "DATA_DIR": str(tmp_path / "data"),
        "SECRET_KEY": "x" * 60,
        "EMBEDDER": "hashing",
    }
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_migration_runs_and_nothing_is_left(mariadb_url: str, tmp_path: Path) -> None:
    migrated = manage(mariadb_url, tmp_path, "migrate", "--no-input")
    assert migrated.returncode == 0, migrated.stderr
    unapplied = manage(mariadb_url, tmp_path, "migrate", "--check", "--no-input")
    assert unapplied.returncode == 0, unapplied.stdout
    checked = manage(mariadb_url, tmp_path, "check", "--database", "default", "--fail-level", "WARNING")
    assert checked.returncode == 0, checked.stderr


def test_names_are_equal_only_where_python_says_so(mariadb_url: str, tmp_path: Path) -> None:
    assert manage(mariadb_url, tmp_path, "migrate", "--no-input").returncode == 0
    outcome = manage(mariadb_url, tmp_path, "shell", "--no-imports", "-c", ROUND_TRIP)
    assert outcome.returncode == 0, outcome.stderr
    said = json.loads(outcome.stdout.strip().splitlines()[-1])
    assert said["found"] == ["café.md", "cafe.md", "😀.md", "🚀.md", "a.md"]
    assert said["emoji"] == 1  # general collations hold every emoji equal
    assert said["upper"] == 0
    assert said["twin"] == "taken"  # A.md is a.md: by the key computed in Python
    assert said["collations"] == ["utf8mb4_bin"]
    assert said["keywords"] == ["支付", "😀"]
