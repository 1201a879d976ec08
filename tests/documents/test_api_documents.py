"""``GET``, ``PATCH``, ``DELETE`` of documents: lists and filters, content and chunks, changes and refusals."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.cache import cache
from django.utils import timezone

from documents import services
from documents.models import ApiDocument
from documents.worker import run_due_jobs
from tests.doors import DOCUMENTS, MARKDOWN, program, upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer() -> Any:
    cache.clear()
    return program("write")


@pytest.fixture
def document(writer: Any) -> dict[str, Any]:
    found: dict[str, Any] = upload(writer).json()
    return found


def ids(answer: Any) -> list[int]:
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


# ---- Lists -----------------------------------------------------------------------------------------------------------
def test_a_list_is_paged_and_links_its_pages(writer: Any) -> None:
    numbers = [upload(writer, name=f"d{number}.md", text=f"# D{number}\n\nText.\n").json()["id"] for number in range(5)]
    first = writer.get(DOCUMENTS, {"page_size": 2})
    assert first.json()["count"] == 5
    assert ids(first) == numbers[:2]
    assert first.json()["previous"] is None
    second = writer.get(first.json()["next"])
    assert ids(second) == numbers[2:4]
    assert ids(writer.get(second.json()["next"])) == numbers[4:]
    assert ids(writer.get(second.json()["previous"])) == numbers[:2]


def test_an_empty_list_has_one_empty_page(writer: Any) -> None:
    assert writer.get(DOCUMENTS).json() == {"count": 0, "next": None, "previous": None, "results": []}


def test_filters_narrow_the_list(writer: Any, document: dict[str, Any]) -> None:
    other = upload(writer, name="deploy.md", category="release", text="# Deploy 发布\n\nText.\n").json()["id"]
    run_due_jobs()
    ApiDocument.objects.filter(pk=other).update(enabled=False, updated_at=timezone.now() - timedelta(days=3))
    one = document["id"]
    assert ids(writer.get(DOCUMENTS, {"category": "release"})) == [other]
    assert ids(writer.get(DOCUMENTS, {"status": "INDEXED"})) == [one, other]
    assert ids(writer.get(DOCUMENTS, {"status": "FAILED"})) == []
    assert ids(writer.get(DOCUMENTS, {"enabled": "false"})) == [other]
    assert ids(writer.get(DOCUMENTS, {"enabled": "true"})) == [one]
    assert ids(writer.get(DOCUMENTS, {"search": "发布"})) == [other]
    assert ids(writer.get(DOCUMENTS, {"search": "PAYMENT.md"})) == [one]
    assert ids(writer.get(DOCUMENTS, {"search": "%"})) == []
    assert ids(writer.get(DOCUMENTS, {"search": "' OR 1=1 --"})) == []
    assert ids(writer.get(DOCUMENTS, {"category": 'payment" or id != "'})) == []
    since = (timezone.now() - timedelta(days=1)).isoformat()
    assert ids(writer.get(DOCUMENTS, {"updated_since": since})) == [one]
    assert ids(writer.get(DOCUMENTS, {"ordering": "-id"})) == [other, one]
    assert ids(writer.get(DOCUMENTS, {"status": "", "category": ""})) == [one, other]


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=-1",
        "page=x",
        "page_size=0",
        "page_size=-1",
        "page_size=1e9",
        "page_size=201",
        "page_size=null",
        "ordering=-(SELECT 1)",
        "ordering=uploaded_by__password",
        "status=indexed",
        "enabled=maybe",
        "updated_since=yesterday",
        "search=a%00b",
        "topK=3",
        "categroy=payment",
    ],
)
def test_a_query_that_makes_no_sense_is_a_400_that_names_the_field(writer: Any, query: str) -> None:
    answer = writer.get(f"{DOCUMENTS}?{query}")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_input"
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_a_page_past_the_last_is_a_404(writer: Any, document: dict[str, Any]) -> None:
    assert writer.get(DOCUMENTS, {"page": 2}).status_code == 404


def test_a_list_costs_the_same_queries_however_long(
    writer: Any, alice: Any, django_assert_max_num_queries: Any
) -> None:
    author = program("write", user=alice)
    for number in range(6):
        upload(author, name=f"d{number}.md", text=f"# D{number}\n\nText.\n")
    with django_assert_max_num_queries(4):
        assert len(ids(writer.get(DOCUMENTS))) == 6


# ---- One -------------------------------------------------------------------------------------------------------------
def test_a_document_is_read_by_its_id(writer: Any, document: dict[str, Any]) -> None:
    assert writer.get(f"{DOCUMENTS}{document['id']}/").json() == document


@pytest.mark.parametrize("number", ["999999", "9" * 30, "0"])
@pytest.mark.parametrize("rest", ["", "content/", "chunks/"])
def test_an_unknown_document_is_a_404(writer: Any, number: str, rest: str) -> None:
    answer = writer.get(f"{DOCUMENTS}{number}/{rest}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("number", ["999999", "9" * 30])
def test_an_unknown_document_is_a_404_to_changes_too(writer: Any, number: str) -> None:
    assert writer.delete(f"{DOCUMENTS}{number}/").status_code == 404
    assert writer.patch(f"{DOCUMENTS}{number}/", {"enabled": False}).status_code == 404
    assert writer.post(f"{DOCUMENTS}{number}/reindex/").status_code == 404


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf---\r\ntitle: x\r\n---  \r\n# A\r\n\r\nText \r",
        "# 支付网关超时处理\n\n请检查网络\n".encode("gbk"),
        b"<svg onload=alert(1)>\n",
    ],
)
def test_content_is_the_file_byte_for_byte_and_inert(writer: Any, data: bytes) -> None:
    number = upload(writer, text=data).json()["id"]
    answer = writer.get(f"{DOCUMENTS}{number}/content/")
    assert answer.content == data
    assert answer["Content-Type"] == "text/markdown"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize("name", ["支付 说明.md", 'a"b.md', "');alert(1);.md"])
def test_the_download_has_the_documents_own_name(writer: Any, name: str) -> None:
    number = upload(writer, name=name).json()["id"]
    disposition = writer.get(f"{DOCUMENTS}{number}/content/")["Content-Disposition"]
    assert quote(name) in disposition or name.replace('"', '\\"') in disposition
    assert "\n" not in disposition


def test_a_file_that_vanished_from_the_disk_is_a_clear_refusal(
    writer: Any, document: dict[str, Any], knowledge_base: Path
) -> None:
    (knowledge_base / "payment" / "payment.md").unlink()
    answer = writer.get(f"{DOCUMENTS}{document['id']}/content/")
    assert (answer.status_code, answer.json()["code"]) == (409, "file_missing")


def test_chunks_are_those_that_were_embedded(writer: Any, document: dict[str, Any]) -> None:
    address = f"{DOCUMENTS}{document['id']}/chunks/"
    assert writer.get(address).json()["results"] == []
    run_due_jobs()
    answer = writer.get(address).json()
    assert answer["count"] == writer.get(f"{DOCUMENTS}{document['id']}/").json()["chunk_count"] == 1
    assert answer["results"] == [{"index": 0, "heading_path": ["Time-outs"], "text": answer["results"][0]["text"]}]
    assert "Raise the limit." in answer["results"][0]["text"]


def test_reindex_queues_a_document_again(writer: Any, document: dict[str, Any]) -> None:
    run_due_jobs()
    answer = writer.post(f"{DOCUMENTS}{document['id']}/reindex/")
    assert (answer.status_code, answer.json()["status"]) == (202, "PENDING")
    run_due_jobs()
    assert writer.get(f"{DOCUMENTS}{document['id']}/").json()["status"] == "INDEXED"


# ---- Changes ---------------------------------------------------------------------------------------------------------
def test_disabling_and_enabling(writer: Any, document: dict[str, Any]) -> None:
    address = f"{DOCUMENTS}{document['id']}/"
    assert writer.patch(address, {"enabled": False}).json()["enabled"] is False
    assert writer.patch(address, {"enabled": True}).json()["enabled"] is True


def test_metadata_is_merged_and_null_removes(writer: Any, document: dict[str, Any], knowledge_base: Path) -> None:
    answer = writer.patch(
        f"{DOCUMENTS}{document['id']}/", {"metadata": {"title": "Anew", "keywords": None, "owner": "ops"}}
    )
    assert answer.status_code == 200, answer.content
    assert answer.json()["metadata"] == {"title": "Anew", "owner": "ops"}
    assert answer.json()["title"] == "Anew"
    assert answer.json()["revision"] > document["revision"]
    saved = (knowledge_base / "payment" / "payment.md").read_text(encoding="utf-8")
    assert saved.endswith(MARKDOWN.partition("---\n# ")[2])
    assert "ERR_TIMEOUT" not in saved


def test_a_change_for_a_stale_revision_is_a_409_and_changes_nothing(writer: Any, document: dict[str, Any]) -> None:
    address = f"{DOCUMENTS}{document['id']}/"
    writer.patch(address, {"metadata": {"title": "First"}, "revision": document["revision"]})
    for change in ({"metadata": {"title": "Second"}}, {"enabled": False}):
        answer = writer.patch(address, {**change, "revision": document["revision"]})
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_revision")
    assert writer.get(address).json()["title"] == "First"
    assert writer.get(address).json()["enabled"] is True


def test_metadata_of_a_broken_header_is_a_409(writer: Any) -> None:
    number = upload(writer, text="---\ntitle: [unclosed\n---\n# A\n\nText.\n").json()["id"]
    answer = writer.patch(f"{DOCUMENTS}{number}/", {"metadata": {"title": "x"}})
    assert (answer.status_code, answer.json()["code"]) == (409, "frontmatter_malformed")


@pytest.mark.parametrize(
    "change",
    [
        {"status": "INDEXED"},
        {"uploaded_by": 2},
        {"file_path": "/etc/passwd"},
        {"id": 7, "enabled": False},
        {"enabled": "yes"},
        {"enabled": 1},
        {"enabled": None},
        {"metadata": "title: x"},
        {"metadata": ["x"]},
        {"revision": "new"},
        ["enabled"],
    ],
)
def test_what_is_no_change_of_a_document_is_a_400_and_changes_nothing(
    writer: Any, document: dict[str, Any], change: Any
) -> None:
    address = f"{DOCUMENTS}{document['id']}/"
    answer = writer.patch(address, change)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert writer.get(address).json() == document


def test_an_unknown_field_is_named_with_its_code(writer: Any, document: dict[str, Any]) -> None:
    errors = writer.patch(f"{DOCUMENTS}{document['id']}/", {"status": "INDEXED"}).json()["errors"]
    assert [(error["field"], error["code"]) for error in errors] == [("status", "unknown_field")]


# ---- Delete ----------------------------------------------------------------------------------------------------------
def test_a_deleted_document_is_gone_everywhere(writer: Any, document: dict[str, Any], knowledge_base: Path) -> None:
    address = f"{DOCUMENTS}{document['id']}/"
    answer = writer.delete(address)
    assert answer.status_code == 204
    assert answer.content == b""
    assert writer.get(address).status_code == 404
    assert writer.delete(address).status_code == 404
    assert ids(writer.get(DOCUMENTS)) == []
    assert not (knowledge_base / "payment" / "payment.md").exists()


def test_a_document_whose_vectors_are_still_to_go_is_a_202_and_hidden(
    writer: Any, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(document_id: int, user: Any) -> bool:
        ApiDocument.objects.filter(pk=document_id).update(status="DELETING")
        return False

    monkeypatch.setattr(services, "delete_document", half)
    address = f"{DOCUMENTS}{document['id']}/"
    assert writer.delete(address).status_code == 202
    assert writer.get(address).status_code == 404
    assert writer.get(f"{address}content/").status_code == 404
    assert ids(writer.get(DOCUMENTS)) == []
    assert ids(writer.get(DOCUMENTS, {"status": "DELETING"})) == [document["id"]]


def test_the_same_bytes_may_come_back_after_a_delete(writer: Any, document: dict[str, Any]) -> None:
    writer.delete(f"{DOCUMENTS}{document['id']}/")
    assert upload(writer).status_code == 202
