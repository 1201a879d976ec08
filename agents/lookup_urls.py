"""Routes of the lookup; ``agents/urls.py`` includes them."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from agents.lookup_api import Lookup, SessionMemory, lookup_for_command

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/lookup/", Lookup.as_view(), name="lookup"),
    path("api/v1/sessions/<str:session_id>/memory/", SessionMemory.as_view(), name="session-memory"),
    path("internal/lookup/", lookup_for_command, name="internal-lookup"),
]
