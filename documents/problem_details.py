"""Errors as RFC 9457 problem details: one shape for every door under ``/api/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, JsonResponse

from clients.context import request_id

CONTENT_TYPE = "application/problem+json"
# Where programs knock: an error there is never an HTML page.
API_PREFIXES = ("/api/", "/internal/", "/dashboards/panels/")


def problem(
    *,
    status: int,
    code: str,
    detail: str,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    """The response. ``code`` is stable and untranslated, ``errors`` holds ``{field, code, detail}`` each."""
    body: dict[str, Any] = {
        "type": f"urn:kbsite:problem:{code}",
        "title": _title(status),
        "status": int(status),
        "detail": _whole(detail),
        "code": code,
        "errors": [{name: _whole(text) for name, text in error.items()} for error in errors],
        "request_id": request_id.get(),
    }
    return JsonResponse(
        body,
        status=int(status),
        headers=dict(headers or {}),
        content_type=CONTENT_TYPE,
        json_dumps_params={"ensure_ascii": False},
    )


def wants_problem(request: HttpRequest) -> bool:
    """Whether this request comes from a program: an address for programs, or a key in its header."""
    return request.path.startswith(API_PREFIXES) or "HTTP_AUTHORIZATION" in request.META


def _whole(text: str) -> str:
    """The text as UTF-8 can hold it: a caller's field name may have half a character in it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
