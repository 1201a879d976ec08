"""A principal's own conversations: listed, found, deleted. Another's is as if it did not exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext

from agents.models import ChatSession

SIDE_BAR = 30


class SessionNotFound(Exception):
    """There is no such conversation, or it is somebody else's: callers answer 404 for both."""


@dataclass(frozen=True)
class HistoryGroup:
    """Conversations under one heading: today, yesterday, earlier."""

    heading: str
    sessions: list[ChatSession]


def own_session(*, session_id: str | UUID, principal: str) -> ChatSession:
    """The conversation, or :class:`SessionNotFound` (also for an id that is none)."""
    try:
        key = session_id if isinstance(session_id, UUID) else UUID(session_id)
    except ValueError as wrong:
        raise SessionNotFound from wrong
    found = ChatSession.objects.filter(pk=key, principal=principal).first()
    if found is None:
        raise SessionNotFound
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
