"""The first day of a site, from end to end in one process: asked, added, found, remembered, seen, deleted."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.test import Client

from agents.models import Message, Run
from documents.models import ApiDocument, DocumentChunk, DocumentHistory, KnowledgeDomain, ToolInvocation
from documents.sample import copy_sample
from documents.scan import scan
from documents.worker import run_due_jobs
from tests.documents.library import files, kept, vectors
from tests.doors import DOCUMENTS, browser, program, upload

pytestmark = pytest.mark.django_db(transaction=True)

OWN = """---
title: Printer on the third floor
keywords: [E-4711, 打印机卡纸]
---
# Printer on the third floor

## Paper jam

Open the rear flap, pull the sheet out slowly in the direction of the rollers, close the flap and press green.
"""
IN_OWN_WORDS = "pull the sheet out slowly in the direction of the rollers and close the rear flap"
PATH = "knowledge_base/office/printer.md"


@pytest.fixture
def library(knowledge_base: Path, settings: Any) -> Path:
    """The sample knowledge base, as a first start loads it, with its vectors."""
    settings.KNOWLEDGE_BASE_PATH_IS_SET = False
    assert copy_sample() >= 16
    scan()
    run_due_jobs()
    assert set(ApiDocument.objects.values_list("status", flat=True)) == {ApiDocument.Status.INDEXED}
    return knowledge_base


def look_up(client: Any, query: str, **more: str) -> dict[str, Any]:
    answer = client.post("/api/v1/lookup/", {"query": query, **more}, format="json")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def sources(answer: dict[str, Any]) -> list[str]:
    return [answer[role]["source"] for role in ("primary", "supplement") if answer[role]]


def ask_on_the_page(client: Client, question: str, session_id: str = "") -> tuple[str, str]:
    """Send the plain form; the conversation's id and its page."""
    client.get("/")
    form = {"message": question, "session_id": session_id, "csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    page = client.post("/ask/", form, follow=True)
    assert page.status_code == 200
    return page.redirect_chain[-1][0].split("/")[2], page.content.decode()


def levels(client: Any) -> dict[str | None, int]:
    rows = client.get("/dashboards/panels/relevance-levels.json").json()["rows"]
    return {row["relevance_level"]: row["count"] for row in rows}


def test_the_sample_answers_an_error_code_and_a_question_in_own_words(library: Path, bob: Any) -> None:
    page = browser(bob)
    _session, shown = ask_on_the_page(page, "ERR_TIMEOUT")
    assert "支付网关错误码" in shown
    assert ToolInvocation.objects.get().relevance_level == "PRECISE"
    assert re.search(r'<span class="k-level"[^>]*>.*?Exact</span>', shown)
    api = program("read")
    body = (library / "infrastructure" / "cluster-upgrade.md").read_text(encoding="utf-8").split("---", 2)[2]
    line = next(each for each in body.splitlines() if len(each) > 80)
    found = look_up(api, line.lstrip("-*#0123456789. "))
    assert "knowledge_base/infrastructure/cluster-upgrade.md" in sources(found)
    assert (ToolInvocation.objects.latest("pk").l1_top_similarity or 0) > 0.3


def test_a_document_of_ones_own_from_upload_to_deletion(library: Path, alice: Any, bob: Any) -> None:
    api = program("read", "write", "ops")
    assert look_up(api, "E-4711")["found"] is False

    # Uploaded: found at once by keyword, soon by meaning.
    made = upload(api, name="printer.md", category="office", text=OWN)
    assert made.status_code in (201, 202)
    document_id = made.json()["id"]
    assert made.json()["status"] == "PENDING"
    exact = look_up(api, "打印机卡纸 怎么办", session_id="by-name")
    assert (sources(exact), exact["relevanceLevel"]) == ([PATH], "PRECISE")
    assert PATH not in sources(look_up(api, IN_OWN_WORDS))
    run_due_jobs()
    assert api.get(f"{DOCUMENTS}{document_id}/").json()["status"] == "INDEXED"
    meant = look_up(api, IN_OWN_WORDS)
    assert PATH in sources(meant)
    assert meant["relevanceLevel"] in ("HIGHLY_RELEVANT", "REFERENCE")
    assert KnowledgeDomain.objects.get(domain_id="office").document_count == 1

    # A session is told what it holds already; another one, and nobody's, is given it.
    first, second = (look_up(api, "E-4711", session_id="my-run") for _ in range(2))
    assert [first["relevanceLevel"], second["relevanceLevel"]] == ["PRECISE", "DEDUPED"]
    assert second["primary"] is None or "rear flap" not in second["primary"]["content"]
    assert look_up(api, "E-4711", session_id="other-run")["relevanceLevel"] == "PRECISE"
    assert [look_up(api, "E-4711")["relevanceLevel"] for _ in range(2)] == ["PRECISE", "PRECISE"]

    # On the page each question is answered, the second time too.
    page = browser(bob)
    session, shown = ask_on_the_page(page, "E-4711")
    assert "Open the rear flap" in shown
    _same, shown = ask_on_the_page(page, "E-4711", session)
    assert shown.count("Open the rear flap") >= 2
    answers = Message.objects.filter(role="assistant")
    assert [len(answer.citations) for answer in answers] == [1, 1]
    assert Run.objects.filter(session__pk=session).count() == 2

    # The lookups are on the dashboard: page, JSON and CSV and the table say the same.
    staff = browser(alice)
    counted = levels(staff)
    assert counted["DEDUPED"] == 1
    assert counted["PRECISE"] == ToolInvocation.objects.filter(relevance_level="PRECISE").count() >= 7
    assert sum(counted.values()) == ToolInvocation.objects.count()
    text = staff.get("/dashboards/panels/relevance-levels.csv").content.decode("utf-8-sig")
    assert {row["relevance_level"] or None: int(row["count"]) for row in csv.DictReader(io.StringIO(text))} == counted
    shown = staff.get("/dashboards/").content.decode()
    assert f'<td class="k-mono">PRECISE</td><td class="num">{counted["PRECISE"]}</td>' in shown
    assert IN_OWN_WORDS[:40] in shown

    # Deleted: gone from lookups, disk, rows, chunks and vectors; the bytes are kept for a while.
    assert DocumentChunk.objects.filter(document_id=document_id).exists()
    assert any(document == document_id for document, _revision in vectors())
    assert api.delete(f"{DOCUMENTS}{document_id}/").status_code == 204
    assert look_up(api, "E-4711")["found"] is False
    assert PATH not in sources(look_up(api, IN_OWN_WORDS))
    assert "Open the rear flap" not in ask_on_the_page(page, "打印机卡纸")[1]
    assert api.get(f"{DOCUMENTS}{document_id}/").status_code == 404
    assert not (library / "office" / "printer.md").exists()
    assert not ApiDocument.objects.filter(pk=document_id).exists()
    assert not DocumentChunk.objects.filter(document_id=document_id).exists()
    assert not any(document == document_id for document, _revision in vectors())
    run_due_jobs()
    assert not KnowledgeDomain.objects.filter(domain_id="office", document_count__gt=0).exists()
    assert [data for _revision, data in kept()] == [OWN.encode()]


def test_an_earlier_answer_keeps_its_source_after_the_document_has_gone(library: Path, bob: Any) -> None:
    api = program("read", "write")
    document_id = upload(api, name="printer.md", category="office", text=OWN).json()["id"]
    page = browser(bob)
    session, _shown = ask_on_the_page(page, "E-4711")
    assert api.delete(f"{DOCUMENTS}{document_id}/").status_code == 204
    again = page.get(f"/chat/{session}/")
    assert again.status_code == 200
    assert "Open the rear flap" in again.content.decode()
    message = Message.objects.get(role="assistant")
    assert page.get(f"/sources/{message.pk}/1/").status_code in (200, 404, 410)


def test_a_new_revision_takes_the_place_of_the_old_one_everywhere(library: Path) -> None:
    api = program("read", "write")
    document_id = upload(api, name="printer.md", category="office", text=OWN).json()["id"]
    run_due_jobs()
    renamed = OWN.replace("E-4711", "E-4712").replace("rear flap", "front drawer").replace("press green", "press blue")
    replaced = upload(api, name="printer.md", category="office", text=renamed)
    assert replaced.json()["id"] == document_id
    # The old keyword has gone at once, before any vector is made.
    assert look_up(api, "E-4711")["found"] is False
    content = look_up(api, "E-4712")["primary"]["content"]
    assert "front drawer" in content
    assert "rear flap" not in content
    run_due_jobs()
    meant = look_up(api, IN_OWN_WORDS.replace("rear flap", "front drawer"))
    assert PATH in sources(meant)
    assert "rear flap" not in str(meant)
    row = ApiDocument.objects.get(pk=document_id)
    assert row.revision == row.published_revision == row.indexed_revision == 2
    assert {revision for document, revision in vectors() if document == document_id} == {2}
    assert set(DocumentChunk.objects.filter(document_id=document_id).values_list("revision", flat=True)) == {2}
    assert [(row.revision, row.reason) for row in DocumentHistory.objects.all()] == [(1, "replaced")]
    assert kept() == [(1, OWN.encode())]
    assert (library / "office" / "printer.md").read_text(encoding="utf-8") == renamed


def test_a_file_put_into_the_folder_by_hand_is_found_like_an_uploaded_one(library: Path) -> None:
    api = program("read", "write")
    (library / "office").mkdir()
    (library / "office" / "printer.md").write_text(OWN, encoding="utf-8")
    before = files(library)
    scan()
    assert sources(look_up(api, "E-4711")) == [PATH]
    run_due_jobs()
    assert PATH in sources(look_up(api, IN_OWN_WORDS))
    assert files(library) == before
    # Disabled it is in no lookup, enabled again in each.
    document_id = ApiDocument.objects.get(file_path=PATH).pk
    for enabled in (False, True):
        changed = api.patch(f"{DOCUMENTS}{document_id}/", {"enabled": enabled}, format="json")
        assert changed.status_code == 200, changed.content
        assert (PATH in sources(look_up(api, "E-4711"))) is enabled
        assert (PATH in sources(look_up(api, IN_OWN_WORDS))) is enabled


def test_the_sample_has_what_a_first_day_needs(library: Path) -> None:
    rows = ApiDocument.objects.all()
    assert {row.category for row in rows} == {"payment", "api", "infrastructure", "troubleshooting", "release"}
    assert [row.file_path for row in rows if row.frontmatter_problem] == ["knowledge_base/release/freeze-calendar.md"]
    assert rows.filter(metadata__isnull=True, frontmatter_problem="").count() == 1
    assert files(library) == files(Path(site.SAMPLE_KNOWLEDGE_BASE))
