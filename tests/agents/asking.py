"""What the tests of the chat share: documents to ask about, a model to answer, people who ask."""

from __future__ import annotations

from typing import Any

from agents.chat import ChatAnswer, answer_question
from clients.registry import reset_clients
from documents.access import principal_of_user
from tests.clients.llm_server import LLMServer
from tests.documents.library import indexed, text

GATEWAY = """# Gateway errors

Which error means what, and what to do about it.

## ERR_TIMEOUT

The channel did not answer within 8 seconds. Query the order first, never refund at once. The vendor calls this [1].

## ERR_SIGNATURE

The signature of the callback was wrong: compare the key.
"""


def gateway_document() -> Any:
    """One document, found by the keyword ERR_TIMEOUT alone."""
    return indexed(text("ERR_TIMEOUT", GATEWAY, "Gateway errors"), "gateway-errors.md")


def ask(question: object, user: Any, **more: Any) -> ChatAnswer:
    """Ask as this person."""
    return answer_question(message=question, principal=principal_of_user(user), **more)


def use_model(settings: Any, server: LLMServer) -> None:
    """From here on the site has a language model."""
    options = {"model": "test-model", "base_url": server.base_url, "api_key": "test-key"}
    set_llm(settings, "clients.llm.OpenAILLM", options)


def set_llm(settings: Any, backend: str, options: dict[str, Any]) -> None:
    """Another language model; the vector store is emptied with it, so call this before documents are made."""
    settings.CLIENTS = {**settings.CLIENTS, "llm": {"BACKEND": backend, "OPTIONS": options}}
    reset_clients()
