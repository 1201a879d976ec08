"""The dashboard page and its panels as data: who may see them, and that all three say the same."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from documents.models import ToolInvocation
from observability.charts import bar_chart, histogram, nice_step

pytestmark = pytest.mark.django_db


def record(**values: Any) -> None:
    ToolInvocation.objects.create(**{"channel": "api", "tool_name": "lookup_knowledge", **values})


@pytest.fixture
def staff(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


def test_bob_who_is_not_staff_is_refused(client: Client, bob: Any) -> None:
    client.force_login(bob)
    assert client.get("/dashboards/").status_code == 403
    assert client.get("/dashboards/panels/relevance-levels.json").status_code == 403


def test_nobody_is_sent_to_the_sign_in(client: Client) -> None:
    assert client.get("/dashboards/").status_code == 302
    assert client.get("/dashboards/panels/relevance-levels.json").status_code == 401


def test_json_csv_and_page_give_the_same_figures(staff: Client) -> None:
    for level in ["PRECISE", "PRECISE", "REFERENCE", None]:
        record(relevance_level=level)
    rows = staff.get("/dashboards/panels/relevance-levels.json").json()["rows"]
    assert {row["relevance_level"]: row["count"] for row in rows} == {"PRECISE": 2, "REFERENCE": 1, None: 1}
    text = staff.get("/dashboards/panels/relevance-levels.csv").content.decode("utf-8-sig")
    table = list(csv.DictReader(io.StringIO(text)))
    assert {row["relevance_level"] or None: int(row["count"]) for row in table} == {
        row["relevance_level"]: row["count"] for row in rows
    }
    page = staff.get("/dashboards/").content.decode()
    assert '<td class="k-mono">PRECISE</td><td class="num">2</td>' in page
    assert '<td class="k-mono">null</td><td class="num">1</td>' in page


def test_the_page_leaves_out_trying_things_unless_asked(staff: Client) -> None:
    record(relevance_level="PRECISE", channel="demo")
    assert '<td class="k-mono">PRECISE</td>' not in staff.get("/dashboards/").content.decode()
    assert '<td class="k-mono">PRECISE</td>' in staff.get("/dashboards/?channel=all").content.decode()
    assert staff.get("/dashboards/panels/relevance-levels.json").json()["rows"]


def test_an_empty_site_says_what_to_do(staff: Client) -> None:
    page = staff.get("/dashboards/").content.decode()
    assert "No lookup in this selection yet." in page


def test_a_query_with_markup_is_shown_as_text(staff: Client) -> None:
    record(query="<script>alert(1)</script>")
    page = staff.get("/dashboards/").content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_formula_in_a_csv_is_disarmed(staff: Client) -> None:
    record(relevance_level="=1+1", dedup_reason="@SUM(1)")
    assert "'=1+1" in staff.get("/dashboards/panels/relevance-levels.csv").content.decode()
    assert "'@SUM(1)" in staff.get("/dashboards/panels/dedup-reasons.csv").content.decode()


def test_a_bad_filter_is_a_problem_for_programs_and_a_banner_for_people(staff: Client) -> None:
    answer = staff.get("/dashboards/panels/volume.json?from=soon")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_filter"
    assert answer.json()["errors"][0]["field"] == "from"
    page = staff.get("/dashboards/?from=soon")
    assert page.status_code == 200
    assert 'role="alert"' in page.content.decode()


def test_an_unknown_panel_is_not_found(staff: Client) -> None:
    assert staff.get("/dashboards/panels/secrets.json").status_code == 404


def test_bars_stand_on_the_axis_and_the_highest_fits() -> None:
    chart = bar_chart([("a", "pine", 7), ("b", "blue", 0), ("c", "ochre", 1203)])
    assert [float(bar.y) + float(bar.height) for bar in chart.bars] == pytest.approx([176.0] * 3, abs=0.11)
    assert min(float(bar.y) for bar in chart.bars) >= 34.0
    assert float(chart.bars[1].height) == 0.0


@pytest.mark.parametrize(("highest", "step"), [(0, 1), (5, 1), (6, 2), (23, 5), (101, 50), (2163, 500)])
def test_the_grid_has_round_steps(highest: int, step: int) -> None:
    assert nice_step(highest) == step


def test_a_bin_has_the_tone_of_the_level_that_its_lower_edge_gets() -> None:
    cuts = [("reference", 0.3), ("highly_relevant", 0.6)]
    chart = histogram([(0.25, 1), (0.3, 1), (0.6, 1)], 20, cuts)
    assert [bar.tone for bar in chart.bars] == ["plum", "ochre", "blue"]
    assert [cut.x for cut in chart.cuts] == ["30.00%", "60.00%"]


def test_bounds_at_one_similarity_are_one_line_and_the_bars_keep_their_tones() -> None:
    chart = histogram([(0.3, 1), (0.4, 1)], 20, [("reference", 0.36), ("highly_relevant", 0.36)])
    assert [(cut.key, cut.label) for cut in chart.cuts] == [("reference", "0.36")]
    assert [bar.tone for bar in chart.bars] == ["plum", "blue"]
