"""Who is let in: keys, sessions, scopes, the default that nobody is."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from documents.access import ApiKeyAuthentication, principal_of_key, principal_of_user, scopes_of
from documents.models import ApiDocument, ApiKey
from tests.doors import DOCUMENTS, browser, make_key, program, upload, with_key

pytestmark = pytest.mark.django_db


def test_a_call_without_a_key_is_a_401_that_names_the_scheme() -> None:
    answer = APIClient().get(DOCUMENTS)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "not_authenticated"


@pytest.mark.parametrize("text", ["bad", "", "Ab12Cd34.", "é" * 10, "x" * 5000, "a.b\x7f", "' OR 1=1 --"])
def test_a_wrong_key_is_a_401(text: str) -> None:
    answer = with_key(text).get(DOCUMENTS)
    assert answer.status_code == 401
    assert answer.json()["code"] == "invalid_key"


def test_the_right_prefix_with_a_wrong_secret_is_a_401() -> None:
    row, text = make_key("read")
    wrong = f"{row.prefix}.{'x' * (len(text) - len(row.prefix) - 1)}"
    assert with_key(wrong).get(DOCUMENTS).json()["code"] == "invalid_key"


def test_an_unknown_prefix_costs_the_same_comparison_as_a_wrong_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    generator = ApiKey.objects.key_generator
    real = type(generator).verify

    def verify(self: Any, key: str, hashed: str) -> Any:
        compared.append(hashed)
        return real(self, key, hashed)

    monkeypatch.setattr(type(generator), "verify", verify)
    with_key("nosuchky.secret").get(DOCUMENTS)
    assert len(compared) == 1
    assert generator.using_preferred_hasher(compared[0])


def test_a_key_opens_what_its_scope_covers() -> None:
    assert program("read").get(DOCUMENTS).status_code == 200


def test_a_revoked_key_is_refused_on_the_very_next_call() -> None:
    row, text = make_key("read")
    client = with_key(text)
    assert client.get(DOCUMENTS).status_code == 200
    ApiKey.objects.filter(pk=row.pk).update(revoked=True)
    answer = client.get(DOCUMENTS)
    assert (answer.status_code, answer.json()["code"]) == (401, "key_revoked")


def test_an_expired_key_is_refused() -> None:
    answer = with_key(make_key("read", days=-0.001)[1]).get(DOCUMENTS)
    assert (answer.status_code, answer.json()["code"]) == (401, "key_expired")


def test_a_key_that_expires_tomorrow_still_works() -> None:
    assert with_key(make_key("read", days=1)[1]).get(DOCUMENTS).status_code == 200


def test_the_key_of_a_person_who_left_is_refused(bob: Any) -> None:
    client = program("read", user=bob)
    bob.is_active = False
    bob.save(update_fields=["is_active"])
    assert client.get(DOCUMENTS).json()["code"] == "user_inactive"


def test_only_a_hash_of_the_key_is_stored() -> None:
    row, text = make_key("read")
    stored = " ".join(str(value) for value in ApiKey.objects.filter(pk=row.pk).values_list()[0])
    assert text not in stored
    assert text.partition(".")[2] not in stored


@pytest.mark.parametrize("name", ["api_key", "key", "token", "access_token", "API_KEY"])
def test_a_key_in_the_address_is_refused_and_not_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    text = make_key("read")[1]
    with caplog.at_level(logging.DEBUG):
        answer = APIClient().get(DOCUMENTS, {name: text})
        beside = with_key(text).get(DOCUMENTS, {name: text})
    assert (answer.status_code, answer.json()["code"]) == (401, "key_in_query")
    assert beside.status_code == 401
    assert text not in caplog.text + answer.content.decode() + beside.content.decode()


def test_a_bad_key_is_not_saved_by_a_session(bob: Any) -> None:
    client = browser(bob)
    assert client.get(DOCUMENTS).status_code == 200
    assert client.get(DOCUMENTS, headers={"Authorization": "Bearer bad"}).status_code == 401


@pytest.mark.parametrize(("scopes", "status"), [("read", 403), ("chat", 403), ("ops", 403), ("read chat ops", 403)])
def test_a_key_without_write_uploads_nothing(scopes: str, status: int) -> None:
    answer = upload(program(*scopes.split()))
    assert (answer.status_code, answer.json()["code"]) == (status, "missing_scope")
    assert not ApiDocument.objects.exists()


@pytest.mark.parametrize("scope", ["chat", "ops"])
def test_chat_and_ops_alone_do_not_read_documents(scope: str) -> None:
    assert program(scope).get(DOCUMENTS).status_code == 403


def test_write_includes_read_and_unknown_words_give_nothing() -> None:
    assert scopes_of("write") == {"write", "read"}
    assert scopes_of("admin * all") == frozenset()
    assert program("write").get(DOCUMENTS).status_code == 200


def test_a_signed_in_person_reads_but_needs_a_model_permission_to_write(bob: Any) -> None:
    client = browser(bob)
    assert client.get(DOCUMENTS).status_code == 200
    token = _get_new_csrf_string()
    client.cookies["csrftoken"] = token
    answer = client.post(DOCUMENTS, {}, headers={"X-CSRFToken": token})
    assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded"])
def test_a_session_changes_nothing_without_its_csrf_token(alice: Any, content_type: str) -> None:
    answer = browser(alice).delete(f"{DOCUMENTS}1/", b"{}", content_type=content_type)
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")
    posted = browser(alice).post("/api/v1/lookup/", b'{"query": "x"}', content_type=content_type)
    assert posted.status_code == 403


def test_a_token_from_another_origin_is_refused(alice: Any) -> None:
    client, token = browser(alice), _get_new_csrf_string()
    client.cookies["csrftoken"] = token
    answer = client.delete(f"{DOCUMENTS}1/", headers={"X-CSRFToken": token, "Origin": "https://evil.example"})
    assert answer.json()["code"] == "csrf_failed"


def test_text_plain_is_no_json_for_a_key_either() -> None:
    answer = program("read").generic("POST", "/api/v1/lookup/", '{"query": "x"}', content_type="text/plain")
    assert answer.status_code == 415


def test_deleting_by_get_is_not_possible(alice: Any) -> None:
    assert program("write").get(f"{DOCUMENTS}1/delete/").status_code == 404
    assert program("write").get(f"{DOCUMENTS}1/reindex/").status_code == 405


def test_a_model_permission_lets_a_person_write(bob: Any) -> None:
    bob.user_permissions.add(Permission.objects.get(codename="add_apidocument"))
    client = APIClient()
    client.force_login(bob)
    assert upload(client).status_code == 202


def test_who_may_only_add_does_not_replace(bob: Any) -> None:
    assert upload(program("write")).status_code == 202
    bob.user_permissions.add(Permission.objects.get(codename="add_apidocument"))
    client = APIClient()
    client.force_login(bob)
    assert upload(client, text="# Mine\n\nNow.\n").status_code == 403
    assert upload(client, name="other.md").status_code == 202


def test_a_view_that_names_no_scope_answers_nobody(alice: Any) -> None:
    class Forgotten(APIView):
        def get(self, request: Any) -> Response:
            return Response("secret")

    request = APIRequestFactory().get("/x/")
    force_authenticate(request, user=alice)
    assert Forgotten.as_view()(request).status_code == 403
    assert Forgotten.as_view()(APIRequestFactory().get("/x/")).status_code == 401


def test_a_method_that_is_not_there_is_a_405_for_those_who_may_use_the_view() -> None:
    assert program("read").put(DOCUMENTS, {}).status_code == 405
    assert APIClient().put(DOCUMENTS, {}).status_code == 401
    assert program("chat").put(DOCUMENTS, {}).status_code == 403


def test_a_key_of_a_person_acts_as_that_person_with_its_own_scopes(alice: Any) -> None:
    own = principal_of_key(make_key("read")[0])
    hers = principal_of_key(make_key("read", user=alice)[0])
    assert own.id.startswith("key:")
    assert own.user is None
    assert hers.id == principal_of_user(alice).id == f"user:{alice.pk}"
    assert not hers.allows("write", "documents.add_apidocument")
    assert principal_of_user(alice).allows("write", "documents.add_apidocument")


def test_staff_sees_operations_and_others_do_not(alice: Any, bob: Any) -> None:
    assert principal_of_user(alice).allows("ops")
    assert not principal_of_user(bob).allows("ops")


def test_a_key_is_taken_from_the_bearer_scheme_only() -> None:
    text = make_key("read")[1]
    for header in (f"Api-Key {text}", f"Basic {text}", text):
        assert Client().get(DOCUMENTS, headers={"Authorization": header}).status_code == 401
    assert Client().get(DOCUMENTS, headers={"Authorization": f"bearer {text}"}).status_code == 200
    assert ApiKeyAuthentication().authenticate_header(None) == 'Bearer realm="kbsite"'  # type: ignore[arg-type]
