"""``manage.py reindex``: read metadata again and make the vectors anew."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.db.models import QuerySet

from documents.data_dir import DataDirInUse, hold_data_dir
from documents.errors import DocumentError
from documents.jobs import Claim
from documents.models import ApiDocument
from documents.names import PREFIX
from documents.rebuild import request_rebuild_of_all
from documents.services import request_reindex
from documents.twins import document_at
from documents.worker import progress_of, run_due_jobs


class Command(BaseCommand):
    """Writes rows; the worker of the running server does the rest. Without one, this command does it itself."""

    help = "Build L0 and L1 of documents anew: those named, the failed ones, or all (also after a change of EMBEDDER)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="*", metavar="PATH", help="knowledge_base/api/x.md, or a folder of it")
        parser.add_argument("--failed", action="store_true", help="documents whose indexing failed")
        parser.add_argument("--all", action="store_true", help="every document, also of another embedder before")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._queue(options)
            self._do_it_here()
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); try manage.py migrate, or doctor.") from fault

    def _queue(self, options: dict[str, Any]) -> None:
        documents = self._chosen(options)
        queued = 0
        for document in documents.order_by("pk").iterator():
            try:
                request_reindex(document_id=document.pk)
                queued += 1
            except DocumentError as refusal:
                self.stderr.write(f"{document.file_path}: {refusal.detail}")
        if options["all"]:
            request_rebuild_of_all()
        self.stdout.write(f"{queued} documents are queued.")

    def _chosen(self, options: dict[str, Any]) -> QuerySet[ApiDocument]:
        documents = ApiDocument.objects.exclude(status=ApiDocument.Status.DELETING).filter(missing_since=None)
        if options["all"]:
            return documents
        if options["failed"]:
            documents = documents.filter(status=ApiDocument.Status.FAILED)
        if options["paths"]:
            wanted = [pk for path in options["paths"] for pk in self._matching(documents, path)]
            return documents.filter(pk__in=wanted)
        if not options["failed"]:
            # Nothing named: what waits already is done, nothing is queued anew.
            return documents.none()
        return documents

    def _matching(self, documents: QuerySet[ApiDocument], path: str) -> list[int]:
        full = path if path.startswith(PREFIX) else PREFIX + path.lstrip("/")
        document = document_at(documents, full)
        found = [] if document is None else [document.pk]
        if not found:
            below = documents.filter(file_path__startswith=f"{full.rstrip('/')}/")
            found = list(below.values_list("pk", flat=True))
        if not found:
            raise CommandError(f"There is no document at {full}. The paths are listed in the admin and by the API.")
        return found

    def _do_it_here(self) -> None:
        if settings.CELERY_BROKER_URL:
            self.stdout.write("The Celery workers make the vectors.")
            return
        with ExitStack() as held:
            if settings.EMBEDDED:
                try:
                    held.enter_context(hold_data_dir(settings.DATA_DIR))
                except DataDirInUse:
                    self.stdout.write("The running server makes the vectors.")
                    return
            tried = run_due_jobs(on_document=self._tell)
            state = progress_of()
        self.stdout.write(f"{tried} documents were worked on: {state.indexed} are indexed, {state.failed} failed.")
        if state.failed:
            raise CommandError("Some documents failed; each says why in the admin. manage.py doctor checks the parts.")

    def _tell(self, job: Claim) -> None:
        waiting = ApiDocument.objects.filter(status=ApiDocument.Status.PENDING, missing_since=None).count()
        self.stdout.write(f"{job.file_path} ({waiting} more wait)")
