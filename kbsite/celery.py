"""The Celery application of a production site (CELERY_BROKER_URL); an embedded site never makes a Celery call."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbsite.settings")

app = Celery("kbsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
