"""How commands reach the running server: it holds the embedded store, so they ask it.

The server writes its address and a fresh token to ``DATA_DIR/server.json``, readable by its owner only. Whoever can
read that file may call the routes under ``/internal/``, from this machine alone.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import json
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from documents.problem_details import problem

FILE_NAME = "server.json"
# Longer than the longest single answer: a run of the agents, a calibration.
TIMEOUT_SECONDS = 600.0
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104 (never bound)

InternalView = Callable[[dict[str, Any]], dict[str, Any]]


class LocalServerError(Exception):
    """The running server refused the call or went away; the message is one line, ``code`` its stable code."""

    def __init__(self, message: str, *, code: str = "local_server_error") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class RunningServer:
    """What ``server.json`` says."""

    url: str
    pid: int
    token: str


def announce_server(url: str) -> None:
    """Write ``DATA_DIR/server.json`` (mode 0600, in one step) with ``url``, this process and a fresh token."""
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{FILE_NAME}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    content = {"url": _reachable(url), "pid": os.getpid(), "token": secrets.token_urlsafe(32)}
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        json.dump(content, file)
    fresh.replace(path)


def withdraw_server() -> None:
    """Remove the file, if it is this process' own."""
    found = _read()
    if found is not None and found.pid == os.getpid():
        _file().unlink(missing_ok=True)


def running_server() -> RunningServer | None:
    """The server that runs on this data folder; None where there is no file, or its process is gone."""
    found = _read()
    return found if found is not None and _alive(found.pid) else None


def call_running_server(path: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    """POST ``payload`` to an internal route (``/internal/lookup/``); None where no server runs.

    Raises :class:`LocalServerError` where one runs and does not answer, or answers with an error.
    """
    server = running_server()
    if server is None or server.pid == os.getpid():
        return None
    request = urllib.request.Request(  # noqa: S310 (the address is our own server's)
        server.url.rstrip("/") + path,
        data=json.dumps(payload).encode("utf-8"),
        headers={
            "Authorization": f"Bearer {server.token}",
            "Content-Type": "application/json",
            "Host": _allowed_host(server.url),
            # Behind a proxy the site sends plain http elsewhere; this call never leaves the machine.
            "X-Forwarded-Proto": "https",
        },
        method="POST",
    )
    # No proxy of the environment: the address is this machine's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return _as_object(answer.read())
    except urllib.error.HTTPError as refusal:
        raise _refused(refusal) from None
    except (OSError, ValueError) as fault:
        if isinstance(getattr(fault, "reason", None), ConnectionRefusedError):
            return None  # left behind by a killed server whose pid somebody else has now
        raise LocalServerError(
            f"The server on {server.url} (process {server.pid}) does not answer: {fault}. Try again, or restart it."
        ) from fault


def internal(view: InternalView) -> Callable[[HttpRequest], HttpResponse]:
    """A route that takes a JSON object from a command on this machine and answers with one.

    Without the token, or from another machine, the route does not exist (404).
    """

    @csrf_exempt
    @login_not_required
    @functools.wraps(view)
    def guarded(request: HttpRequest) -> HttpResponse:
        if not _is_local(request) or not _has_token(request):
            raise Http404
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            payload = _as_object(request.body)
        except (ValueError, RecursionError):
            return problem(status=HTTPStatus.BAD_REQUEST, code="parse_error", detail="The body is not a JSON object.")
        return JsonResponse(view(payload), json_dumps_params={"ensure_ascii": False})

    return guarded


def _file() -> Path:
    return Path(settings.DATA_DIR) / FILE_NAME


def _read() -> RunningServer | None:
    try:
        content = json.loads(_file().read_text(encoding="ascii"))
        return RunningServer(url=str(content["url"]), pid=int(content["pid"]), token=str(content["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _reachable(url: str) -> str:
    """A server that listens on every address is called on the loopback one."""
    parts = urlsplit(url)
    host = _EVERY_ADDRESS.get(parts.netloc.rpartition(":")[0] if parts.port else parts.netloc)
    if host is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host))


def _allowed_host(url: str) -> str:
    """A host name that ALLOWED_HOSTS lets in, so that a site under its own name still hears its commands."""
    netloc = urlsplit(url).netloc
    allowed = list(settings.ALLOWED_HOSTS)
    if not allowed or "*" in allowed or urlsplit(url).hostname in allowed:
        return netloc
    return str(allowed[0]).lstrip(".")


def _is_local(request: HttpRequest) -> bool:
    """Straight from this machine: a request that a proxy passed on is not."""
    if "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META:
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _has_token(request: HttpRequest) -> bool:
    server = _read()
    sent = request.headers.get("Authorization", "")
    expected = f"Bearer {server.token}" if server is not None else ""
    return bool(expected) and hmac.compare_digest(sent.encode("utf-8"), expected.encode("utf-8"))


def _as_object(content: bytes) -> dict[str, Any]:
    decoded = json.loads(content)
    if not isinstance(decoded, dict):
        raise ValueError("not a JSON object")
    return decoded


def _refused(refusal: urllib.error.HTTPError) -> LocalServerError:
    try:
        body = _as_object(refusal.read())
    except ValueError:
        body = {}
    detail = str(body.get("detail") or f"the running server answered {refusal.code}")
    return LocalServerError(detail, code=str(body.get("code") or "local_server_error"))
