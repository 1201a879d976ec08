"""Chat pages, lookup, sessions and chat: pages at the root, the rest under /api/v1/."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.i18n import set_language

from agents import views
from agents.api import Chat, SessionDetail, SessionList

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.chat, name="chat"),
    path("ask/", views.ask, name="ask"),
    path("chat/<uuid:session_id>/", views.conversation, name="conversation"),
    path("chat/<uuid:session_id>/delete/", views.delete_conversation, name="delete_conversation"),
    path("sources/<uuid:message_id>/<int:index>/", views.source, name="source"),
    path("documents/<int:document_id>/", views.read_document, name="read_document"),
    path("setup/", views.setup, name="setup"),
    path("api/v1/chat/", Chat.as_view(), name="api-chat"),
    path("api/v1/sessions/", SessionList.as_view(), name="session-list"),
    path("api/v1/sessions/<uuid:session_id>/", SessionDetail.as_view(), name="session-detail"),
    path("", include("agents.lookup_urls")),
    path("history/", views.history, name="history"),
    path("accounts/login/", LoginView.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    # Also for people who are not signed in yet: the sign-in page has the switch too.
    path("i18n/setlang/", login_not_required(set_language), name="set_language"),
]
