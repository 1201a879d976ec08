"""``manage.py calibrate``: thresholds for the embedder and the store at hand, proposed and, when told, applied."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from agents.level_fit import remove_calibration, save_calibration
from agents.lookup_api import LOCAL_PRINCIPAL
from clients.registry import get_embedder
from documents.data_dir import DataDirInUse, hold_data_dir
from documents.local_server import LocalServerError, call_running_server, running_server
from observability.calibration.asked import CalibrationError
from observability.calibration.asking import answer
from observability.calibration.questions import read_labels
from observability.calibration.report import report
from observability.calibration.run import Answer, calibrate

ROUTE = "/internal/calibrate/"


class Command(BaseCommand):
    """Asks through the running server where one holds the store; saving is a row that every process sees at once."""

    help = "Fit the thresholds of the relevance levels to the documents of this site; nothing changes without --apply."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--apply", action="store_true", help="put the proposal in force")
        what.add_argument("--reset", action="store_true", help="remove what was applied: the shipped thresholds hold")
        parser.add_argument(
            "--labels",
            metavar="FILE",
            default="",
            help='questions and their document: JSON lines {"query", "document"}',
        )
        parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")

    def handle(self, *args: Any, **options: Any) -> None:
        # Whatever is down is one line: the embedder, the store, the server, the database.
        try:
            if options["reset"]:
                self._reset(as_json=options["json"])
            else:
                self._calibrate(options)
        except (CalibrationError, LocalServerError, DataDirInUse) as fault:
            raise CommandError(str(fault)) from fault
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}). Run: python manage.py migrate") from fault
        except KeyboardInterrupt:
            raise CommandError("Stopped. Nothing was changed.") from None

    def _calibrate(self, options: dict[str, Any]) -> None:
        labels = read_labels(Path(options["labels"])) if options["labels"] else []
        with _whoever_holds_the_store() as ask:
            result = calibrate(ask, labels, progress=sys.stderr)
        if options["apply"]:
            site = result.site
            save_calibration(embedder=site.embedder, version=site.version, fit=result.proposed, by=LOCAL_PRINCIPAL)
        if options["json"]:
            self.stdout.write(json.dumps(result.as_dict(applied=options["apply"]), ensure_ascii=False))
            return
        became = (
            "Applied. To undo it: python manage.py calibrate --reset"
            if options["apply"]
            else "Nothing was changed. To apply it: python manage.py calibrate --apply"
        )
        self.stdout.write(f"{report(result)}\n\n{became}")

    def _reset(self, *, as_json: bool) -> None:
        embedder = get_embedder()
        removed = remove_calibration(embedder=embedder.name, version=embedder.version)
        if as_json:
            self.stdout.write(json.dumps({"removed": removed}))
        elif removed:
            self.stdout.write("Removed. The shipped thresholds are in force again.")
        else:
            self.stdout.write("Nothing was applied: the shipped thresholds are in force.")


@contextmanager
def _whoever_holds_the_store() -> Iterator[Answer]:
    """The running server, else this process, which then holds the data folder while it asks."""
    with ExitStack() as held:
        if running_server() is not None and call_running_server(ROUTE, {"queries": []}) is not None:
            yield _by_the_server
            return
        if settings.EMBEDDED:
            held.enter_context(hold_data_dir(settings.DATA_DIR))
        yield answer


def _by_the_server(payload: dict[str, Any]) -> dict[str, Any]:
    answered = call_running_server(ROUTE, payload)
    if answered is None:
        raise CalibrationError("The server stopped meanwhile. Run the command again.")
    return answered
