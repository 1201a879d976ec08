"""How the site stands: ``/healthz`` says that it runs, ``/readyz`` which parts work and what to do about the rest."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from clients.interfaces import Embedder, PartHealth
from clients.masking import mask_credentials
from clients.registry import get_embedder, get_llm, get_session_memory, get_vector_store
from documents.heartbeat import workers_state
from documents.reconcile_report import reconcile_state
from documents.scan import scan_state
from documents.source import get_keyword_index
from documents.watch_state import watch_state
from documents.worker import get_worker
from observability.thresholds import growth_beyond_fit

log = logging.getLogger("observability.health")
CACHE_SECONDS = 1.0
Check = Callable[[], PartHealth]


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers; nothing else is said."""
    return JsonResponse({"status": "ok"})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """``{status, parts: {name: {status, hint}}}``; 503 only where nothing can be answered."""
    state = _cached_readiness()
    status = HTTPStatus.SERVICE_UNAVAILABLE if state["status"] == "down" else HTTPStatus.OK
    return JsonResponse(state, status=status, json_dumps_params={"ensure_ascii": False})


def readiness() -> dict[str, Any]:
    """Every part asked anew. ``down`` only where the database is: without vectors or a model, exact lookups answer."""
    parts = {name: ask(name, check) for name, check in CHECKS.items()}
    if parts["database"].status == "down":
        whole = "down"
    else:
        whole = "ok" if all(part.status == "ok" for part in parts.values()) else "degraded"
    return {"status": whole, "parts": {name: asdict(part) for name, part in parts.items()}}


_lock = threading.Lock()
_kept: tuple[float, dict[str, Any]] | None = None


def _cached_readiness() -> dict[str, Any]:
    """The same answer for a second, so that a crowd of probes costs one."""
    global _kept
    with _lock:
        now = time.monotonic()
        if _kept is None or now - _kept[0] > CACHE_SECONDS:
            _kept = (now, readiness())
        return _kept[1]


def ask(name: str, check: Check) -> PartHealth:
    """One part; whatever goes wrong while asking is `down`."""
    try:
        return check()
    except Exception as fault:  # noqa: BLE001 (degradation point: the health page answers whatever is broken)
        log.warning("the health check of %s failed: %s", name, fault)
        return PartHealth("down", _("It does not answer. The log says why."))


# ---- The parts -------------------------------------------------------------------------------------------------------
def _database() -> PartHealth:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Exception as fault:  # noqa: BLE001 (degradation point: any driver error means the same here)
        log.warning("the database does not answer: %s", fault)
        return PartHealth("down", _("The database does not answer: check DATABASE_URL, or that the disk is not full."))
    return PartHealth("ok")


def _keyword_index() -> PartHealth:
    return get_keyword_index().health()


def _vector_store() -> PartHealth:
    return get_vector_store().health()


def _embedder() -> PartHealth:
    embedder = get_embedder()
    own = _own_health(embedder)
    hints = []
    if embedder.lexical:  # said here in the reader's language
        hints.append(_("Lexical only: it compares letters, not meaning. Set EMBEDDER to another one."))
    elif own.status != "ok":
        hints.append(mask_credentials(own.hint))
    growth = growth_beyond_fit(embedder)
    if growth is not None:
        hints.append(
            _("The store has %(now)s chunks, the thresholds were fitted on %(then)s: run python manage.py calibrate")
            % {"now": growth.chunks, "then": growth.fitted}
        )
    if not hints:
        return PartHealth("ok")
    return PartHealth("degraded" if own.status == "ok" else own.status, " ".join(hints))


def _own_health(embedder: Embedder) -> PartHealth:
    """What the embedder says of its package, its weights or its endpoint; most can tell without being used."""
    ask_it: Check | None = getattr(embedder, "health", None)
    return PartHealth("ok") if ask_it is None else ask_it()


def _memory() -> PartHealth:
    return get_session_memory().health()


def _worker() -> PartHealth:
    for state in (scan_state(), watch_state()):
        if state.status != "ok":
            return state
    jobs = _embedded_worker() if settings.EMBEDDED_WORKER else workers_state()
    if jobs.status != "ok":
        return jobs
    left = reconcile_state()
    if left.status != "ok":
        return left
    if not settings.EMBEDDED_WORKER:
        return PartHealth("ok", _("Jobs run in processes of their own."))
    waiting = get_worker().progress().waiting
    return PartHealth("ok", _("%(count)s documents wait for their vectors.") % {"count": waiting} if waiting else "")


def _embedded_worker() -> PartHealth:
    health = get_worker().health()
    if health.status == "down":
        return PartHealth("down", _("The worker does not run: restart the server."))
    if health.status == "degraded":  # its own words may quote a database's; this page is public
        return PartHealth("degraded", _("The worker met a fault and tries again. The log says which."))
    return PartHealth("ok")


def _llm() -> PartHealth:
    llm = get_llm()
    if not llm.configured:
        return PartHealth(
            "ok",
            _("No model is configured: passages are shown. Set OPENAI_MODEL, OPENAI_BASE_URL and OPENAI_API_KEY."),
        )
    return llm.health()


CHECKS: dict[str, Check] = {
    "database": _database,
    "keyword_index": _keyword_index,
    "vector_store": _vector_store,
    "embedder": _embedder,
    "memory": _memory,
    "worker": _worker,
    "llm": _llm,
}
