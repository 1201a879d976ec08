"""Every error of the API is a problem with a stable code, whatever went wrong and wherever; nothing secret is in it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.test import Client
from rest_framework.exceptions import ErrorDetail, Throttled, ValidationError
from rest_framework.test import APIClient

from clients.interfaces import ClientError, ClientTimeout
from documents import services
from documents.errors import DocumentError
from documents.models import ApiDocument
from kbsite.problems import problem_of
from tests.doors import DOCUMENTS, program, upload

pytestmark = pytest.mark.django_db
FIELDS = {"type", "title", "status", "detail", "code", "errors", "request_id"}


def is_problem(answer: Any, status: int, code: str) -> bool:
    assert answer["Content-Type"] == "application/problem+json", answer.content
    body = answer.json()
    assert set(body) == FIELDS
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert body["detail"]
    assert body["request_id"] == answer["X-Request-ID"] != ""
    return True


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing/", 404, "not_found"),
        ("GET", "/api/nothing", 404, "not_found"),
        ("GET", "/api/v1/documents/x/", 404, "not_found"),
        ("GET", "/api/v1/documents/..;/", 404, "not_found"),
        ("PUT", DOCUMENTS, 405, "method_not_allowed"),
        ("POST", "/api/v1/lookup", 404, "not_found"),
        ("GET", "/internal/lookup/", 404, "not_found"),
        ("GET", "/dashboards/panels/nothing.json", 403, "missing_scope"),
    ],
)
def test_what_is_not_there_is_a_problem(method: str, path: str, status: int, code: str) -> None:
    assert is_problem(program("write").generic(method, path), status, code)


def test_a_405_names_the_methods_that_are_there() -> None:
    assert set(program("write").put(DOCUMENTS, {})["Allow"].replace(" ", "").split(",")) >= {"GET", "POST"}


def test_a_format_that_is_not_offered_is_a_406() -> None:
    assert is_problem(program("read").get(DOCUMENTS, headers={"Accept": "application/xml"}), 406, "not_acceptable")


def test_a_body_that_is_no_json_is_a_400() -> None:
    answer = program("read").generic("POST", "/api/v1/lookup/", "{", content_type="application/json")
    assert is_problem(answer, 400, "parse_error")


def test_a_wrong_host_is_a_400() -> None:
    answer = program("read").get(DOCUMENTS, headers={"Host": "evil.example"})
    assert is_problem(answer, 400, "bad_request")
    assert b"evil" not in answer.content


def test_a_forwarded_host_is_not_believed() -> None:
    for number in range(3):
        upload(program("write"), name=f"{number}.md")
    answer = program("read").get(DOCUMENTS, {"page_size": 1}, headers={"X-Forwarded-Host": "evil.example"})
    assert answer.json()["next"].startswith("http://testserver/")
    assert b"evil" not in answer.content


@pytest.mark.parametrize("fault", [OperationalError("server has gone away: secret"), InterfaceError("closed: secret")])
def test_a_database_that_is_down_is_a_503(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise fault

    client = program("write")
    monkeypatch.setattr(services, "upload_document", down)
    answer = upload(client)
    assert is_problem(answer, 503, "database_unavailable")
    assert answer["Retry-After"] == "5"
    assert b"secret" not in answer.content
    assert not ApiDocument.objects.exists()


def test_a_database_that_is_down_before_any_view_is_a_503_too(monkeypatch: pytest.MonkeyPatch, bob: Any) -> None:
    """The session's user is read by a middleware: there no view catches anything."""
    client = Client(raise_request_exception=False)
    client.force_login(bob)

    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr("django.contrib.auth.middleware.auth.get_user", down)
    assert is_problem(client.get("/api/v1/nowhere/"), 404, "not_found")  # no database is needed to say so
    assert is_problem(client.get(DOCUMENTS), 503, "database_unavailable")
    page = client.get("/admin/")
    assert page.status_code == 503
    assert page["Retry-After"] == "5"


def test_an_unforeseen_fault_is_a_500_without_its_words(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the password is hunter2")

    client = program("write", raise_request_exception=False)
    monkeypatch.setattr(services, "upload_document", broken)
    answer = upload(client)
    assert is_problem(answer, 500, "internal_error")
    assert b"hunter2" not in answer.content
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (DocumentError(detail="No.", code="some_code", field="file", status=409), 409, "some_code"),
        (ClientError("The store is locked.", code="store_locked", hint="Stop the other one."), 503, "store_locked"),
        (ClientTimeout("Too slow."), 503, "client_timeout"),
        (Throttled(wait=1.2), 429, "throttled"),
        (Http404(), 404, "not_found"),
    ],
)
def test_known_faults_have_their_status_and_code(fault: Exception, status: int, code: str) -> None:
    known = problem_of(fault)
    assert known is not None
    assert (known.status, known.code) == (status, code)


def test_details_carry_field_hint_and_waiting_time() -> None:
    refused = problem_of(DocumentError(detail="No.", code="c", field="file"))
    assert refused is not None
    assert refused.errors == [{"field": "file", "code": "c", "detail": "No."}]
    locked = problem_of(ClientError("Locked.", hint="Stop the other one."))
    assert locked is not None
    assert locked.detail == "Locked. Stop the other one."
    assert locked.headers == {}
    slow = problem_of(ClientTimeout("Slow."))
    assert slow is not None
    assert slow.headers == {"Retry-After": "5"}
    throttled = problem_of(Throttled(wait=1.2))
    assert throttled is not None
    assert throttled.headers == {"Retry-After": "2"}
    assert problem_of(RuntimeError("x")) is None


def test_nested_errors_are_flattened() -> None:
    fault = ValidationError(
        {"a": {"b": [ErrorDetail("No.", code="x")]}, "non_field_errors": [ErrorDetail("Hm.", code="y")]}
    )
    known = problem_of(fault)
    assert known is not None
    assert known.errors == [
        {"field": "a.b", "code": "x", "detail": "No."},
        {"field": "", "code": "y", "detail": "Hm."},
    ]
    assert known.detail == "a.b: No. Hm."


def test_codes_stay_when_the_language_changes() -> None:
    english = APIClient().get(DOCUMENTS)
    chinese = APIClient().get(DOCUMENTS, headers={"Accept-Language": "zh-hans"})
    assert english.json()["code"] == chinese.json()["code"] == "not_authenticated"
    assert english.json()["detail"] != chinese.json()["detail"]


@pytest.mark.parametrize("sent", ["abc-123", "a.b:c_D", "x" * 128])
def test_a_harmless_request_id_is_given_back(sent: str) -> None:
    answer = program("read").get(DOCUMENTS, headers={"X-Request-ID": sent})
    assert answer["X-Request-ID"] == sent


@pytest.mark.parametrize("sent", ["", "x" * 129, "a b", "a\tb", "<script>", "中", 'a"b'])
def test_any_other_request_id_is_replaced(sent: str) -> None:
    answer = program("read").get(DOCUMENTS, headers={"X-Request-ID": sent})
    assert answer["X-Request-ID"] != sent
    assert len(answer["X-Request-ID"]) == 32


def test_pages_and_answers_are_in_no_shared_cache(bob: Any) -> None:
    client = Client()
    client.force_login(bob)
    for path in (DOCUMENTS, "/accounts/login/", "/healthz", "/admin/login/"):
        assert "no-store" in client.get(path)["Cache-Control"], path


def test_a_page_that_is_not_there_is_html_for_people() -> None:
    answer = Client().get("/nothing-here/")
    assert answer.status_code in {302, 404}
    assert "problem" not in answer["Content-Type"]
