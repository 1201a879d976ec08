"""The pages of the chat. Each checks, calls one function and draws."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.history import grouped, own_sessions


def _principal(request: HttpRequest) -> str:
    """A signed-in person's principal, as in ``documents/access.py``."""
    return f"user:{request.user.pk}"


@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """Every conversation of this person."""
    sessions = own_sessions(principal=_principal(request))
    return render(request, "agents/history.html", {"groups": grouped(sessions)})
