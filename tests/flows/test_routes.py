"""Every route of the site against everybody who may knock. A route without a row here fails.

To add a route, add its line to ``TABLE`` (the route as ``urls.py`` spells it, all prefixes included), saying for each
method who gets in::

    "api/v1/things/<int:thing_id>/": api(GET="read", DELETE="write"),

``api`` routes refuse with 401 and 403, ``page`` routes send the nameless to the sign-in. The words for who gets in are
the keys of ``ADMITTED``. A route on something that belongs to one caller is marked ``owned=True``: it is made for Bob,
and everybody else who gets in must be told 404. A placeholder that ``samples`` does not know yet needs its value there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from agents.models import ChatSession, Message, Run
from documents.models import ApiDocument, DocumentHistory, KnowledgeDomain
from documents.names import path_key
from tests.doors import program

pytestmark = pytest.mark.django_db

CALLERS = ("nobody", "reader", "writer", "ops", "chat", "foreign", "bob", "staff")
"""Keys of one scope each; ``foreign`` is a key of Charlie's with every scope; Bob and staff (Alice) are signed in."""

ADMITTED: dict[str, set[str]] = {
    "everybody": set(CALLERS),
    "read": {"reader", "writer", "foreign", "bob", "staff"},
    "chat": {"chat", "foreign", "bob", "staff"},
    "write": {"writer", "foreign", "staff"},
    "ops": {"ops", "foreign", "staff"},
    "person": {"bob", "staff"},
    "staff": {"staff"},
    "local": set(),
}


@dataclass(frozen=True)
class Row:
    """Who gets in by which method, and how the others are turned away."""

    methods: dict[str, str]
    refusal: str  # "api": 401/403; "page": sign-in or 403; "hidden": 404
    owned: bool = False
    ends_at_sign_in: bool = False


def api(*, owned: bool = False, **methods: str) -> Row:
    return Row(methods, "api", owned)


def page(*, owned: bool = False, ends_at_sign_in: bool = False, **methods: str) -> Row:
    return Row(methods, "page", owned, ends_at_sign_in)


def hidden(**methods: str) -> Row:
    return Row(methods, "hidden")


TABLE: dict[str, Row] = {
    # Pages
    "": page(GET="person"),
    "ask/": page(POST="person"),
    "chat/<uuid:session_id>/": page(GET="person", owned=True),
    "chat/<uuid:session_id>/delete/": page(POST="person", owned=True),
    "sources/<uuid:message_id>/<int:index>/": page(GET="person", owned=True),
    "documents/<int:document_id>/": page(GET="person"),
    "setup/": page(GET="person"),
    "history/": page(GET="person"),
    "accounts/login/": page(GET="everybody", POST="everybody", PUT="everybody"),
    "accounts/logout/": page(POST="person", ends_at_sign_in=True),
    "i18n/setlang/": page(POST="everybody"),
    "dashboards/": page(GET="ops"),
    "dashboards/panels/<slug:name>.json": api(GET="ops"),
    "dashboards/panels/<slug:name>.csv": api(GET="ops"),
    # Own pages below /admin/
    "admin/lookup-test/": page(GET="staff", POST="staff"),
    "admin/lookup-test/forget/": page(POST="staff"),
    "admin/reconcile/": page(GET="staff", POST="staff"),
    # Programs
    "api/v1/documents/": api(GET="read", POST="write"),
    "api/v1/documents/<int:document_id>/": api(GET="read", PATCH="write", DELETE="write"),
    "api/v1/documents/<int:document_id>/content/": api(GET="read"),
    "api/v1/documents/<int:document_id>/chunks/": api(GET="read"),
    "api/v1/documents/<int:document_id>/reindex/": api(POST="write"),
    "api/v1/documents/<int:document_id>/history/": api(GET="write"),
    "api/v1/history/": api(GET="write"),
    "api/v1/history/<int:history_id>/content/": api(GET="write"),
    "api/v1/history/<int:history_id>/restore/": api(POST="write"),
    "api/v1/domains/": api(GET="read"),
    "api/v1/domains/<str:domain_id>/": api(PATCH="write"),
    "api/v1/knowledge-map/": api(GET="read"),
    "api/v1/lookup/": api(POST="read"),
    "api/v1/sessions/<str:session_id>/memory/": api(DELETE="read"),
    "api/v1/chat/": api(POST="chat"),
    "api/v1/sessions/": api(GET="chat"),
    "api/v1/sessions/<uuid:session_id>/": api(GET="chat", PATCH="chat", DELETE="chat", owned=True),
    "api/v1/invocations/": api(GET="ops"),
    # Open to all
    "healthz": page(GET="everybody"),
    "readyz": page(GET="everybody"),
    "api/schema/": page(GET="everybody"),
    "api/docs/": page(GET="everybody"),
    # Only for commands on this machine, who have the token of DATA_DIR
    "internal/lookup/": hidden(POST="local"),
    "internal/doctor/": hidden(POST="local"),
    "internal/calibrate/": hidden(POST="local"),
    "internal/reconcile/": hidden(POST="local"),
}
ADMIN_OPEN = {"admin/login/", "admin/logout/"}
"""Django's routes there are found by themselves: all but these are for staff, and keys mean nothing there."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


# ---- Routes and callers --------------------------------------------------------------------------------------------
def routes(patterns: Any = None, prefix: str = "") -> Iterator[str]:
    """Every route of the URL configuration, with its prefixes."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            assert isinstance(pattern, URLPattern)
            yield route


@pytest.fixture
def callers(alice: Any, bob: Any, charlie: Any) -> dict[str, APIClient]:
    cache.clear()
    signed_in = {}
    for name, user in (("bob", bob), ("staff", alice)):
        signed_in[name] = APIClient(raise_request_exception=False)
        signed_in[name].force_login(user)
    quiet = {"raise_request_exception": False}
    return {
        "nobody": APIClient(**quiet),
        "reader": program("read", **quiet),
        "writer": program("write", **quiet),
        "ops": program("ops", **quiet),
        "chat": program("chat", **quiet),
        "foreign": program("read", "chat", "write", "ops", user=charlie, **quiet),
        **signed_in,
    }


class Samples:
    """Something real for each placeholder of a route, made anew for each call that may delete it."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.made = 0
        self.kept: dict[str, Any] = {}

    def address(self, route: str, method: str) -> str:
        if not self.kept or method != "GET":
            self.kept = self._values() if "<" in route else {"none": ""}
        values = self.kept
        # Django's admin has two routes by regular expression.
        plain = re.sub(r"\(\?P<app_label>[^)]*\)", "documents", route).replace("(?P<url>.*)$", "nothing")
        filled = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: str(values[match[1]]), plain)
        return "/" + filled.lstrip("^").rstrip("$")

    def _values(self) -> dict[str, Any]:
        self.made += 1
        file_path = f"knowledge_base/api/sample-{self.made}.md"
        document = ApiDocument.objects.create(
            file_path=file_path,
            path_key=path_key(file_path),
            file_name=f"sample-{self.made}.md",
            category="api",
            title="Sample",
            content_hash="0" * 64,
            revision=1,
            published_revision=1,
            updated_at="2026-01-01T00:00:00Z",
        )
        kept = DocumentHistory.objects.create(
            document_id=document.pk,
            file_path=file_path,
            revision=1,
            content_hash="0" * 64,
            size=1,
            stored_name=f"{document.pk}.1.{'0' * 16}",
            reason=DocumentHistory.Reason.REPLACED,
        )
        KnowledgeDomain.objects.get_or_create(domain_id="api")
        session = ChatSession.objects.create(principal=f"user:{self.owner.pk}", user=self.owner, title="Mine")
        run = Run.objects.create(session=session, question="Why?")
        cited = {"index": 1, "source": file_path, "title": "Sample", "section": "", "excerpt": "Because."}
        message = Message.objects.create(session=session, run=run, role="assistant", text="So [1].", citations=[cited])
        return {
            "document_id": document.pk,
            "history_id": kept.pk,
            "domain_id": "api",
            "session_id": session.pk,
            "message_id": message.pk,
            "run_id": run.pk,
            "index": 1,
            "name": "relevance-levels",
            "object_id": document.pk,
            "content_type_id": 1,
            "app_label": "documents",
            "id": document.pk,
        }


# ---- The tests -----------------------------------------------------------------------------------------------------
ROUTES = sorted(set(routes()))
OURS = [route for route in ROUTES if not route.startswith("admin/") or route in TABLE]


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert set(OURS) - set(TABLE) == set(), "a route without a row in TABLE: who may use it?"
    assert set(TABLE) - set(OURS) == set(), "a row in TABLE without a route"
    assert {scope for row in TABLE.values() for scope in row.methods.values()} <= set(ADMITTED)


@pytest.mark.parametrize("route", OURS)
def test_a_route_lets_in_whom_it_should_and_nobody_else(route: str, callers: dict[str, APIClient], bob: Any) -> None:
    row, samples = TABLE[route], Samples(bob)
    for method, who in row.methods.items():
        for name, client in callers.items():
            answer = client.generic(method, samples.address(route, method), "", content_type="application/json")
            said = f"{method} /{route} as {name}: {answer.status_code}"
            _check(said, answer, row, name, admitted=name in ADMITTED[who])


@pytest.mark.parametrize("route", OURS)
def test_no_other_method_does_anything(route: str, callers: dict[str, APIClient], bob: Any) -> None:
    samples = Samples(bob)
    for method in set(METHODS) - set(TABLE[route].methods):
        for name in ("foreign", "staff"):  # between them they may do everything
            answer = callers[name].generic(
                method, samples.address(route, method), "{}", content_type="application/json"
            )
            said = f"{method} /{route} as {name}: {answer.status_code}"
            assert answer.status_code in {302, 401, 403, 404, 405}, said


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in OURS])
def test_the_admin_is_for_staff(route: str, callers: dict[str, APIClient], bob: Any) -> None:
    address = Samples(bob).address(route, "GET")
    for method, names in (("GET", ("nobody", "foreign", "bob")), ("POST", ("foreign", "bob"))):
        for name in names if route not in ADMIN_OPEN else ():
            answer = callers[name].generic(method, address)
            said = f"{method} /{route} as {name}: {answer.status_code}"
            assert answer.status_code in {301, 302, 403}, said
            assert answer.status_code == 403 or "/login/" in answer["Location"], said
    assert callers["staff"].get(address).status_code < 500, route


def _check(said: str, answer: Any, row: Row, name: str, *, admitted: bool) -> None:
    assert answer.status_code < 500, said
    to_sign_in = answer.status_code == 302 and "/login/" in answer["Location"]
    if not admitted:
        if row.refusal == "hidden":
            assert answer.status_code == 404, said
        elif row.refusal == "api":
            assert answer.status_code == (401 if name == "nobody" else 403), said
        else:
            assert to_sign_in or answer.status_code in {401, 403}, said
    elif row.owned and name != "bob":
        assert answer.status_code == 404, said
    elif row.ends_at_sign_in:
        assert to_sign_in, said
    else:
        assert answer.status_code not in {401, 403}, said
        assert not to_sign_in, said
