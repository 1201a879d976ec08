"""``backup``: rows and bytes of one moment in one file, while writing goes on.

The rows are read in one transaction that sees one moment and holds up nobody. A document's bytes are those that its row
names: if it is replaced or deleted meanwhile they lie under ``.history/`` before they leave their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from documents import history, storage
from documents.backup_archive import DOCUMENTS, HISTORY, ROWS, ArchiveWriter, new_archive
from documents.backup_rows import rows_of, tables
from documents.counters import read
from documents.models import ApiDocument, DocumentHistory
from documents.names import PREFIX

_ATTEMPTS = 3
Tell = Callable[[str], None]


@dataclass
class BackupReport:
    """What went in. ``absent``: paths without bytes; ``edited``: files that others changed and no scan has seen."""

    rows: int = 0
    documents: int = 0
    revisions: int = 0
    absent: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)


def write_backup(path: Path, *, force: bool = False, tell: Tell = lambda line: None) -> BackupReport:
    """Write everything that cannot be made again into ``path``: rows, documents, earlier revisions; no vectors.

    Must not be called inside a transaction. Raises ``BackupError``, ``OSError``, ``DatabaseError``.
    """
    report = BackupReport()
    with new_archive(path, force=force) as archive, one_moment():
        facts = _facts()
        for model in tables():
            report.rows += archive.add_lines(f"{ROWS}{model._meta.label_lower}.jsonl", rows_of(model))
        tell(f"{report.rows} rows")
        _add_documents(archive, report, tell)
        _add_revisions(archive, report, tell)
        archive.finish({**facts, "absent": report.absent, "edited": report.edited})
    return report


@contextmanager
def one_moment() -> Iterator[None]:
    """Every read inside sees the database as it was at the beginning; writers go on.

    By hand, since Django's ``atomic`` begins as a writer on SQLite and reads each statement's own moment on MySQL.
    """
    if connection.in_atomic_block:
        raise RuntimeError("a backup needs a transaction of its own")
    begin = ["BEGIN DEFERRED", "SELECT 1 FROM django_migrations"]  # the first read takes the moment
    if connection.vendor == "mysql":
        begin = [
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        ]
    with connection.cursor() as cursor:
        for statement in begin:
            cursor.execute(statement)
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


def applied_migrations() -> dict[str, list[str]]:
    """The migrations that this database has, by app."""
    found: dict[str, list[str]] = {}
    for app, name in sorted(MigrationRecorder(connection).applied_migrations()):
        found.setdefault(app, []).append(name)
    return found


def last_ids() -> dict[str, int]:
    """The highest id that each table ever gave: it is not given again after a restore."""
    queries = {
        "sqlite": "SELECT name, seq FROM sqlite_sequence",
        "mysql": "SELECT table_name, auto_increment - 1 FROM information_schema.tables"
        " WHERE table_schema = DATABASE() AND auto_increment IS NOT NULL",
    }
    ours = {model._meta.db_table for model in tables()}
    with connection.cursor() as cursor:
        cursor.execute(queries[connection.vendor])
        return {str(name): int(last) for name, last in cursor.fetchall() if name in ours}


def _facts() -> dict[str, Any]:
    return {
        "program": "kbsite",
        "made_at": timezone.now().isoformat(),
        "database": connection.vendor,
        "migrations": applied_migrations(),
        "last_ids": last_ids(),
        "counter": read(),
    }


def _add_documents(archive: ArchiveWriter, report: BackupReport, tell: Tell) -> None:
    for document in _in_batches():
        data = _bytes_of(document)
        if data is None:
            if document.missing_since is None and document.status != ApiDocument.Status.DELETING:
                report.absent.append(document.file_path)
            continue
        if storage.content_hash(data) != document.content_hash:
            report.edited.append(document.file_path)
        archive.add_bytes(DOCUMENTS + document.file_path.removeprefix(PREFIX), data)
        report.documents += 1
        if report.documents % 500 == 0:
            tell(f"{report.documents} documents")


def _in_batches() -> Iterator[ApiDocument]:
    last = 0
    while batch := list(ApiDocument.objects.filter(pk__gt=last).order_by("pk")[:500]):
        yield from batch
        last = batch[-1].pk


def _bytes_of(document: ApiDocument) -> bytes | None:
    """The bytes that the row names, from staging, their place or the history; else what others wrote in their place.

    They move on in that order and lie in the next place before they leave the one before, so a second look finds them.
    """
    in_place = None
    for _attempt in range(_ATTEMPTS):
        in_place = _read_or_none(storage.staged_path(document.pk, document.revision).read_bytes)
        if in_place is None or storage.content_hash(in_place) != document.content_hash:
            in_place = _read_or_none(lambda: storage.read_published(document.file_path))
        if in_place is not None and storage.content_hash(in_place) == document.content_hash:
            return in_place
        kept = history.bytes_of(document.pk, document.revision)
        if kept is not None and storage.content_hash(kept) == document.content_hash:
            return kept
    return in_place


def _read_or_none(look: Callable[[], bytes]) -> bytes | None:
    try:
        return look()
    except (OSError, storage.UnsafePath):
        return None


def _add_revisions(archive: ArchiveWriter, report: BackupReport, tell: Tell) -> None:
    last = 0
    while batch := list(DocumentHistory.objects.filter(pk__gt=last).order_by("pk")[:500]):
        for row in batch:
            data = _read_or_none(storage.history_path(row.stored_name).read_bytes)
            name = HISTORY + row.stored_name
            if data is None or name in archive.members:
                continue  # pruned a moment ago
            archive.add_bytes(name, data)
            report.revisions += 1
        last = batch[-1].pk
        tell(f"{report.revisions} earlier revisions")
