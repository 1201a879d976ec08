"""Two hundred questions get the very same answers, to the byte, before a backup and after its restore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from documents.worker import run_due_jobs
from tests.documents.library import text, upload
from tests.documents.test_backup import empty_place, run

pytestmark = pytest.mark.django_db(transaction=True)
TOPICS = (
    "refund",
    "time-out",
    "signature",
    "ledger",
    "webhook",
    "settlement",
    "currency",
    "limit",
    "chargeback",
    "对账",
)


def answers(queries: list[str]) -> dict[str, str]:
    """What ``POST /lookup/`` says of each, as it is sent."""
    from django.contrib.auth import get_user_model
    from django.core.cache import cache

    client = APIClient()
    client.force_login(get_user_model().objects.get(username="reader"))
    said = {}
    for query in queries:
        cache.clear()  # the throttle is not what is tried here
        answer = client.post("/api/v1/lookup/", {"query": query}, format="json")
        assert answer.status_code == 200, answer.content
        said[query] = answer.content.decode()
    return said


def test_two_hundred_questions_are_answered_alike(
    knowledge_base: Path, tmp_path: Path, settings: Any, django_user_model: Any
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    django_user_model.objects.create_user("reader")
    for number in range(40):
        topic = TOPICS[number % len(TOPICS)]
        said = f"The {topic} of merchant {number} takes {number + 2} days."
        body = f"# {topic} {number}\n\n{said}\n\n## Case\n\nTeam {number}.\n"
        upload(text(f"CODE-{number}", body=body, title=f"{topic} {number}"), f"{number}.md", "payment")
    run_due_jobs()
    exact = [f"CODE-{number}" for number in range(40)] + [f"what is CODE-{number} about" for number in range(40)]
    meant = [f"how many days does the {TOPICS[n % 10]} of merchant {n} take" for n in range(40)]
    meant += [f"which team for {TOPICS[n % 10]} number {n}" for n in range(70)]
    nothing = [f"zyxw {number} qqq" for number in range(10)]
    queries = exact + meant + nothing
    assert len(set(queries)) == 200
    before = answers(queries)
    found = [query for query in queries if json.loads(before[query])["found"]]
    assert set(exact) <= set(found)
    assert len(found) >= 150
    run("backup", str(tmp_path / "b.tar.gz"))
    empty_place(knowledge_base)
    run("restore", str(tmp_path / "b.tar.gz"))
    assert answers(exact[:40]) == {query: before[query] for query in exact[:40]}
    run_due_jobs()
    after = answers(queries)
    assert {query: after[query] for query in queries if after[query] != before[query]} == {}
