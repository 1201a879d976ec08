"""Answers with a shape: down the ladder, read, checked field by field, repaired once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from clients import llm as llm_module
from clients.interfaces import ClientError, LLMMessage
from clients.llm import NoLLM, OpenAILLM
from clients.structured import Checked, Shape, StructuredAnswer, ask_structured
from tests.clients import llm_personas as personas
from tests.clients.llm_server import LLMServer, Reply, as_asked, chunks_of, completion, llm_server, streamed

__all__ = ["llm_server"]

QUESTION = [LLMMessage("system", "# Frontmatter\nDescribe it."), LLMMessage("user", "支付网关")]
SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["title", "tags"],
    "additionalProperties": False,
}
GOOD = {"title": "Gateway", "tags": ["pay"]}


def check(found: Mapping[str, Any]) -> Checked:
    values, problems = {}, []
    if isinstance(found.get("title"), str) and found["title"]:
        values["title"] = found["title"]
    else:
        problems.append("title must be a text that is not empty.")
    if isinstance(found.get("tags"), list):
        values["tags"] = found["tags"]
    else:
        problems.append("tags must be a list.")
    return Checked(values, tuple(problems))


SHAPE = Shape("frontmatter", SCHEMA, check)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_module, "FIRST_WAIT", 0.01)


@pytest.fixture
def llm(llm_server: LLMServer) -> Iterator[OpenAILLM]:
    with closing(OpenAILLM("test-model", llm_server.base_url, "key", timeout=20)) as made:
        yield made


def ask(llm: OpenAILLM, **more: Any) -> StructuredAnswer:
    return ask_structured(llm, QUESTION, SHAPE, **more)


def failure(llm: OpenAILLM, **more: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        ask(llm, **more)
    assert "\n" not in str(caught.value)
    return caught.value


def formats(server: LLMServer) -> list[str | None]:
    return [request.body.get("response_format", {}).get("type") for request in server.requests]


def test_a_schema_goes_along_and_the_answer_comes_back_checked(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say(json.dumps(GOOD))
    answer = ask(llm, max_tokens=77)
    assert answer == StructuredAnswer(GOOD, (), "served-model", {"prompt": 12, "completion": 5}, False)
    sent = llm_server.requests[0].body
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "frontmatter", "strict": True, "schema": SCHEMA},
    }
    assert [message["content"] for message in sent["messages"]] == ["# Frontmatter\nDescribe it.", "支付网关"]
    assert (sent["max_tokens"], sent["temperature"]) == (77, 0.0)


@pytest.mark.parametrize(
    ("persona", "first", "then"),
    [
        (personas.deepseek, ["json_schema", "json_object"], "json_object"),
        (personas.text_only, ["json_schema", "json_object", None], None),
        (personas.openai_reasoning, ["json_schema"] * 3, "json_schema"),
        (personas.no_streaming, ["json_schema"] * 2, "json_schema"),
    ],
)
def test_the_ladder_is_climbed_down_once_and_the_step_remembered(
    llm_server: LLMServer,
    llm: OpenAILLM,
    persona: Callable[[str], personas.Answer],
    first: list[str | None],
    then: str | None,
) -> None:
    llm_server.reply(persona(json.dumps(GOOD)))
    answer = ask(llm)
    assert (answer.values, answer.repaired) == (GOOD, False)
    assert formats(llm_server) == first
    llm_server.requests.clear()
    assert ask(llm).values == GOOD
    assert formats(llm_server) == [then]


def test_without_a_schema_beside_it_the_prompt_has_the_schema_and_the_word(
    llm_server: LLMServer, llm: OpenAILLM
) -> None:
    llm_server.say(json.dumps(GOOD))
    for step in ("json_object", "text"):
        llm.remember_format(step)
        ask(llm)
        system, user = llm_server.requests[-1].body["messages"]
        assert system["content"].startswith("# Frontmatter\nDescribe it.\n\n")
        assert "JSON" in system["content"]
        assert json.dumps(SCHEMA, separators=(",", ":")) in system["content"]
        assert user == {"role": "user", "content": "支付网关"}
    ask_structured(llm, [LLMMessage("system", "# First"), *QUESTION], SHAPE)
    first, second, _ = llm_server.requests[-1].body["messages"]
    assert (first["content"], "JSON" in second["content"]) == ("# First", True)
    ask_structured(llm, QUESTION[1:], SHAPE)
    assert [message["role"] for message in llm_server.requests[-1].body["messages"]] == ["system", "user"]


def test_a_step_is_not_remembered_where_the_lower_one_fails_too(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.reply(personas.refusal("unsupported request"))
    error = failure(llm)
    assert error.code == "llm_error"
    assert formats(llm_server) == ["json_schema", "json_object", None]
    assert llm.answer_format() == "json_schema"


@pytest.mark.parametrize(
    "bad",
    [
        "I would rather not.",
        '{"title": "Gate',
        '{"title": "", "tags": "pay"}',
        '{"title": "Gateway", "title": "Gateway", "tags": []}',
        "[" * 3_000,
        '{"title": "x", "tags": [' + "9" * 199_990,
        "网关：支付",
    ],
    ids=["prose", "cut", "wrong types", "a key twice", "nested", "huge", "another language"],
)
def test_a_bad_answer_is_repaired_once(llm_server: LLMServer, llm: OpenAILLM, bad: str) -> None:
    llm_server.say(bad, json.dumps(GOOD))
    answer = ask(llm)
    assert (answer.values, answer.problems, answer.repaired) == (GOOD, (), True)
    assert dict(answer.usage) == {"prompt": 24, "completion": 10}
    asked = llm_server.requests[1].body["messages"]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "user"]
    assert bad.startswith(asked[2]["content"])
    assert json.dumps(SCHEMA, separators=(",", ":")) in asked[3]["content"]
    assert sum(len(message["content"]) for message in asked) < 8_000


def test_the_repair_is_told_what_is_wrong(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say('{"title": "", "tags": 1}', json.dumps(GOOD))
    ask(llm)
    told = llm_server.requests[1].body["messages"][3]["content"]
    assert "- title must be a text that is not empty.\n- tags must be a list.\n" in told


def test_what_does_not_hold_after_the_repair_is_named_beside_what_does(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say('{"title": "Gateway", "tags": 1}')
    answer = ask(llm)
    assert (answer.values, answer.problems) == ({"title": "Gateway"}, ("tags must be a list.",))
    assert len(llm_server.requests) == 2


def test_a_repair_that_makes_it_worse_is_not_taken(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say('{"title": "Gateway", "tags": 1}', "Sorry.")
    answer = ask(llm)
    assert (answer.values, answer.problems, answer.repaired) == ({"title": "Gateway"}, ("tags must be a list.",), True)
    assert dict(answer.usage) == {"prompt": 24, "completion": 10}


def test_a_repair_that_cannot_be_asked_for_leaves_what_holds(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say('{"title": "Gateway", "tags": 1}')
    llm_server.json({"error": {"message": "slow down"}}, 429)
    answer = ask(llm)
    assert (answer.values, answer.repaired) == ({"title": "Gateway"}, False)
    llm_server.requests.clear()
    llm_server.say("Sorry.")
    llm_server.json({"error": {"message": "slow down"}}, 429)
    assert failure(llm).code == "llm_rate_limited"


@pytest.mark.parametrize("bad", ["Sorry.", '{"title": "", "tags": 1}', "{}", '{"title": "Gateway"'])
def test_an_answer_of_which_nothing_holds_is_an_error_in_words(llm_server: LLMServer, llm: OpenAILLM, bad: str) -> None:
    llm_server.say(bad)
    error = failure(llm)
    assert (error.code, error.retryable) == ("llm_bad_answer", True)
    assert any(said in str(error) for said in ("no JSON object", "title must be", "before its JSON object is closed"))
    assert len(llm_server.requests) == 2
    assert llm.health().status == "ok"


def test_an_answer_that_was_cut_says_so_and_is_given_more_room(llm_server: LLMServer, llm: OpenAILLM) -> None:
    cut = completion('{"title": "Gatew')
    cut["choices"][0]["finish_reason"] = "length"
    llm_server.json(cut)
    error = failure(llm, max_tokens=40)
    assert error.code == "llm_bad_answer"
    assert "cut off at its limit of 80 tokens" in str(error)
    assert "limit of tokens" in error.hint
    assert [request.body["max_tokens"] for request in llm_server.requests] == [40, 80]


def test_a_check_bears_what_the_schema_would_not(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say(json.dumps({**GOOD, "more": {"deep": [1]}}))
    assert ask(llm).values == GOOD


def test_an_empty_answer_is_asked_for_once_more(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say("", json.dumps(GOOD))
    answer = ask(llm, max_tokens=40)
    assert (answer.values, answer.repaired) == (GOOD, True)
    assert [request.body["max_tokens"] for request in llm_server.requests] == [40, 80]
    llm_server.say("", "Sorry.")
    assert failure(llm).code == "llm_bad_answer"
    llm_server.say("")
    llm_server.requests.clear()
    assert failure(llm).code == "llm_empty"
    assert len(llm_server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (as_asked(completion(None, refusal="I can't.")), "llm_empty"),
        (as_asked({"error": {"message": "bad key"}}, 401), "llm_refused_key"),
        (streamed(*chunks_of(completion(json.dumps(GOOD)))[:4], done=False), "llm_error"),
        (Reply(b"<html>"), "llm_error"),
    ],
)
def test_what_is_no_answer_at_all_is_told_as_the_client_tells_it(
    llm_server: LLMServer, llm: OpenAILLM, reply: Any, code: str
) -> None:
    llm_server.reply(reply)
    assert failure(llm).code == code
    assert len(llm_server.requests) == 1


def test_thoughts_before_the_object_are_not_searched(llm_server: LLMServer, llm: OpenAILLM) -> None:
    llm_server.say(f'<think>Perhaps {{"title": "Draft", "tags": []}}?</think>{json.dumps(GOOD)}')
    assert ask(llm).values == GOOD


def test_a_site_without_a_model_says_so() -> None:
    with pytest.raises(ClientError) as caught:
        ask_structured(NoLLM(), QUESTION, SHAPE)
    assert caught.value.code == "llm_not_configured"
