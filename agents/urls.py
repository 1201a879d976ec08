"""Chat pages, lookup, sessions and chat: pages at the root, the rest under /api/v1/."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
