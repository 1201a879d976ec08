"""What a person is told beside an answer: no model, one that failed, a search that was down. Derived, not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from agents.models import Message, Run

NO_MODEL = "llm_not_configured"
SEARCH_DOWN = "search_unavailable"
# Failures of the model whose remedy is known; anything else says what stands for all.
_UNREACHABLE = {"llm_unreachable", "client_timeout", "llm_timeout"}


@dataclass(frozen=True)
class Notice:
    """``tone`` as in the style sheet, ``code`` stable, ``text`` one or two sentences in the language in force."""

    tone: str
    code: str
    text: str


def notice_of(run: Run, answer: Message) -> Notice | None:
    """The one notice of a turn, the gravest first."""
    if run.error_code:
        return Notice("red", run.error_code, _model_failure(run.error_code))
    if any("vector_store" in each or "embedder" in each for each in _degraded(answer.lookups)):
        return Notice("ochre", SEARCH_DOWN, _search_down(bool(answer.citations)))
    if not run.model and answer.citations:
        return Notice("ochre", NO_MODEL, _no_model())
    return None


def whole_answer(run: Run, answer: Message) -> str:
    """The answer as one text, notice first: for doors that show text only."""
    notice = notice_of(run, answer)
    return f"{notice.text}\n\n{answer.text}" if notice else answer.text


def _degraded(lookups: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(lookup.get("degraded") or "") for lookup in lookups]


def _no_model() -> str:
    return gettext(
        "No model is set up: the passages found are listed. For a written answer, set OPENAI_BASE_URL, OPENAI_API_KEY "
        "and OPENAI_MODEL and start the site again."
    )


def _search_down(served: bool) -> str:
    if served:
        return gettext("Search by meaning is down for now; this was found by keyword. Ask again later for the rest.")
    return gettext(
        "Search by meaning is down for now, and no keyword matched. That does not mean that there is nothing: ask "
        "again later."
    )


def _model_failure(code: str) -> str:
    if code in _UNREACHABLE:
        return gettext("The model did not answer. The passages found are below; answer again later.")
    if code == "llm_rate_limited":
        return gettext("The model is busy. The passages found are below; answer again in a minute.")
    if code == "llm_refused_key":
        return gettext(
            "The model refused the key of this site. The passages found are below; whoever runs the site should check "
            "OPENAI_API_KEY."
        )
    if code == "llm_empty":
        return gettext("The model gave an empty answer. The passages found are below; answer again, or reword.")
    return gettext(
        "The model failed. The passages found are below; answer again later. If it stays, whoever runs the site should "
        "check OPENAI_BASE_URL and OPENAI_MODEL."
    )
