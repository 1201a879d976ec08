"""The Celery application of a production site (CELERY_BROKER_URL); an embedded site never makes a Celery call."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import after_task_publish, beat_init
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbsite.settings")

app = Celery("kbsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@beat_init.connect  # type: ignore[untyped-decorator]  # celery has no types
def mark_each_message(**_: Any) -> None:
    """In beat alone: touch ``DATA_DIR/beat`` with each message. Its age is how a health check sees that beat works.

    Beat's own notes do not serve: with some of Python's databases they reach the disk when it stops.
    """
    after_task_publish.connect(_touch, dispatch_uid="kbsite-beat")


def _touch(**_: Any) -> None:
    (settings.DATA_DIR / "beat").touch()
