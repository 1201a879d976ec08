"""``call_tool`` on real documents: what a model sees, whose memory it is, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError

from agents.tools import LOOKUP_TOOL, ToolContext, ToolReply, call_tool, retrieval_settings
from clients.registry import get_session_memory
from documents.models import ToolInvocation
from documents.services import delete_document
from retrieval.action_memory import MemoryScope, RetrievedDocTracker
from tests.documents.library import indexed, text, upload

pytestmark = pytest.mark.django_db
CODE = "ERR_TIMEOUT"


def ask(query: object = CODE, *, principal: str = "user:1", **more: Any) -> ToolReply:
    arguments = {"query": query} | more.pop("arguments", {})
    return call_tool(LOOKUP_TOOL, arguments, ToolContext(principal=principal, channel="api", **more))


def row_of(reply: ToolReply) -> ToolInvocation:
    assert reply.invocation_id is not None
    return ToolInvocation.objects.get(pk=reply.invocation_id)


def test_a_document_is_found_by_its_keyword_before_its_vectors_are_made() -> None:
    upload(text(CODE))
    reply = ask()
    assert reply.error_code == ""
    assert reply.content["relevanceLevel"] == "PRECISE"
    assert reply.content["primary"]["source"] == "knowledge_base/payment/timeouts.md"
    assert reply.content["primary"]["content"].startswith("# Time-outs")
    assert reply.outcome is not None
    assert reply.content == reply.outcome.result.as_dict()


def test_a_document_is_found_by_its_words_when_it_is_indexed() -> None:
    indexed(text("unrelated-keyword"))
    reply = ask("the gateway gives up after thirty seconds")
    assert reply.content["found"] is True
    assert reply.content["primary"] is None
    assert reply.content["supplement"]["source"] == "knowledge_base/payment/timeouts.md"
    assert reply.content["relevanceLevel"] in {"HIGHLY_RELEVANT", "REFERENCE"}


def test_the_levels_are_plain_strings() -> None:
    upload(text(CODE))
    assert type(ask().content["relevanceLevel"]) is str


def test_a_deleted_document_is_found_neither_way() -> None:
    document = indexed(text(CODE))
    delete_document(document_id=document.pk, user=None)
    assert ask().content["found"] is False
    assert ask("the gateway gives up after thirty seconds").content["found"] is False


def test_an_edited_document_is_served_again_in_the_same_session() -> None:
    upload(text(CODE))
    assert ask(scope="s").content["relevanceLevel"] == "PRECISE"
    assert ask(scope="s").content["relevanceLevel"] == "DEDUPED"
    upload(text(CODE, body="# Time-outs\n\nNow after forty seconds.\n"))
    again = ask(scope="s").content
    assert again["relevanceLevel"] == "PRECISE"
    assert "forty" in again["primary"]["content"]


def test_a_section_is_served_by_its_title() -> None:
    upload(text(CODE, body="# Time-outs\n\n" + "word " * 600 + "\n\n## What to do\n\nAsk the bank.\n"))
    assert ask().content["primary"]["availableSections"] == ["Time-outs", "What to do"]
    reply = ask(arguments={"section_title": "what to do"})
    assert reply.content["primary"]["content"] == "## What to do\n\nAsk the bank."


def test_two_principals_never_meet_and_clearing_is_for_one_of_them() -> None:
    upload(text(CODE))
    assert ask(scope="s", principal="user:1").content["relevanceLevel"] == "PRECISE"
    assert ask(scope="s", principal="user:2").content["relevanceLevel"] == "PRECISE"
    RetrievedDocTracker(get_session_memory()).clear_session(MemoryScope("user:1", "s").key)
    assert ask(scope="s", principal="user:1").content["relevanceLevel"] == "PRECISE"
    assert ask(scope="s", principal="user:2").content["relevanceLevel"] == "DEDUPED"


def test_the_budget_of_a_run_is_kept() -> None:
    upload(text(CODE))
    reasons = [(ask(scope="run", budget=2).outcome or pytest.fail("no outcome")).dedup_reason for _ in range(3)]
    assert reasons == [None, "doc_retrieved", "budget_exhausted"]


@pytest.mark.parametrize(("language", "words"), [("en", "nothing on this"), ("zh", "没有与此相关"), (None, "没有")])
def test_the_message_is_in_the_language_asked_for_or_that_of_the_site(language: str | None, words: str) -> None:
    assert words in ask("no such thing", language=language).content["message"]


def test_the_settings_reach_the_lookup(settings: Any) -> None:
    settings.RETRIEVAL_REFERENCE_THRESHOLD = 0.0
    settings.RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD = 1.0
    settings.RETRIEVAL_MAX_L2_DISTANCE = 3.0
    settings.RETRIEVAL_DOMAIN_LIMIT = "hard"
    settings.LOOKUP_LANGUAGE = "en"
    made = retrieval_settings()
    assert (made.reference_threshold, made.highly_relevant_threshold) == (0.0, 1.0)
    assert (made.max_l2_distance, made.domain_limit, made.text_limit) == (3.0, "hard", 2000)
    assert "nothing on this" in ask("no such thing").content["message"]


# ---- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query", ["", "   ", "\n\t", "a" * 2001, "a" * 100_000, "a\x00b", "\ud800", 5, None, ["a"], {"a": 1}, True]
)
def test_a_query_that_cannot_be_asked_is_a_tool_error_and_recorded(query: object) -> None:
    reply = ask(query)
    assert reply.error_code == "invalid_arguments"
    assert reply.outcome is None
    assert list(reply.content) == ["error"]
    assert reply.content["error"]["code"] == "invalid_arguments"
    row = row_of(reply)
    assert row.tool_name == LOOKUP_TOOL
    assert row.error.startswith("invalid_arguments: ")
    assert row.found is None
    assert len(row.query) <= 2000
    assert "\x00" not in row.query


@pytest.mark.parametrize("query", ["a" * 2000, "😀", "%", "a\nb", "(a+)+$", "' OR 1=1 --", "ⓔⓡⓡ", "\u202e"])
def test_an_odd_query_is_a_query(query: str) -> None:
    assert ask(query).error_code == ""


@pytest.mark.parametrize("title", ["x" * 501, "a\x00", "\udfff", 5])
def test_a_section_title_that_cannot_be_one_is_a_tool_error(title: object) -> None:
    assert ask(arguments={"section_title": title}).error_code == "invalid_arguments"


def test_an_unknown_tool_is_a_tool_error_and_recorded() -> None:
    reply = call_tool("search_the_web", {"query": "a"}, ToolContext(principal="user:1", channel="chat", run_id="r-1"))
    assert reply.error_code == "unknown_tool"
    row = row_of(reply)
    assert (row.tool_name, row.run_id, row.query) == ("search_the_web", "r-1", "a")
    assert row.error.startswith("unknown_tool: ")


@pytest.mark.parametrize("arguments", ["{broken", None, [1, 2], 7])
def test_arguments_that_are_no_object_are_a_tool_error_and_recorded(arguments: object) -> None:
    reply = call_tool(LOOKUP_TOOL, arguments, ToolContext(principal="user:1", channel="chat"))
    assert reply.error_code == "invalid_arguments"
    assert row_of(reply).error.startswith("invalid_arguments")


def test_a_session_id_that_cannot_be_one_is_a_tool_error() -> None:
    reply = ask(scope='s" or session_id != "')
    assert reply.error_code == "invalid_session"
    assert row_of(reply).error.startswith("invalid_session")


def test_a_fault_that_asking_again_cannot_mend_is_recorded_and_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise DatabaseError("no such table: api_document")

    monkeypatch.setattr("agents.tools.look_up", fail)
    with pytest.raises(DatabaseError):
        ask()
    row = ToolInvocation.objects.get()
    assert row.error == "DatabaseError: no such table: api_document"
    assert row.query == CODE
