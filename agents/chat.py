"""The conversation: a question is kept before the work begins, its answer with citations and lookups after it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from django.conf import settings
from django.db import transaction
from django.utils import timezone, translation
from django.utils.translation import gettext

from agents.answer import Answer, answer_from_lookups, language_of
from agents.citations import without_citations
from agents.history import SessionNotFoundError, own_session
from agents.models import ChatSession, Message, Run
from agents.notices import whole_answer
from agents.tools import ToolContext
from clients.interfaces import LLMMessage
from clients.registry import get_llm
from documents.access import Principal

log = logging.getLogger(__name__)

MAX_MESSAGE = 8000
MAX_SESSION_TITLE = 80
HISTORY_TURNS = 6
HISTORY_CHARS = 4000
Channel = Literal["chat", "api", "openai", "cli", "demo"]


class QuestionRefusedError(Exception):
    """The message cannot be asked. ``code`` is stable and untranslated, the text says what to do."""

    def __init__(self, detail: str, *, code: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True)
class ChatAnswer:
    """One finished run, as stored. Rows are kept for pages; :meth:`as_dict` is API.md's ``/chat/`` answer."""

    run: Run
    message: Message

    def as_dict(self) -> dict[str, Any]:
        return {
            "session_id": str(self.run.session_id),
            "run_id": str(self.run.pk),
            "message_id": str(self.message.pk),
            "answer": whole_text(self.run, self.message),
            "citations": public_citations(self.message),
            "lookups": public_lookups(self.message),
            "status": str(self.run.status),
        }


def check_question(message: object) -> str:
    """The question, trimmed; :class:`QuestionRefusedError` for what is empty, too long or no text."""
    if not isinstance(message, str):
        raise QuestionRefusedError(gettext("The question must be text."), code="invalid_message")
    question = message.strip()
    if not question:
        raise QuestionRefusedError(gettext("The question is empty: type what you want to know."), code="empty_message")
    if "\x00" in question or any("\ud800" <= sign <= "\udfff" for sign in question):
        raise QuestionRefusedError(
            gettext("The question contains characters that are no text (NUL or half a character): take them out."),
            code="invalid_message",
        )
    if len(question) > MAX_MESSAGE:
        raise QuestionRefusedError(
            gettext("The question has %(length)s characters; at most %(most)s are read. Shorten it.")
            % {"length": len(question), "most": MAX_MESSAGE},
            code="message_too_long",
        )
    return question


def answer_question(
    *, message: object, principal: Principal, session_id: str | None = None, channel: Channel = "chat"
) -> ChatAnswer:
    """Ask one question, in a new conversation or in an own earlier one.

    Raises :class:`QuestionRefusedError`, and :class:`SessionNotFoundError` for a conversation that is not the caller's.
    """
    question = check_question(message)
    run = _begin(question=question, principal=principal, session_id=session_id, channel=channel)
    with _failed_unless_finished(run):
        answer = answer_from_lookups(
            question=question,
            context=_context(run, principal),
            history=_history(run) if get_llm().configured else (),
        )
        return _keep(run=run, answer=answer)


def whole_text(run: Run, message: Message) -> str:
    """A message as one text, in its question's language; an answer begins with what went wrong, if anything did."""
    if message.role == Message.Role.USER:
        return message.text
    with translation.override("zh-hans" if language_of(run.question) == "zh" else "en"):
        return whole_answer(run, message)


def public_citations(message: Message) -> list[dict[str, Any]]:
    """The citations with the names of API.md."""
    names = ("index", "source", "title", "section", "excerpt")
    return [{name: citation.get(name) for name in names} for citation in message.citations]


def public_lookups(message: Message) -> list[dict[str, Any]]:
    """The lookups with the names of API.md."""
    names = ("query", "found", "relevanceLevel", "dedup_reason", "sources")
    return [{name: lookup.get(name) for name in names} for lookup in message.lookups]


def _begin(*, question: str, principal: Principal, session_id: str | None, channel: Channel) -> Run:
    with transaction.atomic():
        if session_id:
            session = own_session(session_id=session_id, principal=principal.id)
            session.save(update_fields=["updated_at"])
        else:
            title = " ".join(question.split())[:MAX_SESSION_TITLE]
            session = ChatSession.objects.create(principal=principal.id, user=principal.user, title=title)
        run = Run.objects.create(session=session, question=question, channel=channel)
        Message.objects.create(session=session, run=run, role=Message.Role.USER, text=question)
    return run


def _context(run: Run, principal: Principal) -> ToolContext:
    """The run is the memory's scope: asked again on the page, a question is answered again (AM-7)."""
    return ToolContext(
        principal=principal.id,
        scope=str(run.pk),
        channel=run.channel,
        run_id=str(run.pk),
        session_id=str(run.session_id),
        model=get_llm().model,
        budget=settings.LOOKUP_BUDGET,
    )


def _history(run: Run) -> list[LLMMessage]:
    """The last turns of the conversation before this one, within 4,000 characters; their citation numbers are gone."""
    earlier = Message.objects.filter(session_id=run.session_id).exclude(run=run).order_by("-created_at", "-id")
    turns: list[LLMMessage] = []
    left = HISTORY_CHARS
    for message in earlier[: 2 * HISTORY_TURNS]:
        text = message.text if message.role == Message.Role.USER else without_citations(message.text)
        left -= len(text)
        if left < 0:
            break
        turns.append(LLMMessage("user" if message.role == Message.Role.USER else "assistant", text))
    turns.reverse()
    while turns and turns[0].role != "user":
        turns.pop(0)
    return turns


@contextmanager
def _failed_unless_finished(run: Run) -> Iterator[None]:
    """Whatever goes wrong underneath goes on to the caller, but no run stays "running" for ever."""
    finished = False
    try:
        yield
        finished = True
    finally:
        if not finished:
            Run.objects.filter(pk=run.pk, status=Run.Status.RUNNING).update(
                status=Run.Status.FAILED, error_code="internal_error", finished_at=timezone.now()
            )


def _keep(*, run: Run, answer: Answer) -> ChatAnswer:
    status = Run.Status.FAILED if answer.error_code else Run.Status.FINISHED
    with transaction.atomic():
        if not ChatSession.objects.select_for_update().filter(pk=run.session_id).exists():
            raise SessionNotFoundError  # deleted while its question was being answered
        message = Message.objects.create(
            session_id=run.session_id,
            run=run,
            role=Message.Role.ASSISTANT,
            text=answer.text,
            citations=answer.citations,
            lookups=answer.lookups,
        )
        run.status = status
        run.model = answer.model
        run.lookups = len(answer.lookups)
        run.usage = dict(answer.usage)
        run.error_code, run.error = answer.error_code, answer.error
        run.finished_at = timezone.now()
        run.save(update_fields=["status", "model", "lookups", "usage", "error_code", "error", "finished_at"])
    log.info("Run %s %s: %d lookups, %d citations", run.pk, run.status, run.lookups, len(answer.citations))
    return ChatAnswer(run=run, message=message)
