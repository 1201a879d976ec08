"""Conversations by days in the admin, in whatever zone the site lies and whatever the database knows of zones."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from agents.models import ChatSession, Run
from tests.doors import browser


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_conversations_are_listed_in_every_zone(zone: str, alice: Any, settings: Any) -> None:
    settings.TIME_ZONE = zone
    session = ChatSession.objects.create(id="a" * 32, principal="user:1", title="Time-outs")
    Run.objects.create(id="b" * 32, session=session, question="Why?", channel="chat", started_at=timezone.now())
    for page in ("chatsession", "run"):
        answer = browser(alice).get(f"/admin/agents/{page}/")
        assert answer.status_code == 200
        assert ("Time-outs" if page == "chatsession" else "Why?") in answer.content.decode()
