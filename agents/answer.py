"""One question: look it up, then answer from what was found, with a model or without one (AG-8).

The agents (Supervisor, Planner, Executor) take this file's place behind the same function, :func:`answer_from_lookups`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connections
from django.utils import translation
from django.utils.translation import gettext

from agents.citations import Passage, clean_citations, escape_citations, sentences_citing
from agents.fence import fence_passages
from agents.recording import MAX_QUERY
from agents.tools import LOOKUP_TOOL, ToolContext, call_tool
from clients.interfaces import ClientError, Completion, LLMMessage
from clients.prompt_fence import new_nonce
from clients.registry import get_llm
from retrieval.lookup_types import LookupOutcome, ServedDocument

GAPS = {"zh": "知识库里没有查到：", "en": "Not in the knowledge base:"}
_LANGUAGES = {"zh": "Simplified Chinese", "en": "English"}
_PROMPT = (Path(__file__).parent / "prompts" / "answer.md").read_text(encoding="utf-8")
_MARKDOWN_SIGNS = re.compile(r"([\\`*_\[\]<>#|~])")


@dataclass(frozen=True)
class Answer:
    """What came of one question. ``model`` is "" where none wrote it; ``error_code`` is the model's failure."""

    text: str
    citations: list[dict[str, Any]]
    lookups: list[dict[str, Any]]
    model: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    error_code: str = ""
    error: str = ""


def language_of(question: str) -> str:
    """``zh`` or ``en``: that of the question; a bare code says nothing, there the reader's language counts."""
    if re.search(r"[\u3400-\u9fff]", question):
        return "zh"
    if len(re.findall(r"\b[a-z]{2,}\b", question)) >= 2:
        return "en"
    return "zh" if (translation.get_language() or "").startswith("zh") else "en"


def answer_from_lookups(*, question: str, context: ToolContext, history: Sequence[LLMMessage] = ()) -> Answer:
    """Look the question up and answer it from the passages.

    A model that fails raises nothing: the passages found are the answer then, ``error_code`` says what happened.
    """
    passages, lookups = _look_up(question, context)
    if not passages:
        return Answer(text=_nothing_found(question, lookups), citations=[], lookups=lookups)
    llm = get_llm()
    if not llm.configured:
        return _extractive(question, passages, lookups)
    messages = _prompt(question, passages, history)
    _let_go_of_the_database()
    try:
        completion = llm.complete(messages)
    except ClientError as failure:  # AG-7: what was found is shown, with what happened
        found = _extractive(question, passages, lookups)
        return Answer(
            text=found.text,
            citations=found.citations,
            lookups=lookups,
            model=llm.model,
            error_code=failure.code,
            error=str(failure),
        )
    return _written(question, passages, lookups, completion)


def _look_up(question: str, context: ToolContext) -> tuple[list[Passage], list[dict[str, Any]]]:
    query = shortened(question)
    reply = call_tool(LOOKUP_TOOL, {"query": query}, context)
    if reply.error_code:  # the query is ours: this is no answer of the knowledge base
        raise RuntimeError(f"The lookup was refused: {reply.error}")
    content, outcome = reply.content, reply.outcome
    passages = _passages(content, outcome)
    return passages, [_lookup_entry(query, content, outcome, passages)]


def shortened(question: str) -> str:
    """The question as a query: what asks mostly stands at the beginning or at the end of a long one."""
    query = question.strip()
    half = MAX_QUERY // 2
    return query if len(query) <= MAX_QUERY else f"{query[:half]}\n{query[1 - half :]}"


def _passages(content: Mapping[str, Any], outcome: LookupOutcome | None) -> list[Passage]:
    served = {document.role: document for document in (outcome.served if outcome else ())}
    passages: list[Passage] = []
    for role in ("primary", "supplement"):
        given = content.get(role)
        if given:
            passages.append(_passage(len(passages) + 1, given, served.get(role), content.get("relevanceLevel")))
    return passages


def _passage(number: int, given: Mapping[str, Any], served: ServedDocument | None, level: str | None) -> Passage:
    source = str(given["source"])
    return Passage(
        number=number,
        source=source,
        title=(served.title if served else "") or Path(source).stem,
        section=served.section if served else "",
        content=str(given["content"]),
        level=level,
    )


def _lookup_entry(
    query: str, content: Mapping[str, Any], outcome: LookupOutcome | None, passages: Sequence[Passage]
) -> dict[str, Any]:
    """As in API.md, and for the page's trace: what it was found by. Never a score."""
    keywords = outcome.details.get("l0_matched_keywords", ()) if outcome else ()
    return {
        "query": query,
        "found": bool(content.get("found")),
        "relevanceLevel": content.get("relevanceLevel"),
        "dedup_reason": outcome.dedup_reason if outcome else None,
        "sources": [passage.source for passage in passages],
        "titles": [passage.title for passage in passages],
        "keywords": _flat(keywords)[:6],
        "matches": outcome.l0_match_count if outcome else 0,
        "degraded": outcome.degraded if outcome else "",
    }


def _flat(keywords: Any) -> list[str]:
    """Keywords, each once: a list of words, or one list of words a document."""
    if isinstance(keywords, str):
        return [keywords]
    return list(dict.fromkeys(word for each in keywords for word in _flat(each)))


# ---- Without a model -------------------------------------------------------------------------------------------------
def _extractive(question: str, passages: Sequence[Passage], lookups: list[dict[str, Any]]) -> Answer:
    citations = [passage.citation(question) for passage in passages]
    return Answer(
        text="\n\n".join(_quoted(passage, question) for passage in passages), citations=citations, lookups=lookups
    )


def _quoted(passage: Passage, question: str) -> str:
    """Title, section and citation in one line, below it the part of the passage that is nearest to the question."""
    excerpt, found_in = passage.nearest(question)
    lines = _without_own_title(excerpt, passage.title).splitlines()
    quote = "\n".join(f"> {line}".rstrip() for line in escape_citations("\n".join(lines)).splitlines())
    section = f" · {_plain(found_in)}" if found_in and found_in != passage.title else ""
    return f"**{_plain(passage.title)}**{section} [{passage.number}]\n\n{quote}"


def _without_own_title(text: str, title: str) -> str:
    first, _newline, rest = text.partition("\n")
    return rest.lstrip("\n") if rest.strip() and first.lstrip("# ").strip() == title.strip() else text


def _plain(text: str) -> str:
    return _MARKDOWN_SIGNS.sub(r"\\\1", re.sub(r"\s+", " ", text).strip())


def _nothing_found(question: str, lookups: Sequence[Mapping[str, Any]]) -> str:
    with translation.override("zh-hans" if language_of(question) == "zh" else "en"):
        if any(lookup["degraded"] for lookup in lookups):
            return gettext("Nothing was found by keyword.")
        return gettext("Nothing on this in the knowledge base. Reword it, or ask for a document.")


# ---- With one --------------------------------------------------------------------------------------------------------
def _prompt(question: str, passages: Sequence[Passage], history: Sequence[LLMMessage]) -> list[LLMMessage]:
    nonce, language = new_nonce(), language_of(question)
    rules = _PROMPT.format(language=_LANGUAGES[language], gap=GAPS[language], nonce=nonce)
    asked = f"Question:\n{question}\n\nPassages:\n\n{fence_passages(passages, nonce=nonce)}"
    return [LLMMessage("system", rules), *history, LLMMessage("user", asked)]


def _written(
    question: str, passages: Sequence[Passage], lookups: list[dict[str, Any]], completion: Completion
) -> Answer:
    text, used = clean_citations(completion.text.strip(), {passage.number for passage in passages})
    # An answer that cites nothing was still made from these passages: all of them are named.
    cited = [passage for passage in passages if passage.number in used] or list(passages)
    return Answer(
        text=text,
        citations=[passage.citation(f"{sentences_citing(text, passage.number)}\n{question}") for passage in cited],
        lookups=lookups,
        model=completion.model or get_llm().model,
        usage=dict(completion.usage),
    )


def _let_go_of_the_database() -> None:
    """A model may think for a minute: no connection is held meanwhile (inside a transaction, as in tests, it is)."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
