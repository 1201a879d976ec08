"""A principal's own conversations: listed, found, deleted. Another's is as if it did not exist."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext

from agents.models import ChatSession
from clients.interfaces import ClientError
from clients.registry import get_session_memory
from retrieval.action_memory import MemoryScope, RetrievedDocTracker

log = logging.getLogger(__name__)

SIDE_BAR = 30


class SessionNotFoundError(Exception):
    """There is no such conversation, or it is somebody else's: callers answer 404 for both."""


@dataclass(frozen=True)
class HistoryGroup:
    """Conversations under one heading: today, yesterday, earlier."""

    heading: str
    sessions: list[ChatSession]


def own_session(*, session_id: str | UUID, principal: str) -> ChatSession:
    """The conversation, or :class:`SessionNotFoundError` (also for an id that is none)."""
    try:
        key = session_id if isinstance(session_id, UUID) else UUID(session_id)
    except ValueError as wrong:
        raise SessionNotFoundError from wrong
    found = ChatSession.objects.filter(pk=key, principal=principal).first()
    if found is None:
        raise SessionNotFoundError
    return found


def own_sessions(*, principal: str, limit: int | None = None) -> Sequence[ChatSession]:
    """The principal's conversations, the last used first."""
    found = ChatSession.objects.filter(principal=principal).order_by("-updated_at", "-id")
    return list(found[:limit] if limit else found)


def grouped(sessions: Sequence[ChatSession]) -> list[HistoryGroup]:
    """Sessions under today, yesterday and earlier, in the reader's time zone; empty groups are left out."""
    today = timezone.localdate()
    groups = [
        HistoryGroup(gettext("Today"), []),
        HistoryGroup(gettext("Yesterday"), []),
        HistoryGroup(gettext("Earlier"), []),
    ]
    for session in sessions:
        groups[_age(timezone.localtime(session.updated_at).date(), today)].sessions.append(session)
    return [group for group in groups if group.sessions]


def _age(day: date, today: date) -> int:
    if day >= today:
        return 0
    return 1 if day == today - timedelta(days=1) else 2


def delete_session(*, session_id: str | UUID, principal: str) -> None:
    """Delete an own conversation and forget what its runs were given; raises :class:`SessionNotFoundError`."""
    session = own_session(session_id=session_id, principal=principal)
    tracker = RetrievedDocTracker(get_session_memory())
    try:
        for run_id in session.runs.values_list("pk", flat=True):
            tracker.clear_session(MemoryScope(principal, str(run_id)).key)
    except ClientError as failure:
        # The memory is down: what it holds of these runs expires by itself, and the conversation goes all the same.
        log.warning("Memory of conversation %s not cleared: %s", session.pk, failure)
    session.delete()
