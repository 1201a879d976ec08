"""Rows of ``tool_invocation`` and ``tool_invocation_document`` (LK-3, LK-4)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError

from agents.tools import LOOKUP_TOOL, ToolContext, ToolReply, call_tool
from clients.interfaces import ClientError
from clients.registry import get_session_memory, get_vector_store
from documents.models import ToolInvocation, ToolInvocationDocument
from documents.services import delete_document
from tests.documents.library import indexed, text, upload

pytestmark = pytest.mark.django_db
SHARED = "shared-term"


def ask(query: str, **more: Any) -> ToolReply:
    arguments = {"query": query} | more.pop("arguments", {})
    context = ToolContext(principal="user:7", channel="chat", run_id="run-1", session_id="chat-1", model="m", **more)
    return call_tool(LOOKUP_TOOL, arguments, context)


def row_of(reply: ToolReply) -> ToolInvocation:
    assert reply.invocation_id is not None
    return ToolInvocation.objects.get(pk=reply.invocation_id)


def two_documents() -> tuple[Any, Any]:
    first = indexed(text(SHARED, title="First"), "first.md", "payment")
    second = indexed(text(SHARED, body="# Second\n\nOther words entirely.\n", title="Second"), "second.md", "api")
    return first, second


def test_a_call_is_one_row_with_who_when_and_what() -> None:
    document = upload(text("ERR_1")).document
    reply = ask("ERR_1", scope="run-1")
    row = row_of(reply)
    assert ToolInvocation.objects.count() == 1
    assert (row.run_id, row.session_id, row.principal) == ("run-1", "chat-1", "user:7")
    assert (row.channel, row.model, row.tool_name) == ("chat", "m", LOOKUP_TOOL)
    assert row.arguments == {"query": "ERR_1"}
    assert row.query == "ERR_1"
    assert row.found is True
    assert row.relevance_level == "PRECISE"
    assert row.dedup_reason is None
    assert (row.domain, row.document_id) == ("payment", document.pk)
    assert row.document_path == "knowledge_base/payment/timeouts.md"
    assert row.l0_match_count == 1
    assert row.l1_top_similarity is None
    assert row.error == ""
    assert row.degraded == ""


def test_the_stages_that_ran_have_durations_and_the_others_have_none() -> None:
    two_documents()
    unique = row_of(ask("nothing of the kind, only words"))
    assert unique.duration_ms >= (unique.l0_ms or 0) + (unique.embed_ms or 0) + (unique.l1_ms or 0)
    assert unique.embed_ms is not None
    assert unique.l1_ms is not None
    assert unique.memory_ms is None, "no scope, no memory"
    assert row_of(ask(SHARED, scope="s")).memory_ms is not None


def test_the_details_hold_every_agreed_key() -> None:
    two_documents()
    row = row_of(ask(SHARED, scope="s"))
    details = row.retrieval_details or {}
    assert set(details) == {
        "l0_match_count",
        "l0_titles",
        "l0_matched_keywords",
        "l1_match_count",
        "l1_scores",
        "l1_top_score",
        "l1_top_similarity",
        "metric",
        "embedder",
        "relevance_level",
        "completeness_hint",
        "retrieved_domains",
        "dedup_reason",
    }
    assert details["l0_titles"] == ["First", "Second"]
    assert details["embedder"] == "hashing"
    assert details["relevance_level"] == row.relevance_level
    assert details["l1_top_similarity"] == row.l1_top_similarity


def test_each_document_served_is_a_row_that_outlives_the_document() -> None:
    first, _second = two_documents()
    served = row_of(ask(SHARED)).documents
    primary = served.get(role="primary")
    assert (primary.document_id, primary.file_path) == (first.pk, "knowledge_base/payment/first.md")
    assert (primary.domain, primary.match_type, primary.section) == ("payment", "exact_L0", "")
    delete_document(document_id=first.pk, user=None)
    assert ToolInvocationDocument.objects.filter(pk=primary.pk).exists()


def test_a_section_served_is_named() -> None:
    indexed(text("ERR_1"))
    reply = ask("ERR_1", arguments={"section_title": "what to do"})
    assert row_of(reply).documents.get().section == "What to do"
    assert row_of(reply).arguments == {"query": "ERR_1", "section_title": "what to do"}


def test_a_deduped_call_still_names_domain_and_document_of_its_best_hit() -> None:
    document = upload(text("ERR_1")).document
    ask("ERR_1", scope="s")
    row = row_of(ask("ERR_1", scope="s"))
    assert (row.relevance_level, row.dedup_reason) == ("DEDUPED", "doc_retrieved")
    assert (row.domain, row.document_id) == ("payment", document.pk)
    assert row.documents.count() == 0


def test_a_miss_has_no_level_and_no_document() -> None:
    row = row_of(ask("ERR_404"))
    assert row.found is False
    assert row.relevance_level is None
    assert row.dedup_reason is None
    assert (row.domain, row.document_id, row.document_path) == ("", None, "")


def test_the_outline_says_what_was_answered_and_holds_no_text_of_a_document() -> None:
    indexed(text("ERR_1"))
    outline = row_of(ask("ERR_1")).outline
    assert outline["case"] == "served"
    assert outline["found"] is True
    assert outline["primary"]["source"] == "knowledge_base/payment/timeouts.md"
    assert outline["primary"]["characters"] > 10
    assert outline["supplement"] is None
    assert "thirty seconds" not in str(outline)


def test_what_was_degraded_and_why_is_in_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: Any, **__: Any) -> Any:
        raise ClientError("the store is down", code="store_unavailable")

    monkeypatch.setattr(get_vector_store(), "search", down)
    monkeypatch.setattr(get_session_memory(), "marked", down)
    upload(text("ERR_1"))
    row = row_of(ask("ERR_1", scope="s"))
    assert row.degraded == "memory"
    row = row_of(ask("only words"))
    assert row.degraded == "vector_store"
    assert row.error == "store_unavailable: the store is down"
    assert row.found is False


def test_a_long_query_is_stored_up_to_its_bound() -> None:
    row = row_of(ask("a" * 5000))
    assert row.query == "a" * 2000
    assert row.arguments == {"query": "a" * 2000}


def test_what_no_database_can_hold_is_replaced_before_it_is_stored() -> None:
    reply = call_tool(
        "no\x00tool",
        {"query": "a\x00\ud800b", "\ud800": ["x"] * 9999},
        ToolContext(principal="user:1", channel="chat", run_id="r" * 500, model="m" * 500),
    )
    row = row_of(reply)
    assert row.query == "a\ufffd?b"
    assert row.tool_name == "no\ufffdtool"
    assert (len(row.run_id), len(row.model)) == (64, 128)
    assert len(str(row.arguments)) < 5000


def test_recording_that_fails_never_breaks_a_lookup(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    upload(text("ERR_1"))

    def fail(*_: Any, **__: Any) -> Any:
        raise DatabaseError("database is locked")

    monkeypatch.setattr(ToolInvocation, "save", fail)
    reply = ask("ERR_1")
    assert reply.content["relevanceLevel"] == "PRECISE"
    assert reply.invocation_id is None
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "was not recorded" in errors[0].getMessage()


def test_a_row_without_its_documents_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    upload(text("ERR_1"))

    def fail(*_: Any, **__: Any) -> Any:
        raise DatabaseError("disk full")

    monkeypatch.setattr(ToolInvocationDocument.objects, "bulk_create", fail)
    assert ask("ERR_1").invocation_id is None
    assert not ToolInvocation.objects.exists()
