"""What `make run` does before it serves: tables, the sample knowledge base, a first administrator."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from documents.data_dir import DataDirInUse, hold_data_dir
from documents.sample import copy_sample


class Command(BaseCommand):
    help = "Prepares the data folder: tables, the sample knowledge base on a first start, a first administrator."

    def handle(self, *args: Any, **options: Any) -> None:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        try:
            with hold_data_dir(settings.DATA_DIR):
                self._prepare()
        except DataDirInUse as in_use:
            raise CommandError(str(in_use)) from in_use

    def _prepare(self) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        copied = copy_sample()
        if copied:
            self.stdout.write(
                f"Loaded the sample knowledge base: {copied} documents into {settings.KNOWLEDGE_BASE_PATH}"
            )
        self._first_administrator()
        if settings.EMBEDDED:  # `make run` serves next; where the parts are services this is a step of its own
            address = f"http://{settings.HOST}:{settings.PORT}/"
            self.stdout.write(f"kbsite serves on {address} (Ctrl+C stops it)")

    def _first_administrator(self) -> None:
        people = get_user_model()._default_manager
        if people.filter(is_superuser=True).exists():
            return
        password = settings.ADMIN_PASSWORD or secrets.token_urlsafe(12)
        people.create_superuser(settings.ADMIN_USER, password=password)
        shown = "the one in KBSITE_ADMIN_PASSWORD" if settings.ADMIN_PASSWORD else password
        self.stdout.write(f"Sign in as {settings.ADMIN_USER} with the password: {shown}")
        if not settings.ADMIN_PASSWORD:
            self.stdout.write(
                "(Shown this once. Another one: .venv/bin/python manage.py changepassword " + settings.ADMIN_USER + ")"
            )
