"""``create_api_key NAME``: makes a key for a program and shows it once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone

from documents.access import SCOPES
from documents.models import ApiKey

MAX_NAME = 50
MAX_DAYS = 36_500


class Command(BaseCommand):
    help = "Makes an API key. The key is the last line of the output and is never shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the key is for, up to 50 characters")
        parser.add_argument(
            "--scope",
            action="append",
            choices=SCOPES,
            help="may be repeated; default: read (write includes read)",
        )
        parser.add_argument("--days", type=int, help="days until it expires; default: never")
        parser.add_argument("--user", help="the person that the key acts and remembers as; default: itself")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"].strip()
        if not 0 < len(name) <= MAX_NAME:
            raise CommandError(f"The name must have 1 to {MAX_NAME} characters.")
        scopes = list(dict.fromkeys(options["scope"] or ["read"]))
        try:
            key, text = ApiKey.objects.create_key(
                name=name, scopes=" ".join(scopes), expiry_date=_expiry(options["days"]), user=_person(options["user"])
            )
        except DatabaseError as fault:
            raise CommandError(f"The database does not answer ({fault}); try manage.py migrate, or doctor.") from fault
        until = f"until {key.expiry_date:%Y-%m-%d}" if key.expiry_date else "without an end"
        self.stdout.write(f"API key “{name}” ({', '.join(scopes)}; {until}). Keep it now: it is not shown again.")
        self.stdout.write("Send it as: Authorization: Bearer <key>")
        self.stdout.write(text)


def _expiry(days: int | None) -> Any:
    if days is None:
        return None
    if not 0 < days <= MAX_DAYS:
        raise CommandError(f"--days must be from 1 to {MAX_DAYS}.")
    return timezone.now() + timedelta(days=days)


def _person(name: str | None) -> Any:
    if name is None:
        return None
    person = get_user_model()._default_manager.filter(username=name).first()
    if person is None:
        raise CommandError(f"There is no user {name!r}: make one in the admin, or leave --user out.")
    return person
