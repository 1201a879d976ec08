"""The dashboard in Chromium: what was looked up just before, chart and table and download alike."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.documents.library import indexed, text
from tests.doors import program

Opens = Callable[..., Any]


@pytest.fixture
def lookups() -> dict[str, int]:
    """Lookups made through the API: how many of each level, by its name in the API."""
    indexed(text())
    api = program("read")
    for query, session in [
        ("ERR_TIMEOUT", "one"),
        ("ERR_TIMEOUT", "one"),
        ("ERR_TIMEOUT", "two"),
        ("The gateway gives up after thirty seconds", "three"),
        ("zebra crossing", "three"),
    ]:
        assert api.post("/api/v1/lookup/", {"query": query, "session_id": session}, format="json").status_code == 200
    return {"PRECISE": 2, "DEDUPED": 1}


def panel(page: Any, title: str) -> Any:
    return page.locator("figure.k-panel").filter(has=page.get_by_role("heading", name=title, exact=True))


def table(figure: Any) -> dict[str, int]:
    """Key column and count of a panel's table."""
    figure.locator("summary").click()
    rows = figure.locator("tbody tr").all()
    return {row.locator("th, td").nth(-2).inner_text(): int(row.locator("td").last.inner_text()) for row in rows}


def drawn(figure: Any) -> dict[str, int]:
    """What the chart says to those who cannot see it, and as numbers over its bars."""
    said = figure.locator("svg[role=img]").get_attribute("aria-label")
    bars = {name: int(count) for name, count in re.findall(r"([^:,]+?) (\d+)(?:, |$)", said.partition(": ")[2])}
    over = [int(number) for number in figure.locator("svg text.m.strong").all_text_contents()]
    assert sorted(over) == sorted(count for count in bars.values() if count)
    return bars


def test_lookups_made_just_before_are_on_the_page(open_page: Opens, alice: Any, lookups: dict[str, int]) -> None:
    page = open_page(alice, "/dashboards/")
    tiles = page.locator(".k-tile").all_inner_texts()
    assert any("Lookups" in tile and "5" in tile for tile in tiles)
    latest = page.get_by_role("region", name="Latest lookups").locator("tbody tr")
    assert latest.count() == 5
    assert "zebra crossing" in latest.first.inner_text()


def test_table_chart_and_download_agree(open_page: Opens, alice: Any, lookups: dict[str, int]) -> None:
    page = open_page(alice, "/dashboards/")
    levels = panel(page, "Levels")
    counted = table(levels)
    assert {level: counted[level] for level in lookups} == lookups
    assert sum(counted.values()) == 5
    bars = drawn(levels)
    names = {"PRECISE": "Exact", "DEDUPED": "Already given", "REFERENCE": "Reference", "null": "Nothing found"}
    names["HIGHLY_RELEVANT"] = "Highly relevant"
    assert {names[level]: count for level, count in counted.items()} == {
        name: count for name, count in bars.items() if count
    }
    for title, key, nothing in (
        ("Levels", "relevance_level", "null"),
        ("Repeated lookups", "dedup_reason", "null"),
        ("Similarity", "bin", "null"),
    ):
        figure = panel(page, title)
        shown = counted if title == "Levels" else table(figure)
        with page.expect_download() as download:
            figure.get_by_role("link", name="CSV").click()
        saved = Path(download.value.path()).read_text(encoding="utf-8-sig")
        rows = {row[key]: int(row["count"]) for row in csv.DictReader(io.StringIO(saved))}
        if key == "bin":
            rows = {f"{float(edge):.2f}" if edge else "": count for edge, count in rows.items()}
        assert {level or nothing: count for level, count in rows.items()} == shown, title


def test_filters_narrow_page_and_download(open_page: Opens, alice: Any, lookups: dict[str, int]) -> None:
    page = open_page(alice, "/dashboards/")
    page.get_by_label("Channel").select_option("chat")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**channel=chat**")
    assert page.get_by_role("status").filter(has_text="No lookup in this selection yet.").is_visible()
    page.get_by_label("Channel").select_option("api")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**channel=api**")
    assert table(panel(page, "Levels"))["PRECISE"] == 2
    assert "channel=api" in panel(page, "Levels").get_by_role("link", name="CSV").get_attribute("href")


def test_a_wrong_filter_is_said_on_the_page(open_page: Opens, alice: Any) -> None:
    page = open_page(alice, "/dashboards/?from=yesterday")
    assert "from" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1440, 390, 320])
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_nothing_scrolls_sideways_and_no_label_lies_on_another(
    language: str, width: int, dark: bool, open_page: Opens, alice: Any, lookups: dict[str, int]
) -> None:
    page = open_page(alice, "/dashboards/", width=width, height=844, language=language, dark=dark)
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert page.locator("h1").inner_text() == ("Dashboards" if language == "en-GB" else "看板")
    assert page.locator("html").get_attribute("lang") == ("en" if language == "en-GB" else "zh-hans")
    for label in page.locator("form.k-filters :is(input, select)").all():
        assert label.evaluate("field => field.labels.length") == 1
    boxes = page.locator("figure.k-panel").first.locator("svg text.m:not(.strong)").all()
    places = [box.bounding_box() for box in boxes]
    assert len(places) == 5
    for number, one in enumerate(places):
        for other in places[number + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert apart or abs(one["y"] - other["y"]) >= 11, (one, other)


def test_bob_who_is_not_staff_is_refused_in_words(open_page: Opens, bob: Any) -> None:
    page = open_page(bob, "/dashboards/", expected="403")
    assert page.locator("h1").count() == 1
    assert "Traceback" not in page.content()
