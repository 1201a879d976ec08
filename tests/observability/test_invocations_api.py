"""``GET /invocations/``: rows, filters, cursor pages, CSV that a spreadsheet does not run."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from documents.models import ToolInvocation
from tests.doors import program

pytestmark = pytest.mark.django_db
INVOCATIONS = "/api/v1/invocations/"


def make(**values: Any) -> ToolInvocation:
    age = values.pop("age", timedelta())
    row = ToolInvocation.objects.create(
        **{"tool_name": "lookup_knowledge", "channel": "api", "query": "ERR_TIMEOUT", "found": True, **values}
    )
    ToolInvocation.objects.filter(pk=row.pk).update(created_at=timezone.now() - age)
    return row


def ids(answer: Any) -> list[int]:
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


@pytest.fixture
def ops() -> Any:
    return program("ops")


def test_rows_come_newest_first_with_what_was_recorded_and_served(ops: Any) -> None:
    row = make(relevance_level="PRECISE", retrieval_details={"l1_scores": [0.5]}, arguments={"query": "支付"})
    row.documents.create(
        document_id=7, file_path="knowledge_base/a/b.md", domain="a", role="primary", match_type="exact_L0"
    )
    later = make()
    answer = ops.get(INVOCATIONS)
    assert ids(answer) == [later.pk, row.pk]
    shown = answer.json()["results"][1]
    assert shown["retrieval_details"] == {"l1_scores": [0.5]}
    assert shown["documents"][0]["file_path"] == "knowledge_base/a/b.md"
    assert "支付".encode() in answer.content


def test_cursor_pages_hold_every_row_once_though_new_ones_arrive(ops: Any) -> None:
    rows = [make().pk for _ in range(5)][::-1]
    first = ops.get(INVOCATIONS, {"page_size": 2})
    assert ids(first) == rows[:2]
    make()
    second = ops.get(first.json()["next"])
    assert ids(second) == rows[2:4]
    third = ops.get(second.json()["next"])
    assert ids(third) == rows[4:]
    assert third.json()["next"] is None
    assert ids(ops.get(third.json()["previous"])) == rows[2:4]


def test_filters(ops: Any) -> None:
    old = make(age=timedelta(days=2), session_id="s-1", channel="mcp", relevance_level="REFERENCE", run_id="r")
    deduped = make(relevance_level="DEDUPED", dedup_reason="doc_retrieved")
    miss = make(found=False)
    day_ago = (timezone.now() - timedelta(days=1)).isoformat()
    assert ids(ops.get(INVOCATIONS, {"from": day_ago})) == [miss.pk, deduped.pk]
    assert ids(ops.get(INVOCATIONS, {"to": day_ago})) == [old.pk]
    assert ids(ops.get(INVOCATIONS, {"session_id": "s-1"})) == [old.pk]
    assert ids(ops.get(INVOCATIONS, {"run_id": "r"})) == [old.pk]
    assert ids(ops.get(INVOCATIONS, {"channel": "mcp"})) == [old.pk]
    assert ids(ops.get(INVOCATIONS, {"level": "DEDUPED"})) == [deduped.pk]
    assert ids(ops.get(INVOCATIONS, {"level": "none"})) == [miss.pk]
    assert ids(ops.get(INVOCATIONS, {"dedup_reason": "doc_retrieved"})) == [deduped.pk]


@pytest.mark.parametrize(
    "query",
    [
        "from=x",
        "level=best",
        "channel=web",
        "dedup_reason=x",
        "page_size=0",
        "page_size=1001",
        "order=id",
        "session_id=a%00",
    ],
)
def test_a_filter_that_makes_no_sense_is_a_400(ops: Any, query: str) -> None:
    answer = ops.get(f"{INVOCATIONS}?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_a_broken_cursor_is_refused(ops: Any) -> None:
    assert ops.get(INVOCATIONS, {"cursor": "nonsense"}).status_code in {400, 404}


@pytest.mark.parametrize("text", ["=1+1", "-1+cmd|' /C calc'!A0", "@SUM(1)", "+1", "\t=1", "\r=1"])
def test_a_cell_that_would_be_a_formula_is_made_text(ops: Any, text: str) -> None:
    make(query=text, domain='with "quote", comma\nand line')
    answer = ops.get(INVOCATIONS, {"format": "csv"})
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    [row] = csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline=""))
    assert row["query"] == "'" + text
    assert row["domain"] == 'with "quote", comma\nand line'
    assert row["relevance_level"] == ""


def test_csv_pages_are_linked_and_hold_the_same_rows_as_json(ops: Any) -> None:
    for number in range(3):
        make(query=f"q{number}", l1_top_similarity=0.25, arguments={"query": "支付"})
    answer = ops.get(INVOCATIONS, {"format": "csv", "page_size": 2})
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert [row["query"] for row in rows] == ["q2", "q1"]
    assert rows[0]["arguments"] == '{"query": "支付"}'
    assert rows[0]["l1_top_similarity"] == "0.25"
    following = answer["Link"].partition(">")[0].strip("<")
    rest = ops.get(following)
    assert [row["query"] for row in csv.DictReader(io.StringIO(rest.content.decode("utf-8-sig")))] == ["q0"]
    assert "Link" not in rest


def test_an_error_is_a_problem_in_csv_too(ops: Any) -> None:
    answer = ops.get(INVOCATIONS, {"format": "csv", "level": "best"})
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_it_is_for_operations_only(alice: Any, bob: Any) -> None:
    assert program("read").get(INVOCATIONS).status_code == 403
    assert program("write").get(INVOCATIONS, {"format": "csv"}).status_code == 403
    assert program("ops").get(INVOCATIONS).status_code == 200


def test_a_page_costs_the_same_queries_however_long(ops: Any, django_assert_max_num_queries: Any) -> None:
    for _ in range(6):
        make().documents.create(document_id=1, file_path="x", domain="a", role="primary", match_type="exact_L0")
    with django_assert_max_num_queries(4):
        assert len(ids(ops.get(INVOCATIONS))) == 6
