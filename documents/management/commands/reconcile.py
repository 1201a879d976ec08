"""``manage.py reconcile``: file, row, keyword index and vectors compared, and put right."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from documents.data_dir import DataDirInUse, hold_data_dir
from documents.local_server import LocalServerError, call_running_server
from documents.reconcile_door import ROUTE, reconcile_here
from documents.reconcile_lease import release_dead_turn
from documents.worker import run_due_jobs


class Command(BaseCommand):
    """The running server does it where there is one; without, this process does, and makes the vectors as well."""

    help = "Compare file, row, keyword index and vectors, and put them right; exit status 1 if something stays wrong."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what is out of step; changes nothing")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = _reconcile(dry_run=options["dry_run"])
        except (LocalServerError, DataDirInUse) as fault:
            raise CommandError(str(fault)) from fault
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); try manage.py migrate, or doctor.") from fault
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was mended until here stays so; run it again.") from None
        if report.get("busy"):
            raise CommandError("Another process is reconciling; try again in a minute.")
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False))
        else:
            self._tell(report)
        if report["wrong"]:
            sys.exit(1)

    def _tell(self, report: dict[str, Any]) -> None:
        for finding in report["findings"]:
            mark = "mended" if finding["mended"] else "WRONG " if finding["wrong"] else "note  "
            self.stdout.write(f"{mark}  {finding['subject'] or finding['kind']}: {finding['what']}")
            if finding["remedy"] and not report["dry_run"]:
                self.stdout.write(f"        -> {finding['remedy']}")
        if not report["found"]:
            self.stdout.write(f"File, row, keyword index and vectors are in step ({report['seconds']:.1f} s).")
            return
        counts = f"{report['found']} found, {report['mended']} mended, {report['wrong']} wrong"
        looked = "; nothing was changed" if report["dry_run"] else ""
        self.stdout.write(f"{counts}, in {report['seconds']:.1f} s{looked}.")


def _reconcile(*, dry_run: bool) -> dict[str, Any]:
    answer = call_running_server(ROUTE, {"dry_run": dry_run})
    if answer is not None:
        return answer
    with ExitStack() as held:
        if settings.EMBEDDED:
            held.enter_context(hold_data_dir(settings.DATA_DIR))
            release_dead_turn()
        report = reconcile_here(dry_run=dry_run)
        if settings.EMBEDDED_WORKER and not dry_run and not report.get("busy"):
            run_due_jobs()  # nobody else makes the vectors that it queued
    return report
