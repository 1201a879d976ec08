"""Conversations in the admin: to look at, never to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone

from agents.models import ChatSession, Message, Run

if TYPE_CHECKING:
    SessionAdminBase = admin.ModelAdmin[ChatSession]
    RunAdminBase = admin.ModelAdmin[Run]
    MessageAdminBase = admin.ModelAdmin[Message]
    RunInlineBase = admin.TabularInline[Run, ChatSession]
    MessageInlineBase = admin.StackedInline[Message, Run]
else:  # Django's classes take no parameters at run time
    SessionAdminBase = RunAdminBase = MessageAdminBase = admin.ModelAdmin
    RunInlineBase, MessageInlineBase = admin.TabularInline, admin.StackedInline


class ReadOnly:
    """Whoever may view may view; nobody adds, changes or deletes here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ByDays:
    """``date_hierarchy``, left out where the database knows no zones (MySQL and MariaDB before somebody loads them)."""

    date_hierarchy: ClassVar[str | None]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        if timezone.get_current_timezone_name() != "UTC" and not connection.features.has_zoneinfo_database:
            type(self).date_hierarchy = None
        return super().get_changelist_instance(request)  # type: ignore[misc]  # of ModelAdmin


class RunInline(ReadOnly, RunInlineBase):
    model = Run
    fields = (
        "question",
        "status",
        "model",
        "lookups",
        "started_at",
        "finished_at",
    )
    show_change_link = True


class MessageInline(ReadOnly, MessageInlineBase):
    model = Message
    fields = (
        "role",
        "text",
        "citations",
        "lookups",
    )


@admin.register(ChatSession)
class ChatSessionAdmin(ByDays, ReadOnly, SessionAdminBase):
    list_display = (
        "title",
        "user",
        "principal",
        "created_at",
        "updated_at",
    )
    list_select_related = ("user",)
    search_fields = (
        "title",
        "principal",
    )
    date_hierarchy = "created_at"
    inlines = (RunInline,)


@admin.register(Run)
class RunAdmin(ByDays, ReadOnly, RunAdminBase):
    list_display = (
        "question",
        "status",
        "channel",
        "model",
        "lookups",
        "error_code",
        "started_at",
    )
    list_filter = ("status", "channel")
    search_fields = ("question",)
    date_hierarchy = "started_at"
    inlines = (MessageInline,)


@admin.register(Message)
class MessageAdmin(ReadOnly, MessageAdminBase):
    list_display = (
        "__str__",
        "role",
        "session",
        "created_at",
    )
    list_filter = ("role",)
    list_select_related = ("session",)
    search_fields = ("text",)
