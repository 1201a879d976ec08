"""REST doors of earlier revisions: listed, read and brought back, by those who may write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from rest_framework.test import APIClient

from documents.models import ApiDocument, DocumentHistory
from documents.services import delete_document
from tests.documents.library import text, upload
from tests.doors import program

pytestmark = pytest.mark.django_db
ONE, TWO = text("ONE"), text("TWO")
HISTORY = "/api/v1/history/"


@pytest.fixture
def writer() -> APIClient:
    return program("write")


def newest() -> int:
    return int(DocumentHistory.objects.order_by("-id").values_list("pk", flat=True)[0])


def test_the_history_of_a_document_is_listed_newest_first(knowledge_base: Path, writer: APIClient) -> None:
    document = upload(ONE).document
    assert writer.get(f"/api/v1/documents/{document.pk}/history/").json()["results"] == []
    upload(TWO)
    upload(ONE)
    delete_document(document_id=document.pk, user=None)
    answer = writer.get(f"/api/v1/documents/{document.pk}/history/").json()
    assert [(row["revision"], row["reason"]) for row in answer["results"]] == [
        (3, "deleted"),
        (2, "replaced"),
        (1, "replaced"),
    ]
    assert writer.get("/api/v1/documents/999/history/").status_code == 404


def test_deleted_documents_are_listed_and_searched(knowledge_base: Path, writer: APIClient) -> None:
    for name in ("alpha.md", "beta.md"):
        delete_document(document_id=upload(ONE, name).document.pk, user=None)
    upload(ONE, "gamma.md")
    upload(TWO, "gamma.md")
    paths = [row["file_path"] for row in writer.get(HISTORY).json()["results"]]
    assert paths == ["knowledge_base/payment/beta.md", "knowledge_base/payment/alpha.md"]
    assert writer.get(HISTORY, {"search": "alpha"}).json()["count"] == 1
    assert writer.get(HISTORY, {"reason": "replaced"}).json()["count"] == 1
    assert writer.get(HISTORY, {"reason": "lost"}).status_code == 400


def test_the_bytes_are_given_as_they_were(knowledge_base: Path, writer: APIClient) -> None:
    upload(ONE)
    upload(TWO)
    answer = writer.get(f"{HISTORY}{newest()}/content/")
    assert answer.content == ONE.encode()
    assert "attachment" in answer["Content-Disposition"]


def test_a_deleted_document_comes_back(knowledge_base: Path, writer: APIClient) -> None:
    document = upload(ONE).document
    delete_document(document_id=document.pk, user=None)
    answer = writer.post(f"{HISTORY}{newest()}/restore/")
    assert (answer.status_code, answer.json()["id"], answer.json()["status"]) == (202, document.pk, "PENDING")
    assert answer["Location"] == f"/api/v1/documents/{document.pk}/"
    assert writer.post(f"{HISTORY}{newest()}/restore/").status_code == 200


def test_a_taken_place_is_a_conflict_that_says_how_to_go_on(knowledge_base: Path, writer: APIClient) -> None:
    delete_document(document_id=upload(ONE).document.pk, user=None)
    other = upload(TWO).document
    refusal = writer.post(f"{HISTORY}{newest()}/restore/")
    assert (refusal.status_code, refusal.json()["code"]) == (409, "path_taken")
    assert refusal.json()["errors"][0]["field"] == "replace"
    answer = writer.post(f"{HISTORY}{newest()}/restore/", {"replace": True}, format="json")
    assert (answer.status_code, answer.json()["id"], answer.json()["revision"]) == (202, other.pk, 2)


def test_what_is_no_longer_kept_is_said(knowledge_base: Path, writer: APIClient) -> None:
    upload(ONE)
    upload(TWO)
    row = DocumentHistory.objects.get()
    (knowledge_base / ".history" / row.stored_name).unlink()
    refusal = writer.post(f"{HISTORY}{row.pk}/restore/")
    assert (refusal.status_code, refusal.json()["code"]) == (410, "revision_gone")
    assert writer.get(f"{HISTORY}{row.pk}/content/").status_code == 410
    assert writer.post(f"{HISTORY}{row.pk + 1}/restore/").status_code == 404


def test_who_may_only_add_brings_deleted_ones_back_and_replaces_nothing(knowledge_base: Path, bob: Any) -> None:
    bob.user_permissions.add(Permission.objects.get(codename="add_apidocument"))
    client = APIClient()
    client.force_login(bob)
    upload(ONE)
    upload(TWO)
    assert client.post(f"{HISTORY}{newest()}/restore/").status_code == 403
    delete_document(document_id=ApiDocument.objects.get().pk, user=None)
    assert client.post(f"{HISTORY}{newest()}/restore/").status_code == 202
    delete_document(document_id=ApiDocument.objects.get().pk, user=None)
    upload(ONE)
    assert client.post(f"{HISTORY}{newest()}/restore/", {"replace": True}, format="json").status_code == 403
