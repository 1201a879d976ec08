"""Chat pages, lookup, sessions and chat: pages at the root, the rest under /api/v1/."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, path
from django.views.i18n import set_language

from agents import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("history/", views.history, name="history"),
    path("accounts/login/", LoginView.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    # Also for people who are not signed in yet: the sign-in page has the switch too.
    path("i18n/setlang/", login_not_required(set_language), name="set_language"),
]
