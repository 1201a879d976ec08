"""``doctor``: what is set up, what works, and what to do about the rest."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from documents.data_dir import DataDirInUse, hold_data_dir
from documents.local_server import LocalServerError, call_running_server
from observability.doctor import Finding, diagnose, settings_and_versions

MARKS = {"ok": "ok  ", "degraded": "warn", "down": "DOWN"}


class Command(BaseCommand):
    help = "Checks settings, versions, services, embedder and model; exit status 1 when something is down."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        findings, where = _findings()
        self.stdout.write(where)
        topic = ""
        for finding in findings:
            if finding.topic != topic:
                topic = finding.topic
                self.stdout.write(f"\n{topic}")
            self.stdout.write(f"  {MARKS[finding.status]}  {finding.name}: {finding.value}")
            if finding.remedy:
                self.stdout.write(f"        -> {finding.remedy}")
        down = sum(finding.status == "down" for finding in findings)
        warned = sum(finding.status == "degraded" for finding in findings)
        self.stdout.write(f"\n{down} down, {warned} degraded, {len(findings) - down - warned} ok")
        if down:
            sys.exit(1)


def _findings() -> tuple[list[Finding], str]:
    """Of the running server, which holds the embedded store; else of this process."""
    try:
        answer = call_running_server("/internal/doctor/", {})
    except LocalServerError as fault:
        remedy = "Look at the server's log, or restart it."
        return [Finding("services", "server", "down", str(fault), remedy), *_alone()], "The running server has a fault:"
    if answer is not None:
        return [Finding(**finding) for finding in answer["findings"]], "The running server says:"
    return _alone(), "No server runs on this DATA_DIR; looked at from this process:"


def _alone() -> list[Finding]:
    """This process looks itself; with embedded parts only while nobody else holds the data folder."""
    if not settings.EMBEDDED:
        return diagnose(serving=False)
    try:
        with hold_data_dir(settings.DATA_DIR):
            return diagnose(serving=False)
    except DataDirInUse as in_use:
        remedy = "Wait until it has started, or stop it."
        return [*settings_and_versions(), Finding("services", "DATA_DIR", "down", str(in_use), remedy)]
