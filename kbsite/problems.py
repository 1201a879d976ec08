"""What each exception is to a caller: the one place where errors become status codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
    TooManyFilesSent,
)
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.translation import gettext as _
from django.views import defaults
from rest_framework import exceptions as rest
from rest_framework.views import set_rollback

from clients.interfaces import ClientError
from documents.access import retry_after
from documents.errors import DocumentError
from documents.problem_details import problem, wants_problem

log = logging.getLogger("kbsite.problems")
RETRY_SECONDS = "5"


@dataclass(frozen=True)
class Problem:
    """The parts of a problem-details answer."""

    status: int
    code: str
    detail: str
    errors: list[dict[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> HttpResponse:
        return problem(status=self.status, code=self.code, detail=self.detail, errors=self.errors, headers=self.headers)


def problem_of(fault: BaseException | None) -> Problem | None:
    """How a known exception is answered; None for one that nobody foresaw."""
    if isinstance(fault, DocumentError):
        named = [{"field": fault.field, "code": fault.code, "detail": str(fault.detail)}] if fault.field else []
        return Problem(fault.status, fault.code, str(fault.detail), named)
    if isinstance(fault, ClientError):
        headers = {"Retry-After": RETRY_SECONDS} if fault.retryable else {}
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, fault.code, f"{fault} {fault.hint}".strip(), headers=headers)
    if isinstance(fault, rest.APIException):
        return _of_rest(fault)
    if isinstance(fault, OperationalError | InterfaceError):
        detail = _("The database does not answer; nothing was changed. Try again in a moment.")
        headers = {"Retry-After": RETRY_SECONDS}
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "database_unavailable", detail, headers=headers)
    return _of_django(fault)


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """REST framework's hook: every error of a REST view, foreseen or not, as a problem."""
    set_rollback()
    request = context.get("request")
    known = problem_of(exc)
    if known is None:
        log.error("Unforeseen error in %s", getattr(request, "path", ""), exc_info=exc)
        got_request_exception.send(sender=None, request=getattr(request, "_request", None))
        return _unforeseen().response()
    if known.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("%s: %s", known.code, exc)
    return known.response()


# ---- Django's own error pages, and the same errors for programs ------------------------------------------------------
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400"""
    return _answer(request, exception) or defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403"""
    return _answer(request, exception) or defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404"""
    return _answer(request, exception) or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500: also where a database that is down ends up, before any view is reached."""
    known = problem_of(sys.exc_info()[1])
    if wants_problem(request):
        return (known or _unforeseen()).response()
    if known is not None and known.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return _unavailable_page(known)
    return defaults.server_error(request)


def _answer(request: HttpRequest, exception: Exception) -> HttpResponse | None:
    known = problem_of(exception) if wants_problem(request) else None
    return known.response() if known is not None else None


def _unavailable_page(known: Problem) -> HttpResponse:
    try:
        text = get_template("503.html").render({"detail": known.detail})
        return HttpResponse(text, status=known.status, headers=known.headers)
    except TemplateDoesNotExist:
        return HttpResponse(known.detail, status=known.status, headers=known.headers, content_type="text/plain")


# ---- The cases -------------------------------------------------------------------------------------------------------
def _unforeseen() -> Problem:
    detail = _("Something went wrong on our side. The request id helps to find it in the log.")
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", detail)


def _of_rest(fault: rest.APIException) -> Problem:
    if isinstance(fault, rest.ValidationError):
        errors = list(_flatten(fault.detail))
        detail = " ".join(f"{error['field']}: {error['detail']}".removeprefix(": ") for error in errors)
        return Problem(fault.status_code, "invalid_input", detail, errors)
    headers = {}
    if getattr(fault, "auth_header", None):
        headers["WWW-Authenticate"] = str(fault.auth_header)  # type: ignore[attr-defined]
    if isinstance(fault, rest.Throttled):
        headers |= retry_after(getattr(fault, "wait", None))
    return Problem(fault.status_code, str(fault.get_codes()), str(fault.detail), headers=headers)


def _of_django(fault: BaseException | None) -> Problem | None:
    if isinstance(fault, Http404):
        return Problem(HTTPStatus.NOT_FOUND, "not_found", _("There is nothing here."))
    if isinstance(fault, PermissionDenied):
        return Problem(
            HTTPStatus.FORBIDDEN, "permission_denied", str(fault) or _("You do not have the right to do this.")
        )
    if isinstance(fault, RequestDataTooBig):
        return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request_too_large", _("The request is too large."))
    if isinstance(fault, TooManyFieldsSent | TooManyFilesSent):
        return Problem(HTTPStatus.BAD_REQUEST, "too_many_fields", _("The form has too many fields or files."))
    if isinstance(fault, SuspiciousOperation | BadRequest | MultiPartParserError):
        return Problem(HTTPStatus.BAD_REQUEST, "bad_request", _("The request is malformed."))
    return None


def _flatten(detail: Any, name: str = "") -> Iterator[dict[str, str]]:
    """Nested serializer errors as ``{field, code, detail}``; a nested field is ``outer.inner``."""
    if isinstance(detail, dict):
        for key, inner in detail.items():
            own = "" if key == "non_field_errors" else str(key)
            yield from _flatten(inner, ".".join(part for part in (name, own) if part))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _flatten(inner, name)
    else:
        yield {"field": name, "code": str(getattr(detail, "code", "invalid")), "detail": str(detail)}
