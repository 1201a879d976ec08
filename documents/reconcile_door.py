"""The door of the running server for ``manage.py reconcile``: it holds the embedded store and the keyword index."""

from __future__ import annotations

from typing import Any

from documents.local_server import internal
from documents.reconcile import reconcile
from documents.reconcile_report import COMMAND

ROUTE = "/internal/reconcile/"
PATIENCE_SECONDS = 30.0
"""A pass of each minute takes a second or two; a person waits for it."""


@internal
def reconcile_for_command(payload: dict[str, Any]) -> dict[str, Any]:
    """``POST /internal/reconcile/``: ``dry_run``?; the report, or ``{"busy": true}`` where another process is at it."""
    return reconcile_here(dry_run=payload.get("dry_run") is True)


def reconcile_here(*, dry_run: bool) -> dict[str, Any]:
    """A full pass of this process, as the command prints it."""
    report = reconcile(by=COMMAND, dry_run=dry_run, patience=PATIENCE_SECONDS)
    return {"busy": True} if report is None else report.as_dict()
