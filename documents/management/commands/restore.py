"""``manage.py restore FILE``: a backup into an empty place."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from documents.backup_archive import BackupError
from documents.data_dir import DataDirInUse, hold_data_dir
from documents.local_server import running_server
from documents.restore import RestoreReport, restore_backup


class Command(BaseCommand):
    """Nobody else may serve from the place meanwhile: the data folder is held, as the server holds it."""

    help = "Restore a backup into an empty database and an empty knowledge base folder; the server must not run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="what manage.py backup wrote")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"].absolute()
        if running_server() is not None:
            raise CommandError("The server is running: stop it first, then restore.")
        try:
            with ExitStack() as held:
                if settings.EMBEDDED:
                    held.enter_context(hold_data_dir(settings.DATA_DIR))
                report = restore_backup(path, tell=self.stderr.write)
        except DataDirInUse as in_use:
            raise CommandError(f"The server is running: stop it first, then restore. ({in_use})") from in_use
        except BackupError as refusal:
            raise CommandError(str(refusal)) from refusal
        except OSError as fault:
            raise CommandError(f"Nothing was restored: {fault}") from fault
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); doctor checks the parts.") from fault
        self._tell(report)

    def _tell(self, report: RestoreReport) -> None:
        for note in report.notes:
            self.stderr.write(note)
        self.stdout.write(
            f"{report.documents} documents, {report.revisions} earlier revisions and {report.rows} rows are back."
        )
        self.stdout.write(
            f"Exact lookups answer at the next start; {report.waiting} documents then get their vectors. "
            "People sign in again."
        )
