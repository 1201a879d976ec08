"""``require_scope``: plain Django views, sync and async, with the same doors as REST ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import _get_new_csrf_string
from django.test import RequestFactory

from documents.access import principal_of, require_scope
from tests.doors import make_key

pytestmark = pytest.mark.django_db
Call = Callable[[HttpRequest], Any]


@require_scope("chat")
def sync_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(principal_of(request).id)


@require_scope("chat")
async def async_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(principal_of(request).id)


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, transactional_db: None) -> Call:
    return sync_view if request.param == "sync" else async_to_sync(async_view)


def knock(
    path: str = "/api/v1/chat/", *, method: str = "GET", user: Any = None, key: str = "", **extra: Any
) -> HttpRequest:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = RequestFactory(headers=headers).generic(method, path, **extra)
    request.user = user or AnonymousUser()
    request._dont_enforce_csrf_checks = False  # type: ignore[attr-defined]
    return request


def test_the_nameless_are_sent_to_the_sign_in_on_a_page_and_refused_elsewhere(call: Call) -> None:
    page = call(knock("/dashboards/"))
    assert page.status_code == 302
    assert page["Location"] == "/accounts/login/?next=/dashboards/"
    assert call(knock()).status_code == 401
    assert call(knock("/dashboards/", method="POST")).status_code == 401


def test_a_key_with_the_scope_is_let_in_without_a_csrf_token(call: Call) -> None:
    row, text = make_key("chat")
    answer = call(knock(method="POST", key=text))
    assert answer.status_code == 200
    assert answer.content.decode() == f"key:{row.prefix}"


def test_a_key_without_the_scope_is_a_403_and_a_wrong_one_a_401(call: Call) -> None:
    assert call(knock(key=make_key("read")[1])).status_code == 403
    assert call(knock("/page/", key="bad")).status_code == 401


def test_a_session_must_bring_its_token_to_change_something(call: Call, bob: Any) -> None:
    assert call(knock(user=bob)).content.decode() == f"user:{bob.pk}"
    refused = call(knock(method="POST", user=bob))
    assert refused.status_code == 403
    assert b"csrf_failed" in refused.content
    token = _get_new_csrf_string()
    with_token = knock(method="POST", user=bob, headers={"X-CSRFToken": token})
    with_token.COOKIES["csrftoken"] = token
    assert call(with_token).status_code == 200


def test_a_page_for_staff_raises_the_403_page_for_others(bob: Any) -> None:
    @require_scope("ops")
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse("secret")

    with pytest.raises(PermissionDenied):
        page(knock("/dashboards/", user=bob))


def test_calls_beyond_the_rate_are_told_when_to_come_back(settings: Any, bob: Any, charlie: Any) -> None:
    cache.clear()
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"chat": "2/min"}}

    @require_scope("chat", throttle="chat")
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("ok")

    assert [view(knock(user=bob)).status_code for _ in range(2)] == [200, 200]
    third = view(knock(user=bob))
    assert third.status_code == 429
    assert 1 <= int(third["Retry-After"]) <= 60
    assert view(knock(user=charlie)).status_code == 200
