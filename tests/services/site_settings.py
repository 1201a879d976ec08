"""The site's settings for processes that the service tests start: its own, but for the vector store and the beat.

Without a Milvus server (VECTOR_STORE_TEST_URI) the vectors lie in a file that all processes share.
"""

from __future__ import annotations

import os

from kbsite.settings import *  # noqa: F403
from kbsite.settings import CELERY_BEAT_SCHEDULE, CELERY_QUEUE, CLIENTS, REST_FRAMEWORK

if os.environ.get("KBSITE_TEST_STORE"):
    CLIENTS["vector_store"] = {
        "BACKEND": "tests.services.shared_store.FileVectorStore",
        "OPTIONS": {"path": os.environ["KBSITE_TEST_STORE"]},
    }
elif os.environ.get("KBSITE_TEST_COLLECTION"):
    CLIENTS["vector_store"]["OPTIONS"]["collection"] = os.environ["KBSITE_TEST_COLLECTION"]
if os.environ.get("KBSITE_TEST_SWEEP"):  # a test cannot wait a minute for the beat
    CELERY_BEAT_SCHEDULE = {
        name: {**entry, "schedule": float(os.environ["KBSITE_TEST_SWEEP"])} if name == "due jobs" else entry
        for name, entry in CELERY_BEAT_SCHEDULE.items()
    }
REST_FRAMEWORK = {
    **REST_FRAMEWORK,
    "DEFAULT_THROTTLE_RATES": {"lookup": "9999/min", "chat": "20/min", "upload": "9999/min"},
}
FAILPOINTS_ALLOWED = True
# Names of its own for what Celery makes beside the queues, so that a run can remove it.
CELERY_CONTROL_EXCHANGE = CELERY_QUEUE
CELERY_EVENT_EXCHANGE = f"{CELERY_QUEUE}-ev"
