"""``restore``: a backup into an empty place. Checked whole before anything is written; the rows are committed last.

Exact lookups answer as soon as the site starts; vectors are made again by the worker. What an older version of this
program backed up is read by today's tables; columns that came later have their defaults.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from django.core.management import call_command
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models import F
from django.utils import timezone

from documents import storage
from documents.backup_archive import DOCUMENTS, HISTORY, ROWS, BackupError, members_of, readable, verified_manifest
from documents.backup_rows import insert_rows, tables
from documents.counters import DOCUMENTS as DOCUMENT_COUNTER
from documents.counters import put
from documents.errors import DocumentError
from documents.models import ApiDocument, DocumentEnrichment, DocumentHistory, DomainAggregation, LlmJob
from documents.names import PREFIX, check_scanned_path
from documents.source import reset_source

Tell = Callable[[str], None]
_STATES = ApiDocument.Status


@dataclass
class RestoreReport:
    """What came back; ``notes`` are lines for the operator."""

    rows: int = 0
    documents: int = 0
    revisions: int = 0
    waiting: int = 0
    notes: list[str] = field(default_factory=list)


def restore_backup(path: Path, *, tell: Tell = lambda line: None) -> RestoreReport:
    """Put a backup back into an empty database and an empty knowledge base folder.

    The caller holds ``DATA_DIR``: nobody else may serve from this place. Raises ``BackupError`` (the file, its version,
    or a place that is not empty), ``DatabaseError``, ``OSError``; then no row is here, and no file that was not.
    """
    _refuse_full_folder()
    manifest = verified_manifest(path, tell)
    _refuse_newer(path, manifest)
    _refuse_full_tables()
    call_command("migrate", interactive=False, verbosity=0)
    report = RestoreReport()
    files = _Files()
    try:
        with transaction.atomic(durable=True), connection.constraint_checks_disabled():
            _load(path, files, report, tell)
            _settle(files, manifest)
            connection.check_constraints()
    except BaseException:
        files.remove()
        raise
    _keep_ids_from_being_given_again(manifest["last_ids"])
    reset_source()
    report.waiting = ApiDocument.objects.filter(status=_STATES.PENDING, missing_since=None).count()
    report.notes += [f"{path}: its bytes were not in the backup" for path in manifest.get("absent", [])]
    return report


# ---- An empty place, a backup that fits ------------------------------------------------------------------------------
def _refuse_full_folder() -> None:
    for folder, _folders, names in os.walk(storage.base()):
        if names:
            raise BackupError(
                f"{Path(folder) / names[0]} is there already: restore into an empty knowledge base folder "
                "(KNOWLEDGE_BASE_PATH), so that nothing is mixed or overwritten."
            )


def _refuse_full_tables() -> None:
    """Before anything is migrated: whatever site this database belongs to, it stays as it is."""
    there = set(connection.introspection.table_names())
    for model in tables():
        if model._meta.db_table in there and _has_rows(model._meta.db_table):
            raise BackupError(
                f"The database has {model._meta.verbose_name_plural} already: restore into an empty one "
                "(DATA_DIR or DATABASE_URL), before the first start of the server."
            )


def _has_rows(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(table)} LIMIT 1")  # noqa: S608 (our own table)
        return cursor.fetchone() is not None


def _refuse_newer(path: Path, manifest: dict[str, Any]) -> None:
    known = set(MigrationLoader(None).disk_migrations)
    unknown = [
        f"{app}.{name}" for app, names in manifest["migrations"].items() for name in names if (app, name) not in known
    ]
    if unknown:
        raise BackupError(
            f"{path} was made by a newer version of kbsite ({unknown[0]} is not known here): update this one first."
        )


# ---- Rows and files --------------------------------------------------------------------------------------------------
@dataclass
class _Files:
    """What was written so far, to be taken back if the rows cannot be committed."""

    written: list[Path] = field(default_factory=list)
    documents: set[str] = field(default_factory=set)

    def remove(self) -> None:
        for path in self.written:
            path.unlink(missing_ok=True)


def _load(path: Path, files: _Files, report: RestoreReport, tell: Tell) -> None:
    models_by_name = {f"{ROWS}{model._meta.label_lower}.jsonl": model for model in tables()}
    expected: dict[str, set[str]] = {}
    with readable(path):
        for name, stream in members_of(path):
            if name.startswith(ROWS):
                _load_rows(name, models_by_name.get(name), stream, report)
                continue
            expected = expected or _names_in_rows()
            if name.startswith(DOCUMENTS) and name in expected[DOCUMENTS]:
                _put_document(name, stream.read(), files)
                report.documents += 1
            elif name.startswith(HISTORY) and name.removeprefix(HISTORY) in expected[HISTORY]:
                _put_revision(name.removeprefix(HISTORY), stream.read(), files)
                report.revisions += 1
            if (report.documents + report.revisions) % 500 == 499:
                tell(f"{report.documents} documents, {report.revisions} earlier revisions")


def _load_rows(name: str, model: type[models.Model] | None, stream: IO[bytes], report: RestoreReport) -> None:
    if model is None:
        report.notes.append(f"{name}: this version has no such table; its rows stay in the backup")
        return
    try:
        count, unknown = insert_rows(model, stream)
    except (ValueError, KeyError, TypeError, DatabaseError) as fault:
        raise BackupError(f"{name} cannot be read into this version's tables: {fault}") from fault
    report.rows += count
    report.notes += [f"{name}: this version has no column {column}" for column in sorted(unknown)]


def _names_in_rows() -> dict[str, set[str]]:
    return {
        DOCUMENTS: set(ApiDocument.objects.values_list("file_path", flat=True)),
        HISTORY: set(DocumentHistory.objects.values_list("stored_name", flat=True)),
    }


def _put_document(file_path: str, data: bytes, files: _Files) -> None:
    try:
        if check_scanned_path(file_path.removeprefix(PREFIX)).file_path != file_path:
            raise BackupError(f"{file_path!r} is no path of a document: the backup is not restored.")
        target = storage.locate(file_path)
        files.written.append(target)
        storage.put_in_place(storage.write_temporary(data), file_path)
    except DocumentError as refusal:
        raise BackupError(f"{file_path!r} is no path of a document: {refusal.detail}") from refusal
    files.documents.add(file_path)


def _put_revision(stored_name: str, data: bytes, files: _Files) -> None:
    temporary = storage.write_temporary(data)
    storage.inner_folder(storage.HISTORY)
    target = storage.history_path(stored_name)
    files.written.append(target)
    temporary.replace(target)
    storage.sync_folder(target.parent)


# ---- Afterwards ------------------------------------------------------------------------------------------------------
def _settle(files: _Files, manifest: dict[str, Any]) -> None:
    """No vector and no lease is left of the former place; every present file is published."""
    ApiDocument.objects.update(
        indexed_revision=0, indexed_hash="", chunk_count=0, lease_owner="", lease_expires_at=None
    )
    ApiDocument.objects.exclude(status=_STATES.DELETING).update(
        status=_STATES.PENDING, error_code="", attempts=0, next_attempt_at=None
    )
    ApiDocument.objects.filter(missing_since=None).update(status_reason="")
    for batch in _some_at_a_time(sorted(files.documents)):
        ApiDocument.objects.filter(file_path__in=batch).update(published_revision=F("revision"))
    for jobs in (DocumentEnrichment.objects, DomainAggregation.objects):
        jobs.filter(state=LlmJob.State.RUNNING).update(
            state=LlmJob.State.WAITING, lease_owner="", lease_expires_at=None
        )
    # Above any number that the former site may have given since the backup: it counts from the clock of its first day.
    put(DOCUMENT_COUNTER, max(int(manifest["counter"]) + 1, int(timezone.now().timestamp())))


def _some_at_a_time(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), 500):
        yield names[start : start + 500]


def _keep_ids_from_being_given_again(last: dict[str, Any]) -> None:
    """Else a new document would get the id, and with it the history, of one that was deleted before the backup."""
    ours = {model._meta.db_table for model in tables()}
    with connection.cursor() as cursor:
        for table, number in ((name, int(value)) for name, value in last.items() if name in ours):
            if connection.vendor == "mysql":
                cursor.execute(f"ALTER TABLE {connection.ops.quote_name(table)} AUTO_INCREMENT = {number + 1}")
                continue
            cursor.execute("UPDATE sqlite_sequence SET seq = MAX(seq, %s) WHERE name = %s", [number, table])
            if not cursor.rowcount:
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, number])
