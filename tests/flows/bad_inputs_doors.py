"""Checks of queries, of who may do what, and of what leaves the site as CSV or log."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable
from typing import Any, cast

import django
from django.conf import settings
from django.test import Client
from rest_framework.test import APIClient

from agents.models import ChatSession
from documents.models import ApiDocument, ApiKey, ToolInvocation
from kbsite.logs import MAX_LINE, LineFormatter
from tests.doors import DOCUMENTS, browser, make_key, program, with_key
from tests.flows.bad_inputs_uploads import Check
from tests.flows.bad_inputs_world import CHAT, LOOKUP, World

INVOCATIONS = "/api/v1/invocations/"
ALICE = b"---\nkeywords: [ERR_ALICE]\n---\n# Alice\n\nOnly this document is about lanterns.\n"


def _document(world: World, name: str = "alice.md", category: str = "api") -> dict[str, Any]:
    return world.accepted(world.upload(ALICE, name=name, category=category), ALICE)


# ---- Queries ---------------------------------------------------------------------------------------------------------
def filter_stays_literal(world: World, given: str) -> None:
    """As a category, as a search, as a question: no document more than the words themselves name."""
    _document(world)
    for name in ("category", "search"):
        answer = world.client.get(DOCUMENTS, {name: given})
        assert answer.status_code in {200, 400}, answer.content
        assert answer.status_code == 400 or answer.json()["count"] == 0
    answer = world.client.patch(f"/api/v1/domains/{given.replace('/', '')}/".replace("\n", "%0A"), {"description": "x"})
    assert answer.status_code == 404
    result = world.found(given)
    assert result["primary"] is None
    assert ApiDocument.objects.count() == 1


def quoted_session(world: World, given: str) -> None:
    answer = world.lookup("ERR_ALICE", session_id=given)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "session_id"
    chat = world.client.post(CHAT, {"message": "ERR_ALICE", "session_id": given})
    assert (chat.status_code, chat.json()["errors"][0]["field"]) == (400, "session_id")
    assert ToolInvocation.objects.count() == 0


def foreign_order(world: World, given: str) -> None:
    answer = world.client.get(DOCUMENTS, {"ordering": given})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "ordering")
    assert world.client.get(INVOCATIONS, {"ordering": given}).status_code == 400


def query_too_long(world: World, given: str) -> None:
    for length, status in ((100_000, 400), (2_001, 400), (2_000, 200)):
        answer = world.lookup("a" * length)
        assert answer.status_code == status
        assert status == 200 or answer.json()["errors"][0]["code"] == "max_length"


def query_with_nul(world: World, given: str) -> None:
    for answer in (world.lookup("a\0b"), world.client.post(CHAT, {"message": "a\0b"})):
        assert answer.status_code == 400
    assert world.client.get(DOCUMENTS, {"search": "a\0b"}).status_code == 400


def odd_query(world: World, given: str) -> None:
    _document(world)
    result = world.found(given)
    assert isinstance(result["retrievedDomainsThisSession"], list)
    assert result["primary"] is None


def query_as_a_pattern(world: World, given: str) -> None:
    data = b"---\nkeywords: ['(a+)+$']\n---\n# Patterns\n\ntext\n"
    world.accepted(world.upload(data), data)
    assert world.found("a" * 1_990 + "!")["primary"] is None
    assert world.found(f"what does {given} match")["primary"]["matchType"] == "exact_L0"


def foreign_top_k(world: World, given: str) -> None:
    for name in ("topK", "top_k", "limit"):
        for value in (-1, 0, 1e9, "3", None):
            answer = world.lookup("ERR_ALICE", **{name: value})
            assert answer.status_code == 400
            assert answer.json()["errors"][0]["code"] == "unknown_field"
    for value in ("-1", "0", "1000000000", "1e9", "3.5", "x"):
        for address in (DOCUMENTS, INVOCATIONS, "/api/v1/domains/", "/api/v1/sessions/"):
            assert world.client.get(address, {"page_size": value}).status_code == 400, (address, value)


def not_a_number(world: World, given: str) -> None:
    document = _document(world)
    for body in ('{"query": NaN}', '{"query": Infinity}', '{"query": "x", "session_id": -Infinity}'):
        assert world.client.generic("POST", LOOKUP, body, content_type="application/json").status_code == 400
    address = f"{DOCUMENTS}{document['id']}/"
    answer = world.client.generic("PATCH", address, '{"metadata": {"x": NaN}}', content_type="application/json")
    assert answer.status_code == 400
    assert world.document(document["id"])["revision"] == document["revision"]


QUERIES: dict[str, Check] = {
    **{f"query.injection-{number}": filter_stays_literal for number in ("01", "03", "05", "06", "09")},
    "query.injection-08": quoted_session,
    "query.injection-10": foreign_order,
    "query.injection-13": query_too_long,
    "query.injection-16": query_with_nul,
    "query.injection-18": odd_query,
    "query.injection-20": query_as_a_pattern,
    "query.injection-22": foreign_top_k,
    "query.injection-24": not_a_number,
}


# ---- Who may do what -------------------------------------------------------------------------------------------------
def anonymous_chat(world: World, given: str) -> None:
    for address in ("/", "/history/", "/documents/1/"):
        answer = Client().get(address)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/")


def not_staff(world: World, given: str) -> None:
    answer = browser(world.people["bob"]).get("/admin/")
    assert answer.status_code == 403 or "/login/" in answer["Location"]


def not_an_editor(world: World, given: str) -> None:
    document = _document(world)
    before = world.places()
    bob = APIClient()
    bob.force_login(world.people["bob"])
    for client in (bob, program("read"), program("read", "chat", "ops")):
        assert client.delete(f"{DOCUMENTS}{document['id']}/").status_code == 403
    assert world.places() == before


def _conversation_of_bob(world: World) -> str:
    _document(world)
    answer = program("chat", user=world.people["bob"]).post(CHAT, {"message": "ERR_ALICE"})
    assert answer.status_code == 200
    return str(answer.json()["session_id"])


def foreign_conversation(world: World, given: str) -> None:
    session = _conversation_of_bob(world)
    address = f"/api/v1/sessions/{session}/"
    charlie = program("read", "chat", "write", "ops", user=world.people["charlie"])
    assert charlie.get(address).status_code == charlie.delete(address).status_code == 404
    assert charlie.patch(address, {"title": "mine"}).status_code == 404
    assert charlie.post(CHAT, {"message": "x", "session_id": session}).status_code == 404
    assert browser(world.people["charlie"]).get(f"/chat/{session}/").status_code == 404
    assert ChatSession.objects.get(pk=session).title == "ERR_ALICE"


def guessed_document(world: World, given: str) -> None:
    document = _document(world)
    for number in (document["id"] + 1, 0, 10**18, 10**30):
        for part in ("", "content/", "chunks/"):
            assert world.client.get(f"{DOCUMENTS}{number}/{part}").status_code == 404


def borrowed_session_id(world: World, given: str) -> None:
    """Whoever names another's session has a memory of their own."""
    _document(world)
    for user in (world.people["bob"], world.people["charlie"]):
        client = program("read", user=user)
        first = client.post(LOOKUP, {"query": "ERR_ALICE", "session_id": "shared-name"}).json()
        assert first["relevanceLevel"] == "PRECISE"
        again = client.post(LOOKUP, {"query": "ERR_ALICE", "session_id": "shared-name"}).json()
        assert again["relevanceLevel"] == "DEDUPED"


def preset_session_cookie(world: World, given: str) -> None:
    client = Client()
    client.cookies["sessionid"] = "preset0123456789preset0123456789"
    answer = client.post("/accounts/login/", {"username": "bob", "password": "bob-pass-1"})
    assert answer.status_code == 302
    assert client.cookies["sessionid"].value not in {"", "preset0123456789preset0123456789"}


def changes_without_a_token(world: World, given: str) -> None:
    document = _document(world)
    before = world.places()
    alice = browser(world.people["alice"])
    foreign = {"Origin": "https://evil.example", "Referer": "https://evil.example/"}
    assert alice.delete(f"{DOCUMENTS}{document['id']}/", headers=foreign).status_code == 403
    assert (
        alice.post("/admin/documents/apidocument/", {"action": "delete_selected"}, headers=foreign).status_code == 403
    )
    session = _conversation_of_bob(world)
    bob = browser(world.people["bob"])
    assert bob.post(f"/chat/{session}/delete/", headers=foreign).status_code == 403
    assert ChatSession.objects.filter(pk=session).exists()
    assert world.places() == before


def changes_by_get(world: World, given: str) -> None:
    document = _document(world)
    before = world.places()
    session = _conversation_of_bob(world)
    alice, bob = browser(world.people["alice"]), browser(world.people["bob"])
    assert alice.get(f"{DOCUMENTS}{document['id']}/delete").status_code in {404, 405}
    assert alice.get(f"/documents/{document['id']}/delete").status_code in {404, 405}
    assert bob.get(f"/chat/{session}/delete/").status_code == 405
    assert alice.get("/accounts/logout/").status_code == 405
    assert ChatSession.objects.filter(pk=session).exists()
    assert world.places() == before


def json_as_plain_text(world: World, given: str) -> None:
    body = json.dumps({"query": "ERR_ALICE"})
    assert world.client.generic("POST", LOOKUP, body, content_type="text/plain").status_code == 415
    assert browser(world.people["bob"]).post(LOOKUP, body, content_type="text/plain").status_code in {403, 415}
    assert ToolInvocation.objects.count() == 0


def wrong_key(world: World, given: str) -> None:
    """Known prefix or not: the same refusal after the same comparison."""
    prefix = make_key("read")[0].prefix
    compared: list[str] = []
    generator = ApiKey.objects.key_generator
    real = generator.verify

    def verify(raw: str, hashed: str) -> bool:
        compared.append(hashed.partition("$")[0])
        return bool(real(raw, hashed))

    world.monkeypatch.setattr(type(generator), "verify", lambda _self, raw, hashed: verify(raw, hashed))
    for key in ("bad", f"{prefix}.bad"):
        answer = with_key(key).get(DOCUMENTS)
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_key")
    assert len(set(compared)) == 1
    assert len(compared) == 2


def key_in_the_address(world: World, given: str) -> None:
    text = make_key("read")[1]
    for name in ("api_key", "key", "token", "access_token", "API_KEY"):
        answer = APIClient().get(f"{DOCUMENTS}?{name}={text}")
        assert answer.status_code in {401, 403}
        assert text.encode() not in answer.content
    assert text not in world.caplog.text


def revoked_key(world: World, given: str) -> None:
    row, text = make_key("read")
    client = with_key(text)
    assert client.get(DOCUMENTS).status_code == 200
    row.revoked = True
    row.save()
    assert client.get(DOCUMENTS).status_code == 401


def key_of_another_scope(world: World, given: str) -> None:
    before = world.places()
    for scope in ("read", "chat", "ops"):
        client, world.client = world.client, program(scope)
        world.refused(before, world.upload(), status=(403,))
        world.client = client


def key_at_rest(world: World, given: str) -> None:
    row, text = make_key("read")
    stored = " ".join(str(value) for value in ApiKey.objects.filter(pk=row.pk).values_list()[0])
    prefix, _dot, secret = text.partition(".")
    assert secret not in stored
    assert prefix in stored


def wrong_host(world: World, given: str) -> None:
    for client in (Client(), world.client):
        answer = client.get("/healthz", headers={"Host": "evil"})
        assert answer.status_code == 400
        assert b"evil" not in answer.content


def redirect_away(world: World, given: str) -> None:
    away = ("//evil", "https://evil/", "/\\evil", "javascript:alert(1)", "///evil", "https:evil", "\t//evil")
    for target in away:
        client = Client()
        form = {"username": "bob", "password": "bob-pass-1", "next": target}
        answer = client.post(f"/accounts/login/?next={target}", form)
        assert (answer.status_code, answer["Location"]) == (302, "/"), target
        answer = client.post("/i18n/setlang/", {"language": "en", "next": target})
        assert "evil" not in answer.get("Location", "")
        assert "javascript" not in answer.get("Location", "")


def odd_path(world: World, given: str) -> None:
    bob = browser(world.people["bob"])
    for path in (
        "/admin/..;/",
        "/admin;/",
        "/admin/%2e%2e/",
        "/static/../kbsite/settings.py",
        "/static/%2e%2e/manage.py",
    ):
        for client in (Client(), bob):
            answer = client.get(path)
            assert answer.status_code in {302, 404}, path
            assert "SECRET_KEY" not in answer.content.decode(), path
            assert answer.status_code == 404 or "/login/" in answer["Location"], path


def foreign_origin(world: World, given: str) -> None:
    """The token alone is not enough: it must come from a page of ours."""
    bob = Client(enforce_csrf_checks=True)
    bob.force_login(world.people["bob"])
    bob.get("/")
    token = bob.cookies["csrftoken"].value
    form = {"message": "x", "csrfmiddlewaretoken": token}
    assert bob.post("/ask/", form, headers={"Origin": "https://evil.example"}).status_code == 403
    assert bob.post("/ask/", form, headers={"Origin": "null"}).status_code == 403
    assert ChatSession.objects.count() == 0
    assert bob.post("/ask/", form, headers={"Origin": "http://testserver"}).status_code == 302


def forwarded_host(world: World, given: str) -> None:
    for number in range(3):
        _document(world, f"{number}.md")
    answer = world.client.get(DOCUMENTS, {"page_size": 1}, headers={"X-Forwarded-Host": "evil"})
    assert b"evil" not in answer.content
    page = browser(world.people["bob"]).get("/", headers={"X-Forwarded-Host": "evil"})
    assert b"evil" not in page.content
    for shown in (answer, page):
        assert {"private", "no-store"} <= set(shown["Cache-Control"].replace(" ", "").split(","))


def pickled_task(world: World, given: str) -> None:
    assert settings.CELERY_ACCEPT_CONTENT == ["json"]
    assert settings.CELERY_TASK_SERIALIZER == "json"
    assert world.client.generic("POST", LOOKUP, "x", content_type=given.split()[-1]).status_code == 415


def mass_assignment(world: World, given: str) -> None:
    document = _document(world)
    fields = {
        "status": "FAILED",
        "owner": 2,
        "file_path": "/etc/passwd",
        "id": 99,
        "uploaded_by": "bob",
        "revision_": 1,
    }
    for name, value in fields.items():
        answer = world.client.patch(f"{DOCUMENTS}{document['id']}/", {name: value})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "unknown_field")
    assert world.document(document["id"]) == document


def health_for_anybody(world: World, given: str) -> None:
    answer = Client().get("/healthz")
    assert answer.status_code == 200
    for secret in (settings.SECRET_KEY, django.__version__, "Python", "sqlite", str(settings.DATA_DIR)):
        assert secret not in answer.content.decode()
    assert str(settings.DATA_DIR) not in Client().get("/readyz").content.decode()


AUTH: dict[str, Check] = {
    "auth-03": anonymous_chat,
    "auth-08": not_staff,
    "auth-09": not_an_editor,
    "auth-10": foreign_conversation,
    "auth-14": guessed_document,
    "auth-15": borrowed_session_id,
    "auth-17": preset_session_cookie,
    "auth-19": changes_without_a_token,
    "auth-20": changes_by_get,
    "auth-21": json_as_plain_text,
    "auth-22": wrong_key,
    "auth-23": key_in_the_address,
    "auth-24": revoked_key,
    "auth-25": key_of_another_scope,
    "auth-26": key_at_rest,
    "auth-33": wrong_host,
    "auth-38": redirect_away,
    "auth-40": odd_path,
    "auth-41": foreign_origin,
    "auth-42": forwarded_host,
    "auth-44": pickled_task,
    "auth-45": mass_assignment,
    "auth-46": health_for_anybody,
}


# ---- What leaves the site --------------------------------------------------------------------------------------------
def formula_in_csv(world: World, given: str) -> None:
    """Asked for, it stands in the recorded calls: no cell of theirs is run by a spreadsheet."""
    formula = given.removesuffix(" in title")
    data = f'---\ntitle: "{formula}"\nkeywords: ["{formula} x"]\n---\n# T\n\ntext\n'.encode()
    world.accepted(world.upload(data), data)
    for query in (formula, f"\t{formula}", f"{formula} x"):
        world.found(query)
    answer = world.client.get(INVOCATIONS, {"format": "csv"})
    rows = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert f"'{formula}" in [cell for row in rows for cell in row]
    assert [cell for row in rows for cell in row if cell[:1] in set("=+-@\t\r")] == []


def log_with_terminal_codes(world: World, given: str) -> None:
    line = _line("asked: \x1b[2J\x9b31m\r\nERROR root forged")
    assert "\x1b" not in line
    assert "\x9b" not in line
    assert "\r" not in line
    assert line.count("\n") == 0
    world.upload(name="a\x1b[2J\nERROR forged.md")
    lines = [_line_of(record) for record in world.caplog.records]
    assert [each for each in lines if "\x1b" in each or "\n" in each] == []


def log_of_a_huge_query(world: World, given: str) -> None:
    assert world.lookup("x" * 1_000_000).status_code == 400
    assert max((len(_line_of(record)) for record in world.caplog.records), default=0) <= MAX_LINE + 1
    assert len(_line("x" * 1_000_000)) <= MAX_LINE + 1


def _line(message: str) -> str:
    return _line_of(logging.LogRecord("site", logging.INFO, "f.py", 1, message, None, None))


def _line_of(record: logging.LogRecord) -> str:
    formatter = cast(Callable[..., Any], LineFormatter)("{levelname} {name} {message}", style="{")
    return str(formatter.format(record))


EXPORTS: dict[str, Check] = {
    **{f"output.export-{number}": formula_in_csv for number in ("01", "03", "04")},
    "output.export-08": log_with_terminal_codes,
    "output.export-09": log_of_a_huge_query,
}
