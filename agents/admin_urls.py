"""Own pages below /admin/; Django's admin takes every address there that is not named before it."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from agents.lookup_page import forget_trials, lookup_page
from documents.reconcile_page import reconcile_page

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/lookup-test/", lookup_page, name="lookup-test"),
    path("admin/lookup-test/forget/", forget_trials, name="lookup-test-forget"),
    path("admin/reconcile/", reconcile_page, name="reconcile"),
]
