"""``manage.py prune --days N``: let go of earlier revisions, and of recorded calls where that is asked for."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from documents import history
from documents.models import DocumentHistory, ToolInvocation

MAX_DAYS = 36_500
_AT_A_TIME = 500


class Command(BaseCommand):
    """Rows and files only, so it runs beside the server."""

    help = "Remove earlier revisions of documents older than N days from the history (they cannot be restored then)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, help="default: TRASH_DAYS")
        parser.add_argument("--calls", action="store_true", help="recorded tool calls of that age too (dashboards)")
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")

    def handle(self, *args: Any, **options: Any) -> None:
        days = settings.TRASH_DAYS if options["days"] is None else options["days"]
        if not 0 <= days <= MAX_DAYS:
            raise CommandError(f"--days must be from 0 to {MAX_DAYS}.")
        before = timezone.now() - timedelta(days=days)
        try:
            old = list(DocumentHistory.objects.filter(created_at__lt=before).order_by("id"))
            calls = ToolInvocation.objects.filter(created_at__lt=before).count() if options["calls"] else 0
            if not options["dry_run"]:
                history.prune(days)
                if options["calls"]:
                    _remove_calls(before)
        except OSError as fault:
            raise CommandError(f"Not everything could be removed: {fault}") from fault
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); try manage.py migrate, or doctor.") from fault
        for row in old:
            self.stdout.write(f"{row.file_path} revision {row.revision} ({row.reason}, {row.size} bytes)")
        would = "would go" if options["dry_run"] else "went"
        size = sum(row.size for row in old)
        self.stdout.write(f"{len(old)} earlier revisions older than {days} days ({size} bytes) {would}.")
        if options["calls"]:
            self.stdout.write(f"{calls} recorded calls older than {days} days {would}.")


def _remove_calls(before: Any) -> None:
    """Some at a time: one statement for all would hold up who records a call."""
    while ids := list(ToolInvocation.objects.filter(created_at__lt=before).values_list("pk", flat=True)[:_AT_A_TIME]):
        ToolInvocation.objects.filter(pk__in=ids).delete()
