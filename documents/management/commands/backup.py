"""``manage.py backup FILE``: rows, documents and earlier revisions in one file, while the site goes on."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from documents.backup import write_backup
from documents.backup_archive import BackupError


class Command(BaseCommand):
    """Needs no vector store, so it runs beside the server by itself: the database lets a reader see one moment."""

    help = (
        "Back up what cannot be made again into one archive: rows (users, hashes of API keys, chats, recorded calls), "
        "documents, earlier revisions. Not in it: vectors, browser sessions, the memory of lookups, SECRET_KEY, .env."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="x.tar, or x.tar.gz for a smaller one")
        parser.add_argument("--force", action="store_true", help="replace FILE if it is there")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"].absolute()
        try:
            report = write_backup(path, force=options["force"], tell=self.stderr.write)
        except BackupError as refusal:
            raise CommandError(str(refusal)) from refusal
        except OSError as fault:
            raise CommandError(f"{path} could not be written: {fault.strerror or fault}") from fault
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); try manage.py migrate, or doctor.") from fault
        for name in report.edited:
            self.stderr.write(f"{name}: edited on disk since the last scan; the file as it is now was taken")
        for name in report.absent:
            self.stderr.write(f"{name}: its file is missing, so its bytes are not in the backup")
        self.stdout.write(
            f"{path}: {report.documents} documents, {report.revisions} earlier revisions, {report.rows} rows."
        )
        self.stdout.write(
            "It holds password and key hashes: keep it as you keep the database. SECRET_KEY is not in it."
        )
