"""``/domains/``: counts, and a curator's own words."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from rest_framework.test import APIClient

from documents.domains import recompute_dirty
from tests.doors import program, upload

pytestmark = pytest.mark.django_db
DOMAINS = "/api/v1/domains/"


@pytest.fixture
def writer() -> Any:
    client = program("write")
    for name in ("a.md", "b.md"):
        upload(client, name=name)
    upload(client, name="c.md", category="api")
    recompute_dirty(force=True)
    return client


def test_domains_are_listed_with_their_counts(writer: Any) -> None:
    answer = writer.get(DOMAINS).json()
    assert answer["count"] == 2
    assert [(row["domain_id"], row["document_count"]) for row in answer["results"]] == [("api", 1), ("payment", 2)]
    assert answer["results"][0]["description_source"] == "plain"


def test_the_counts_are_those_of_now_whatever_is_computed_later(writer: Any) -> None:
    document = upload(writer, name="e.md", category="release").json()
    counts = {row["domain_id"]: row["document_count"] for row in writer.get(DOMAINS).json()["results"]}
    assert counts == {"api": 1, "payment": 2, "release": 1}
    writer.patch(f"/api/v1/documents/{document['id']}/", {"enabled": False})
    assert writer.patch(f"{DOMAINS}release/", {"description": "x"}).json()["document_count"] == 0


def test_a_curators_text_is_kept_and_an_empty_one_goes_back_to_the_summary(writer: Any) -> None:
    plain = writer.get(DOMAINS).json()["results"][1]["description"]
    changed = writer.patch(f"{DOMAINS}payment/", {"description": "支付与退款"}).json()
    assert (changed["description"], changed["description_source"]) == ("支付与退款", "curator")
    assert changed["when_to_retrieve_source"] == "plain"
    upload(writer, name="d.md")
    recompute_dirty(force=True)
    assert writer.get(DOMAINS).json()["results"][1]["description"] == "支付与退款"
    back = writer.patch(f"{DOMAINS}payment/", {"description": ""}).json()
    assert back["description_source"] == "plain"
    assert back["description"].startswith(plain.partition(";")[0])


@pytest.mark.parametrize(
    "change",
    [
        {"document_count": 9},
        {"description": "x" * 257},
        {"description": 7},
        {"domain_id": "api"},
        "text",
        {"description": "a\0"},
    ],
)
def test_what_is_no_text_of_a_domain_is_a_400(writer: Any, change: Any) -> None:
    assert writer.patch(f"{DOMAINS}payment/", change).status_code == 400


def test_an_unknown_domain_is_a_404_and_a_reader_changes_none(writer: Any, bob: Any) -> None:
    assert writer.patch(f"{DOMAINS}nothing/", {"description": "x"}).status_code == 404
    assert program("read").patch(f"{DOMAINS}payment/", {"description": "x"}).status_code == 403
    client = APIClient()
    client.force_login(bob)
    assert client.patch(f"{DOMAINS}payment/", {"description": "x"}).status_code == 403
    bob.user_permissions.add(Permission.objects.get(codename="change_knowledgedomain"))
    assert client.patch(f"{DOMAINS}payment/", {"description": "x"}).status_code == 200
