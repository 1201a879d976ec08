"""What every request and every answer has: an id, no place in a shared cache, and for programs errors as problems."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from contextvars import Token
from http import HTTPStatus
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from clients.context import request_id
from documents.problem_details import API_PREFIXES, problem
from kbsite.problems import bad_request, problem_of

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
GetResponse = Callable[[HttpRequest], Any]


class _Middleware:
    """Sync and async alike: ``before`` the request is handed on, ``after`` with its answer."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(cast(Any, self))

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._later(request)
        mark = self.before(request)
        try:
            return self.after(request, self.get_response(request))
        finally:
            self.end(mark)

    async def _later(self, request: HttpRequest) -> HttpResponseBase:
        mark = self.before(request)
        try:
            return self.after(request, await self.get_response(request))
        finally:
            self.end(mark)

    def before(self, request: HttpRequest) -> Token[str] | None:
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response

    def end(self, mark: Token[str] | None) -> None:
        """What must happen whether or not there is an answer."""


class RequestIdMiddleware(_Middleware):
    """Takes ``X-Request-ID`` where it is harmless, makes one where not, and gives it back."""

    def before(self, request: HttpRequest) -> Token[str]:
        sent = request.headers.get("X-Request-ID", "")
        return request_id.set(sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex)

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["X-Request-ID"] = request_id.get()
        return response

    def end(self, mark: Token[str] | None) -> None:
        if mark is not None:
            request_id.reset(mark)


class AnswerMiddleware(_Middleware):
    """``private, no-store`` unless an answer says otherwise; known errors of plain views, and bare 4xx, as problems."""

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if request.path.startswith(API_PREFIXES):
            response = _for_programs(request, response)
        response.setdefault("Cache-Control", "private, no-store")
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """An error of a plain Django view under ``/api/``; unforeseen ones go on to Django."""
        if isinstance(exception, OverflowError) and request.path.startswith("/admin/"):
            # A filter of the admin for a moment before the first or behind the last one there is in UTC.
            return bad_request(request, BadRequest())
        known = problem_of(exception) if request.path.startswith(API_PREFIXES) else None
        return known.response() if known is not None else None


def _for_programs(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not _is_problem(response):
        return problem(
            status=response.status_code,
            code="method_not_allowed",
            detail=_("Method “%(method)s” is not allowed here.") % {"method": request.method},
            headers={"Allow": response.get("Allow", "")},
        )
    if response.status_code == HTTPStatus.MOVED_PERMANENTLY and request.method not in {"GET", "HEAD"}:
        # A client that follows this redirect would repeat the call as GET and lose its body.
        return problem(
            status=HTTPStatus.NOT_FOUND,
            code="not_found",
            detail=_("There is nothing here: the address of this call ends in a slash."),
        )
    return response


def _is_problem(response: HttpResponseBase) -> bool:
    return response.get("Content-Type", "").startswith("application/problem+json")
