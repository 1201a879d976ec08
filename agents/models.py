"""Conversations: a session has many runs, a run has a question and an answer. Read-only in the admin."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class ChatSession(models.Model):
    """One conversation of one principal (a user, or an API key without one)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # ``user:{id}`` or ``key:{prefix}``: what guards access. The user is kept beside it for the admin.
    principal = models.CharField(max_length=100, db_index=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, verbose_name=_("user")
    )
    title = models.CharField(_("title"), max_length=200, blank=True, default="")
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True, db_index=True)

    class Meta:
        db_table = "chat_session"
        ordering: ClassVar = ["-updated_at"]
        verbose_name = _("chat session")
        verbose_name_plural = _("chat sessions")

    def __str__(self) -> str:
        return self.title or str(self.pk)


class Run(models.Model):
    """One question answered. ``id`` is the ``run_id`` of its rows in ``tool_invocation``."""

    class Status(models.TextChoices):
        RUNNING = "running", _("running")
        FINISHED = "finished", _("finished")
        BUDGET_EXHAUSTED = "budget_exhausted", _("lookup budget used up")
        STOPPED = "stopped", _("stopped")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="runs", verbose_name=_("session"))
    question = models.TextField(_("question"))
    channel = models.CharField(_("channel"), max_length=10, default="chat")
    model = models.CharField(_("model"), max_length=128, blank=True, default="")
    status = models.CharField(_("status"), max_length=20, choices=Status.choices, default=Status.RUNNING)
    plan = models.JSONField(null=True, blank=True)
    lookups = models.PositiveIntegerField(_("lookups"), default=0)
    usage = models.JSONField(default=dict, blank=True)
    error_code = models.CharField(max_length=64, blank=True, default="")
    error = models.TextField(_("error"), blank=True, default="")
    started_at = models.DateTimeField(_("started"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        db_table = "agent_run"
        ordering: ClassVar = ["-started_at"]
        verbose_name = _("run")
        verbose_name_plural = _("runs")

    def __str__(self) -> str:
        return self.question[:80]


class Message(models.Model):
    """A question or an answer. An answer keeps its citations and what was looked up for it."""

    class Role(models.TextChoices):
        USER = "user", _("question")
        ASSISTANT = "assistant", _("answer")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="messages")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="messages")
    role = models.CharField(_("role"), max_length=10, choices=Role.choices)
    text = models.TextField(_("text"))
    # [{index, source, title, section, excerpt}], as in API.md; the lookups likewise.
    citations = models.JSONField(_("citations"), default=list, blank=True)
    lookups = models.JSONField(_("lookups"), default=list, blank=True)
    created_at = models.DateTimeField(_("time"), auto_now_add=True)

    class Meta:
        db_table = "chat_message"
        ordering: ClassVar = ["created_at", "id"]
        verbose_name = _("message")
        verbose_name_plural = _("messages")

    def __str__(self) -> str:
        return self.text[:80]


class LevelCalibration(models.Model):
    """The level fit that ``calibrate --apply`` saved for one embedder and version; without a row the shipped one holds.

    ``fit`` has the fields of ``clients.interfaces.LevelFit``, ``chunks`` is how many the store had at that time.
    """

    embedder = models.CharField(max_length=64)
    embedder_version = models.CharField(max_length=500)
    fit = models.JSONField()
    chunks = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    by = models.CharField(max_length=150, blank=True, default="")

    class Meta:
        db_table = "level_calibration"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["embedder", "embedder_version"], name="level_calibration_of")
        ]

    def __str__(self) -> str:
        return f"{self.embedder} {self.embedder_version}"
