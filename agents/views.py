"""The pages of the chat. Each checks, calls one function and draws."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from agents.chat import MAX_MESSAGE, ChatAnswer, QuestionRefusedError, answer_question
from agents.history import SIDE_BAR, SessionNotFoundError, delete_session, grouped, own_session, own_sessions
from agents.sources import MAX_CHIPS, SourceNotFoundError, open_document, open_source
from agents.turns import spoken, turn_of, turns_of
from agents.welcome import banner, holdings, sample_questions
from documents.access import PrincipalThrottle, principal_of


@require_safe
def chat(request: HttpRequest) -> HttpResponse:
    """The empty page: what is here, what can be asked. ``?q=`` fills the composer."""
    return _chat_page(request, draft=request.GET.get("q", "")[:MAX_MESSAGE])


@require_safe
def conversation(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """One conversation of this person."""
    try:
        session = own_session(session_id=session_id, principal=principal_of(request).id)
    except SessionNotFoundError as unknown:
        raise Http404 from unknown
    return _chat_page(request, session=session, turns=turns_of(session))


@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Ask. The page's script gets the new turn as HTML in JSON; a plain form is sent on to the conversation."""
    throttle = PrincipalThrottle()
    if not throttle.admits("chat", request):
        return _refused(request, _too_many(throttle.wait()), code="throttled", status=429)
    try:
        answer = answer_question(
            message=request.POST.get("message", ""),
            principal=principal_of(request),
            session_id=request.POST.get("session_id") or None,
        )
    except QuestionRefusedError as refusal:
        return _refused(request, str(refusal), code=refusal.code, status=400)
    except SessionNotFoundError as unknown:
        if not _by_script(request):
            raise Http404 from unknown
        detail = gettext("This conversation is gone: it was deleted. Begin a new one.")
        return _refused(request, detail, code="session_not_found", status=404)
    address = reverse("conversation", args=[answer.run.session_id])
    if not _by_script(request):
        return redirect(f"{address}#turn-{answer.run.pk}")
    return JsonResponse(_answered(request, answer, address))


@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """Every conversation of this person."""
    sessions = own_sessions(principal=principal_of(request).id)
    return render(request, "agents/history.html", {"groups": grouped(sessions)})


@require_POST
def delete_conversation(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Delete an own conversation with its memory."""
    try:
        delete_session(session_id=session_id, principal=principal_of(request).id)
    except SessionNotFoundError as unknown:
        raise Http404 from unknown
    messages.success(request, gettext("The conversation is deleted."))
    return redirect("history")


@require_safe
def source(request: HttpRequest, message_id: UUID, index: int) -> HttpResponse:
    """A cited source: a page of its own, or its inside for the drawer."""
    try:
        opened = open_source(
            message_id=message_id,
            index=index,
            principal=principal_of(request).id,
            highest=3 if _by_script(request) else 2,
        )
    except SourceNotFoundError as unknown:
        raise Http404 from unknown
    template = "agents/source_drawer.html" if _by_script(request) else "agents/source.html"
    return render(request, template, {"source": opened})


@require_safe
def read_document(request: HttpRequest, document_id: int) -> HttpResponse:
    """A whole document, or one section of it, to read."""
    try:
        opened = open_document(document_id=document_id, section=request.GET.get("section", "")[:500])
    except SourceNotFoundError as unknown:
        raise Http404 from unknown
    return render(request, "agents/document.html", {"opened": opened, "chips": MAX_CHIPS})


@require_safe
def setup(request: HttpRequest) -> HttpResponse:
    """How a model is set up: where the banner's link leads."""
    return render(request, "agents/setup.html")


def _chat_page(request: HttpRequest, *, status: int = 200, **shown: Any) -> HttpResponse:
    context: dict[str, Any] = {"turns": [], "session": None, "draft": "", "refusal": "", **shown}
    context["groups"] = grouped(own_sessions(principal=principal_of(request).id, limit=SIDE_BAR))
    if not context["turns"]:
        held = holdings()
        context |= {"held": held, "banner": banner(held), "samples": sample_questions() if held.documents else []}
    return render(request, "agents/chat.html", context, status=status)


def _answered(request: HttpRequest, answer: ChatAnswer, address: str) -> dict[str, str]:
    turn = turn_of(answer.run, answer.message)
    groups = grouped(own_sessions(principal=principal_of(request).id, limit=SIDE_BAR))
    side = {"groups": groups, "session": answer.run.session}
    return {
        "turn": render_to_string("agents/turn.html", {"turn": turn}, request),
        "side": render_to_string("agents/side.html", side, request),
        "session_id": str(answer.run.session_id),
        "url": address,
        "title": answer.run.session.title,
        "said": spoken(turn),
    }


def _refused(request: HttpRequest, detail: str, *, code: str, status: int) -> HttpResponse:
    """For the script a problem, for a form the page again with what was typed."""
    if _by_script(request):
        return JsonResponse({"code": code, "detail": detail, "status": status}, status=status)
    draft = request.POST.get("message", "")[: 2 * MAX_MESSAGE]
    try:
        session = own_session(session_id=request.POST.get("session_id", ""), principal=principal_of(request).id)
    except SessionNotFoundError:  # a first question, or a conversation that is gone
        return _chat_page(request, status=status, draft=draft, refusal=detail)
    return _chat_page(request, status=status, draft=draft, refusal=detail, session=session, turns=turns_of(session))


def _too_many(wait: float | None) -> str:
    seconds = max(1, round(wait or 1))
    return ngettext(
        "Too many questions. Try again in %(seconds)s second.",
        "Too many questions. Try again in %(seconds)s seconds.",
        seconds,
    ) % {"seconds": seconds}


def _by_script(request: HttpRequest) -> bool:
    return request.headers.get("X-Requested-With") == "fetch"
