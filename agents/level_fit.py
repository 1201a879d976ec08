"""The level fit in force: what ``calibrate --apply`` saved for this embedder and version, else what the embedder ships.

Everybody asks :func:`present_fit`: lookups, dashboards, ``doctor``. The operator's own thresholds stand above any fit
(``retrieval.relevance.rule_for``); :func:`fit_source` says which of the three decides.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from agents.models import LevelCalibration
from clients.interfaces import Embedder, LevelFit
from documents.counters import bump, read

log = logging.getLogger("agents.level_fit")

Source = Literal["environment", "calibration", "embedder"]
Threshold = Literal["highly_relevant", "agreement", "reference", "covered_reference"]

COUNTER = "level_calibration"
"""The change counter: one cheap read a lookup, so that every process takes over a calibration at its next one."""


@dataclass(frozen=True)
class SavedFit:
    """A calibration that was applied on this site."""

    fit: LevelFit
    saved_at: datetime
    by: str


def present_fit(embedder: Embedder) -> LevelFit:
    """The fit in force for this embedder; its ``chunks`` are those of the store that it was fitted on, 0: unknown."""
    saved = saved_fit(embedder)
    return saved.fit if saved is not None else embedder.fit


def fit_source(embedder: Embedder, threshold: Threshold = "reference") -> Source:
    """Where this threshold comes from. One that the environment switches off comes from the environment."""
    high = threshold in ("highly_relevant", "agreement")
    named = settings.RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD if high else settings.RETRIEVAL_REFERENCE_THRESHOLD
    if named is not None:
        return "environment"
    return "embedder" if saved_fit(embedder) is None else "calibration"


# ---- What was saved --------------------------------------------------------------------------------------------------
_kept: dict[tuple[str, str], tuple[int, SavedFit | None]] = {}
"""By name and version: the counter at which the table was read, and what it held."""


def saved_fit(embedder: Embedder) -> SavedFit | None:
    """The calibration of exactly this embedder and version."""
    key = (embedder.name, embedder.version)
    kept = _kept.get(key)
    try:
        counter = read(COUNTER)  # before the row: what is saved meanwhile is read again next time
        if kept is None or kept[0] != counter:
            kept = _kept[key] = (counter, _read_row(*key))
    except DatabaseError as fault:
        # Degradation point: without its tables the site answers by what it knew last.
        log.warning("the saved calibration cannot be read: %s", fault)
    return kept[1] if kept is not None else None


def save_calibration(*, embedder: str, version: str, fit: LevelFit, by: str) -> None:
    """Put ``fit`` in force for this embedder and version, in place of an earlier one."""
    with transaction.atomic():
        _rows(embedder, version).delete()
        LevelCalibration.objects.create(
            embedder=embedder,
            embedder_version=version,
            fit=asdict(fit),
            chunks=fit.chunks,
            created_at=timezone.now(),
            by=by,
        )
        bump(COUNTER)
    _kept.clear()


def remove_calibration(*, embedder: str, version: str) -> bool:
    """Back to the shipped fit; False where nothing was saved."""
    with transaction.atomic():
        removed, _each = _rows(embedder, version).delete()
        if removed:
            bump(COUNTER)
    _kept.clear()
    return bool(removed)


def _rows(embedder: str, version: str) -> Any:
    return LevelCalibration.objects.filter(embedder=embedder, embedder_version=version)


def _read_row(embedder: str, version: str) -> SavedFit | None:
    row = _rows(embedder, version).first()
    if row is None:
        return None
    known = {field.name for field in fields(LevelFit)}
    try:
        fit = LevelFit(**{name: value for name, value in row.fit.items() if name in known})
    except (TypeError, AttributeError):
        log.error(
            "the saved calibration of %s %s is unusable; run: python manage.py calibrate --reset", embedder, version
        )
        return None
    return SavedFit(fit=replace(fit, chunks=row.chunks), saved_at=row.created_at, by=row.by)
