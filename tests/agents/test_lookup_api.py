"""``POST /lookup/`` and ``DELETE /sessions/{id}/memory/``: the result of SPEC section 9, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache

from documents.models import ToolInvocation
from tests.doors import make_key, program, upload, with_key

pytestmark = pytest.mark.django_db
LOOKUP = "/api/v1/lookup/"
FIELDS = [
    "found",
    "primary",
    "supplement",
    "relevanceLevel",
    "completenessHint",
    "retrievedDomainsThisSession",
    "message",
]


@pytest.fixture
def reader() -> Any:
    cache.clear()
    upload(program("write"))
    return program("read")


def test_an_exact_keyword_is_found_at_once_with_exactly_the_fields_of_a_result(reader: Any) -> None:
    answer = reader.post(LOOKUP, {"query": "what does err_timeout mean"})
    assert answer.status_code == 200
    result = answer.json()
    assert list(result) == FIELDS
    assert result["relevanceLevel"] == "PRECISE"
    assert result["primary"]["source"] == "knowledge_base/payment/payment.md"
    assert "知识库中不存在比上述结果更精准的文档".encode() in answer.content


def test_the_same_session_is_not_given_the_same_text_twice(reader: Any) -> None:
    ask = {"query": "ERR_TIMEOUT", "session_id": "s-1"}
    assert reader.post(LOOKUP, ask).json()["relevanceLevel"] == "PRECISE"
    assert reader.post(LOOKUP, ask).json()["relevanceLevel"] == "DEDUPED"
    assert reader.post(LOOKUP, {"query": "ERR_TIMEOUT"}).json()["relevanceLevel"] == "PRECISE"


def test_clearing_the_memory_serves_the_text_again(reader: Any) -> None:
    ask = {"query": "ERR_TIMEOUT", "session_id": "s-1"}
    reader.post(LOOKUP, ask)
    assert reader.delete("/api/v1/sessions/s-1/memory/").status_code == 204
    assert reader.post(LOOKUP, ask).json()["relevanceLevel"] == "PRECISE"
    assert reader.delete("/api/v1/sessions/never-seen/memory/").status_code == 204


def test_callers_who_name_the_same_session_never_meet(reader: Any) -> None:
    ask = {"query": "ERR_TIMEOUT", "session_id": "s-1"}
    reader.post(LOOKUP, ask)
    stranger = program("read")
    assert stranger.post(LOOKUP, ask).json()["relevanceLevel"] == "PRECISE"
    stranger.delete("/api/v1/sessions/s-1/memory/")
    assert reader.post(LOOKUP, ask).json()["relevanceLevel"] == "DEDUPED"


def test_two_keys_of_one_person_share_her_memory(reader: Any, alice: Any) -> None:
    ask = {"query": "ERR_TIMEOUT", "session_id": "s-1"}
    program("read", user=alice).post(LOOKUP, ask)
    assert program("read", user=alice).post(LOOKUP, ask).json()["relevanceLevel"] == "DEDUPED"


def test_a_call_is_recorded_with_caller_channel_and_session(reader: Any) -> None:
    row, text = make_key("read")
    with_key(text).post(LOOKUP, {"query": "ERR_TIMEOUT", "session_id": "s-9"})
    recorded = ToolInvocation.objects.latest("id")
    assert (recorded.principal, recorded.channel, recorded.session_id) == (f"key:{row.prefix}", "api", "s-9")
    assert recorded.query == "ERR_TIMEOUT"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "   "}, "query"),
        ({"query": None}, "query"),
        ({"query": 7}, "query"),
        ({"query": ["a"]}, "query"),
        ({"query": "a" * 2001}, "query"),
        ({"query": "a" * 100_000}, "query"),
        ({"query": "a\0b"}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"query": "a", "topK": 3}, "topK"),
        ({"query": "a", "session_id": 's" or session_id != "'}, "session_id"),
        ({"query": "a", "session_id": "x" * 129}, "session_id"),
        ({"query": "a", "session_id": "x\n"}, "session_id"),
        ({"query": "a", "session_id": ""}, "session_id"),
        ({"query": "a", "session_id": 7.5}, "session_id"),
        ({"query": "a", "section_title": 7}, "section_title"),
        ({"query": "a", "section_title": "x" * 501}, "section_title"),
    ],
)
def test_a_bad_question_is_a_400_that_names_the_field(reader: Any, body: Any, field: str) -> None:
    answer = reader.generic("POST", LOOKUP, json.dumps(body), content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["field"] == field
    assert not ToolInvocation.objects.exists()


@pytest.mark.parametrize("body", ['{"query": NaN}', "{", "", "[]", '"text"', "null", "\udcff", '{"query": Infinity}'])
def test_what_is_no_json_object_is_a_400(reader: Any, body: str) -> None:
    data = body.encode("utf-8", "surrogateescape")
    assert reader.generic("POST", LOOKUP, data, content_type="application/json").status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "😀",
        "%",
        "a\nb",
        "(a+)+$",
        "x' or 'a'=='a",
        "' OR 1=1 --",
        'api" or id != "',
        "a" * 2000,
        "\u202eabc",
        "\x1b[2J",
    ],
)
def test_an_odd_question_is_answered_with_a_result(reader: Any, query: str) -> None:
    answer = reader.post(LOOKUP, {"query": query})
    assert answer.status_code == 200
    assert list(answer.json()) == FIELDS


def test_a_bad_session_id_of_the_memory_is_a_400(reader: Any) -> None:
    assert reader.delete("/api/v1/sessions/a b/memory/").status_code == 400
    assert reader.delete(f"/api/v1/sessions/{'x' * 129}/memory/").status_code == 400


def test_lookups_beyond_the_rate_are_a_429(reader: Any, settings: Any) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"lookup": "1/min"}}
    assert reader.post(LOOKUP, {"query": "a"}).status_code == 200
    refused = reader.post(LOOKUP, {"query": "a"})
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) >= 1
