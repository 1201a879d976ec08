"""Requests of the wrong shape, with absurd parameters, verbs, headers and addresses: refused, never a 5xx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from documents.models import ApiDocument
from tests.doors import DOCUMENTS, program, upload
from tests.flows.bad_inputs_world import World, form
from tests.flows.test_routes import ROUTES, Samples

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(
    knowledge_base: Path, tmp_path: Path, settings: Any, monkeypatch: Any, caplog: Any, alice: Any, bob: Any
) -> World:
    cache.clear()
    rates = {"lookup": "100000/min", "chat": "100000/min", "upload": "100000/min"}
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": rates}
    spool = tmp_path / "spool"
    spool.mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = str(spool)
    return World(knowledge_base, tmp_path, spool, settings, monkeypatch, caplog, {"alice": alice, "bob": bob})


@pytest.fixture
def staff(world: World) -> APIClient:
    """Alice's browser, without CSRF, telling a 500 instead of raising it."""
    client = APIClient(raise_request_exception=False)
    client.force_login(world.people["alice"])
    return client


VALUES = [
    "0",
    "-1",
    "1e9",
    "9" * 30,
    "NaN",
    "x",
    "\0",
    "😀",
    "'",
    "%",
    "a" * 3_000,
    "true",
    "null",
    "[]",
    "1.5",
    "\u0661",
]
TIMES = [
    "x",
    "\0",
    "9" * 30,
    "1.5",
    "0001-01-01",
    "9999-12-31",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30",
]
TIMES += ["2026-13-01T25:61:61", "..", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
VALUES += ["..", "csv", "api", "cD0x", "bz0x"]
PARAMETERS = {
    DOCUMENTS: "category status search enabled updated_since page page_size ordering unknown",
    "/api/v1/domains/": "page page_size",
    "/api/v1/sessions/": "page page_size",
    "/api/v1/documents/{id}/chunks/": "page page_size",
    "/api/v1/invocations/": "from to session_id run_id level dedup_reason channel cursor page_size format",
    "/dashboards/": "from to domain channel model",
    "/dashboards/panels/volume.json": "from to domain channel model",
    "/dashboards/panels/similarity.csv": "from to",
    "/": "q",
    "/documents/{id}/": "section",
    "/admin/documents/apidocument/": "q p o status__exact created_at__gte e",
    "/admin/documents/toolinvocation/": "q p o created_at__gte",
    "/admin/agents/message/": "q p",
}


# The admin hands a date without a zone on as it is; Django says so.
@pytest.mark.filterwarnings("ignore:DateTimeField .* received a naive datetime:RuntimeWarning")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_absurd_parameters_of_lists_are_refused_or_find_nothing(
    zone: str, world: World, staff: APIClient, settings: Any
) -> None:
    settings.TIME_ZONE = zone
    document = world.accepted(world.upload())
    world.found("gateway")
    for path, names in PARAMETERS.items():
        client = world.client if path.startswith("/api/") else staff
        for name in names.split():
            is_time = name in {"from", "to", "updated_since", "created_at__gte"}
            values = TIMES if is_time else VALUES if zone == "UTC" else []
            # A page costs ten times what an answer for programs does, and reads its parameters by the same few rules.
            for value in values if path.startswith("/api/") or is_time else values[len(name) % 3 :: 3]:
                answer = client.get(path.format(id=document["id"]), {name: value})
                assert answer.status_code < 500, (path, name, value)


BODIES = ["", "null", "1", '"x"', "[]", "[{}]", "{}", "{", '{"query": 1}', '{"query": ["x"]}', '{"query": {"a": 1}}']
BODIES += [
    '{"query": "\\ud800"}',
    '{"\\ud800": 1}',
    '{"query": "\\u0000"}',
    '{"message": "\\ud800"}',
    '{"title": "\\u0000"}',
]
BODIES += ['{"query": "x", "session_id": 1}', '{"query": "x", "section_title": 5}', '{"message": 1}', '{"message": []}']
BODIES += [
    '{"message": "x", "session_id": "nope"}',
    '{"title": ["x"]}',
    '{"description": "\\ud800"}',
    '{"enabled": "yes"}',
]
BODIES += ['{"metadata": 5}', '{"metadata": null}', '{"metadata": {"x": "\\ud800"}}', '{"metadata": {"\\ud800": 1}}']
BODIES += [
    '{"metadata": {"": 1}}',
    '{"metadata": {"x": 1e400}}',
    '{"metadata": {"---": "---\\n---"}}',
    '{"revision": 1e30}',
]
BODIES += [
    '{"revision": 99999999999999999999999}',
    '{"revision": true}',
    '{"metadata": {"a: b\\n": "x\\u2028y\\u0085"}}',
]
BODIES += ["[" * 100_000, '{"a":' * 2_000 + "1" + "}" * 2_000, '{"metadata": {"x": ' + "[" * 200 + "]" * 200 + "}}"]
BODIES += ['{"query": "x"} trailing', '\ufeff{"query": "x"}', '{"query": "x", "query": "y"}']
TYPES = ["application/json; charset=utf-16", "application/json; charset=nope", "text/plain", "text/xml", "/", "a/b; c"]
TYPES += [
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "application/octet-stream",
]
CALLS = [("POST", "/api/v1/lookup/"), ("POST", "/api/v1/chat/"), ("PATCH", "/api/v1/documents/{id}/")]
CALLS += [("PATCH", "/api/v1/domains/payment/"), ("PATCH", "/api/v1/sessions/{session}/"), ("POST", DOCUMENTS)]
CALLS += [("POST", "/api/v1/documents/{id}/reindex/"), ("DELETE", "/api/v1/sessions/s/memory/")]
CALLS += [("POST", "/ask/"), ("POST", "/i18n/setlang/"), ("POST", "/accounts/login/"), ("POST", "/internal/lookup/")]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_bodies_of_the_wrong_shape_never_fail_the_site(method: str, path: str, world: World, staff: APIClient) -> None:
    document = world.accepted(world.upload())
    session = world.ask("gateway")["session_id"]
    address = path.format(id=document["id"], session=session)
    client = world.client if path.startswith("/api/") else staff
    for body in BODIES:
        answer = client.generic(method, address, body, content_type="application/json")
        assert answer.status_code < 500, body[:200]
    for kind in TYPES:
        for body in ('{"query": "x", "message": "x"}', "query=x&message=x"):
            assert client.generic(method, address, body, content_type=kind).status_code < 500, (kind, body)
    assert ApiDocument.objects.count() == 1


@pytest.mark.parametrize("session", ["nope", "", "00000000-0000-0000-0000-000000000000", "\0", "9" * 5_000])
@pytest.mark.parametrize("message", ["", "x\0", "x" * 9_000, "gateway"])
def test_a_form_for_a_conversation_that_is_none_is_told(session: str, message: str, staff: APIClient) -> None:
    for headers in ({}, {"X-Requested-With": "fetch"}):
        form_fields = {"message": message, "session_id": session}
        answer = staff.post("/ask/", form_fields, format="multipart", headers=headers)
        assert answer.status_code < 500


def test_twice_the_same_field_is_one_field_or_a_refusal(world: World) -> None:
    body = form("a.md").replace(b"\r\n\r\npayment\r\n", b"\r\n\r\n..\r\n", 1)
    line = body.split(b"\r\n", 1)[0]
    again = line + b'\r\nContent-Disposition: form-data; name="category"\r\n\r\npayment\r\n'
    answer = world.send_form(again + body)
    assert answer.status_code == 400
    assert list(world.folder.rglob("*.md")) == []


# The others are in test_routes.
VERBS = ["HEAD", "OPTIONS", "TRACE", "PROPFIND", "get"]


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_on_any_route_fails_the_site(verb: str, world: World, staff: APIClient) -> None:
    samples = Samples(world.people["bob"])
    for route in ROUTES:
        address = samples.address(route, verb)
        client = world.client if route.startswith("api/") else staff
        answer = client.generic(verb, address, "{}", content_type="application/json")
        assert answer.status_code < 500, (verb, route)


HEADERS = [
    {"Authorization": value} for value in ("Bearer " + "x" * 100_000, "Bearer \0", "Bearer", "Basic eDp5", "Bearer a.b")
]
HEADERS += [{"Accept": value} for value in ("x" * 100_000, "*/*;q=nope", ";;;", "application/xml")]
HEADERS += [{"Accept-Language": value} for value in ("x" * 100_000, "zh-Hans-CN;q=2,,;;", "\0")]
HEADERS += [
    {"Cookie": value} for value in ("sessionid=\0", "sessionid=" + "x" * 5_000, "django_language=../..", ";;=;=")
]
HEADERS += [{"Host": value} for value in ("a b", "", "testserver:99999999", "[::1")]
HEADERS += [
    {"X-Request-ID": "x" * 100_000},
    {"Idempotency-Key": "é\0" * 1_000},
    {"If-Modified-Since": "x"},
    {"Range": "bytes=5-1"},
]
HEADERS += [{"Content-Length": "-1"}, {"Content-Length": "x"}, {"Origin": "://"}, {"Referer": "http://["}]
ADDRESSES = [DOCUMENTS, "/", "/healthz", "/static/none.css", "/admin/"]
ODD_ADDRESSES = [
    "/api/v1/documents/%00/",
    "/api/v1/documents/99999999999999999999999999/",
    "/api/v1/sessions/%00/memory/",
]
ODD_ADDRESSES += ["/api/v1/domains/%ED%A0%80/", "/static/%00", "/static/../../etc/passwd", "/%FF%FE", "//", "/api//v1/"]
ODD_ADDRESSES += ["/sources/00000000-0000-0000-0000-000000000000/99999999999999999999/", "/dashboards/panels/%00.json"]
ODD_ADDRESSES += ["/admin/documents/apidocument/99999999999999999999/change/", "/admin/r/99999999999999999999/1/"]


@pytest.mark.parametrize("verb", ["GET", "POST", "PATCH", "DELETE"])
def test_odd_addresses_never_fail_the_site(verb: str, world: World, staff: APIClient) -> None:
    for address in ODD_ADDRESSES:
        for client in (world.client, staff):
            assert client.generic(verb, address, "{}", content_type="application/json").status_code < 500, address


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: next(iter(header)))
def test_odd_headers_never_fail_the_site(header: dict[str, str], world: World, staff: APIClient) -> None:
    for address in ADDRESSES:
        assert staff.get(address, headers=header).status_code < 500, address
    if not {"Authorization", "Content-Length"} & set(header):
        assert upload(program("write", raise_request_exception=False), **header).status_code < 500
