"""The level fit in force: the environment, then what was saved for this embedder and version, then the shipped one."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from agents import level_fit
from agents.level_fit import fit_source, present_fit, remove_calibration, save_calibration, saved_fit
from agents.models import LevelCalibration
from agents.tools import LOOKUP_TOOL, ToolContext, call_tool, retrieval_settings
from clients.interfaces import LevelFit
from clients.registry import get_embedder
from documents.counters import bump
from retrieval.relevance import LevelRule, rule_for
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db

SHIPPED = LevelFit(0.7, 0.6, covered_reference=0.5, min_coverage=0.2, agreement=0.55)
SAVED = LevelFit(0.4, 0.3, covered_reference=0.2, min_coverage=0.1, agreement=0.25, chunks=900, date="2026-12-01")
HIGH, REFERENCE = "RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD", "RETRIEVAL_REFERENCE_THRESHOLD"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_fit, "_kept", {})


def embedder(version: str = "1", name: str = "e5") -> Any:
    return SimpleNamespace(name=name, version=version, fit=SHIPPED)


def save(fit: LevelFit = SAVED, *, version: str = "1", name: str = "e5") -> None:
    save_calibration(embedder=name, version=version, fit=fit, by="cli:local")


def rule(of: Any) -> LevelRule:
    return rule_for(retrieval_settings(of), of.fit)


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("reference", [None, 0.0, 0.9])
@pytest.mark.parametrize("high", [None, 0.0, 0.95])
def test_the_environment_comes_first_then_the_saved_fit_then_the_shipped_one(
    settings: Any, high: float | None, reference: float | None, is_saved: bool
) -> None:
    setattr(settings, HIGH, high)
    setattr(settings, REFERENCE, reference)
    if is_saved:
        save()
    fit, source = (SAVED, "calibration") if is_saved else (SHIPPED, "embedder")
    found = rule(embedder())
    assert found.highly_relevant == (fit.highly_relevant if high is None else high)
    assert found.agreement == (fit.agreement if high is None else high)
    assert found.reference == (fit.reference if reference is None else reference)
    assert found.covered_reference == (fit.covered_reference if reference is None else None)
    for_high = source if high is None else "environment"
    for_reference = source if reference is None else "environment"
    assert fit_source(embedder(), "highly_relevant") == fit_source(embedder(), "agreement") == for_high
    assert fit_source(embedder()) == fit_source(embedder(), "reference") == for_reference
    assert fit_source(embedder(), "covered_reference") == for_reference


def test_what_was_saved_is_kept_whole() -> None:
    save()
    saved = saved_fit(embedder())
    assert saved is not None
    assert (saved.fit, saved.by) == (SAVED, "cli:local")
    assert present_fit(embedder()) == SAVED


def test_a_row_of_another_version_or_embedder_is_not_used() -> None:
    save(version="1")
    assert present_fit(embedder("2")) == SHIPPED
    assert present_fit(embedder(name="hashing")) == SHIPPED
    assert present_fit(embedder("1")) == SAVED


def test_applying_again_replaces_and_removing_brings_the_shipped_fit_back() -> None:
    save()
    save(LevelFit(0.9, 0.8))
    assert present_fit(embedder()) == LevelFit(0.9, 0.8)
    assert LevelCalibration.objects.count() == 1
    save(version="2")
    assert remove_calibration(embedder="e5", version="1")
    assert not remove_calibration(embedder="e5", version="1")
    assert present_fit(embedder()) == SHIPPED
    assert present_fit(embedder("2")) == SAVED


def test_what_another_process_saved_is_in_force_at_the_next_lookup() -> None:
    assert present_fit(embedder()) == SHIPPED
    LevelCalibration.objects.create(
        embedder="e5", embedder_version="1", fit=asdict(SAVED), chunks=900, created_at=timezone.now()
    )
    bump(level_fit.COUNTER)
    assert present_fit(embedder()) == SAVED


def test_it_costs_one_small_query_once_it_is_known(django_assert_num_queries: Any) -> None:
    save()
    present_fit(embedder())
    with django_assert_num_queries(1):
        assert present_fit(embedder()) == SAVED


def test_without_an_embedder_the_settings_read_no_table(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert retrieval_settings().fit is None


def test_while_the_table_cannot_be_read_the_last_known_fit_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_name: str) -> int:
        raise OperationalError("no such table")

    save()
    present_fit(embedder())
    monkeypatch.setattr(level_fit, "read", gone)
    assert present_fit(embedder()) == SAVED
    assert present_fit(embedder("never seen")) == SHIPPED


@pytest.mark.parametrize("stored", [{}, {"reference": 0.3}, [], "text", 7])
def test_a_row_that_is_no_fit_leaves_the_shipped_one(stored: Any) -> None:
    LevelCalibration.objects.create(
        embedder="e5", embedder_version="1", fit=stored, chunks=900, created_at=timezone.now()
    )
    bump(level_fit.COUNTER)
    assert present_fit(embedder()) == SHIPPED


def test_a_field_that_is_not_known_yet_is_passed_over() -> None:
    LevelCalibration.objects.create(
        embedder="e5",
        embedder_version="1",
        fit=asdict(SAVED) | {"of_tomorrow": 1},
        chunks=901,
        created_at=timezone.now(),
    )
    bump(level_fit.COUNTER)
    assert present_fit(embedder()).reference == SAVED.reference
    assert present_fit(embedder()).chunks == 901


def test_lookups_decide_by_what_was_saved() -> None:
    indexed(text("ERR_TIMEOUT"))
    made = get_embedder()

    def found() -> bool:
        reply = call_tool(LOOKUP_TOOL, {"query": "gateway gives up"}, ToolContext(principal="user:1", channel="api"))
        return bool(reply.content["found"])

    save(LevelFit(1.0, 0.01), name=made.name, version=made.version)
    assert found()
    save(LevelFit(1.0, 1.0), name=made.name, version=made.version)
    assert not found()
