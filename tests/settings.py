"""The site's settings for tests: nothing of the caller's environment, no service, no model, folders of their own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_KEPT = {"DATABASE_URL": os.environ.get("KBSITE_TEST_DATABASE_URL", "")}
_READ_BY_SETTINGS = """
    DEBUG DATA_DIR KNOWLEDGE_BASE_PATH DATABASE_URL REDIS_URL VECTOR_STORE_URI CELERY_BROKER_URL EMBEDDER
    EMBEDDING_MODEL OPENAI_BASE_URL OPENAI_API_KEY OPENAI_MODEL KBSITE_ADMIN_USER KBSITE_ADMIN_PASSWORD
    RETRIEVAL_MAX_L2_DISTANCE RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD RETRIEVAL_REFERENCE_THRESHOLD
    RETRIEVAL_DOMAIN_LIMIT LOOKUP_BUDGET LOOKUP_LANGUAGE MEMORY_TTL KEYWORD_FIELDS KNOWLEDGE_MAP_MAX_CHARS
    TRASH_DAYS UPLOAD_MAX_BYTES SECRET_KEY ALLOWED_HOSTS CSRF_TRUSTED_ORIGINS BEHIND_PROXY HOST PORT TZ
    LLM_PARALLEL AUTO_ACCEPT_FRONTMATTER CELERY_QUEUE WATCH_FOLDER
"""
for _name in _READ_BY_SETTINGS.split():
    os.environ.pop(_name, None)
_root = Path(tempfile.mkdtemp(prefix="kbsite-tests-"))
atexit.register(shutil.rmtree, _root, ignore_errors=True)
os.environ.update(
    DATA_DIR=str(_root / "data"),
    KNOWLEDGE_BASE_PATH=str(_root / "knowledge_base"),
    SECRET_KEY="tests-only-" + "x" * 50,
    EMBEDDER="hashing",
    ALLOWED_HOSTS="testserver,127.0.0.1,localhost",
)
if _KEPT["DATABASE_URL"]:
    os.environ["DATABASE_URL"] = _KEPT["DATABASE_URL"]

from kbsite.settings import *  # noqa: E402, F403
from kbsite.settings import CLIENTS, DATA_DIR, DATABASES  # noqa: E402

DATA_DIR.mkdir(parents=True, exist_ok=True)
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, not memory: threads of the worker tests meet each other as they do on a real site.
    DATABASES["default"]["TEST"] = {"NAME": str(_root / "test.sqlite3")}
CLIENTS["vector_store"] = {"BACKEND": "clients.fakes.InMemoryVectorStore"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
FAILPOINTS_ALLOWED = True
EMBEDDED_WORKER = False  # tests run the jobs themselves
WATCH_FOLDER = False  # and scan when they mean to; tests/documents/test_watcher.py watches
WHITENOISE_AUTOREFRESH = True  # look static files up when asked: each test client would list them all, 0.1 s of it
