"""``manage.py scan``: compare the knowledge base folder with the rows, as at start-up."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from documents.local_server import running_server
from documents.models import ApiDocument
from documents.scan import scan


class Command(BaseCommand):
    """Writes rows only; vectors are made by the worker of the running server, or at its next start."""

    help = "Compare the knowledge base folder with the documents: new, changed, moved and missing files."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--prune", action="store_true", help="delete documents whose file is missing")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument("--yes", action="store_true", help="with --prune: also when most files vanished at once")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["yes"] and not options["prune"]:
            raise CommandError("--yes confirms a removal: use it together with --prune.")
        try:
            report = scan(prune=options["prune"], dry_run=options["dry_run"], confirmed=options["yes"])
            waiting = ApiDocument.objects.filter(status=ApiDocument.Status.PENDING, missing_since=None).count()
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); try manage.py migrate, or doctor.") from fault
        for path, reason in report.skipped:
            self.stdout.write(f"skipped {path}: {reason}")
        self.stdout.write(str(report))
        if waiting and not report.dry_run and settings.EMBEDDED_WORKER and running_server() is None:
            self.stdout.write(f"{waiting} documents wait for their vectors: start the server, or run reindex.")
