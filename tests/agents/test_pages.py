"""The pages: what they show, to whom, in which language; that they are held by the content security policy."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import translation

from agents.models import ChatSession, Message
from agents.welcome import sample_questions
from clients.interfaces import PartHealth
from clients.registry import get_vector_store
from documents.models import ApiDocument
from tests.agents.asking import GATEWAY, ask, gateway_document
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@pytest.fixture(autouse=True)
def _fresh_throttles() -> None:
    cache.clear()


@pytest.fixture
def page(bob: Any) -> Client:
    """Bob's browser, in English."""
    client = Client(headers={"Accept-Language": "en"})
    client.force_login(bob)
    return client


class Checker(HTMLParser):
    """Reads a page as the policy and a screen reader do."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.headings: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.faults += [f"id twice: {each}" for each in self.ids if self.ids.count(each) > 1]
        self.faults += [f"no such id: {each}" for each in self.references if each not in self.ids]
        self.faults += [f"never closed: {each}" for each in self.open]
        if self.headings.count("h1") != 1:
            self.faults.append(f"h1 {self.headings.count('h1')} times")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in VOID and tag != "use":
            self.open.append(tag)
        if "style" in attributes or tag == "style":
            self.faults.append(f"inline style at <{tag}>")
        if [name for name in attributes if name.startswith("on")]:
            self.faults.append(f"inline handler at <{tag}>")
        if tag == "script" and not attributes.get("src"):
            self.faults.append("inline script")
        for name in ("src", "href", "action"):
            if (attributes.get(name) or "").startswith(("http:", "https:", "//")):
                self.faults.append(f"leads away: {attributes[name]}")
        if attributes.get("id"):
            self.ids.append(str(attributes["id"]))
        for name in ("for", "popovertarget", "aria-labelledby"):
            if attributes.get(name):
                self.references.append(str(attributes[name]))
        if re.fullmatch(r"h\d", tag):
            self.headings.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> out of place")


def faults(html: str) -> list[str]:
    # The drawer names the heading that is loaded into it.
    return [fault for fault in Checker(html).faults if fault != "no such id: source-title"]


def html_of(answer: Any, status: int = 200) -> str:
    assert answer.status_code == status
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    html: str = answer.content.decode()
    return html


# ---- Sound pages -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_every_page_is_sound_in_both_languages(language: str, alice: Any) -> None:
    document = gateway_document()
    answer = ask("ERR_TIMEOUT", alice)
    client = Client(headers={"Accept-Language": language})
    addresses = ["/accounts/login/", "/nothing-here/"]
    assert not [fault for each in addresses[:1] for fault in faults(html_of(client.get(each)))]
    client.force_login(alice)
    addresses = [
        "/", f"/chat/{answer.run.session_id}/", "/history/", "/setup/", f"/documents/{document.pk}/",
        f"/documents/{document.pk}/?section=ERR_TIMEOUT", f"/sources/{answer.message.pk}/1/",
    ]  # fmt: skip
    for address in addresses:
        html = html_of(client.get(address))
        assert faults(html) == [], address
        assert f'<html lang="{language}"' in html
    assert faults(html_of(client.get("/nothing-here/"), status=404)) == []


def test_pages_ask_for_a_sign_in() -> None:
    for address in ("/", "/history/", "/setup/", "/documents/1/"):
        answer = Client().get(address)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/")


# ---- Signing in, languages -------------------------------------------------------------------------------------------
def test_signing_in_leads_where_one_wanted_to_go(bob: Any) -> None:
    answer = Client().post("/accounts/login/", {"username": "bob", "password": "bob-pass-1", "next": "/history/"})
    assert (answer.status_code, answer["Location"]) == (302, "/history/")


@pytest.mark.parametrize("away", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_signing_in_never_leads_away(away: str, bob: Any) -> None:
    answer = Client().post("/accounts/login/", {"username": "bob", "password": "bob-pass-1", "next": away})
    assert answer["Location"] == "/"


def test_a_wrong_password_is_told_and_the_name_kept(bob: Any) -> None:
    answer = Client(headers={"Accept-Language": "en"}).post("/accounts/login/", {"username": "bob", "password": "x"})
    html = html_of(answer)
    assert "That did not work." in html
    assert 'value="bob"' in html


def test_the_language_can_be_changed_before_and_after_signing_in(page: Client) -> None:
    client = Client(headers={"Accept-Language": "en"})
    assert client.post("/i18n/setlang/", {"language": "zh-hans", "next": "/accounts/login/"}).status_code == 302
    assert "登录" in html_of(client.get("/accounts/login/"))
    page.post("/i18n/setlang/", {"language": "zh-hans", "next": "/"})
    assert "想查什么？" in html_of(page.get("/"))


def test_staff_sees_more_places_than_others(page: Client, alice: Any) -> None:
    assert "/dashboards/" not in html_of(page.get("/"))
    staff = Client()
    staff.force_login(alice)
    html = html_of(staff.get("/"))
    assert 'href="/dashboards/"' in html
    assert 'href="/admin/documents/apidocument/"' in html


# ---- The empty page --------------------------------------------------------------------------------------------------
def test_an_empty_knowledge_base_is_said_and_staff_can_upload(page: Client, alice: Any) -> None:
    assert "The knowledge base is empty." in html_of(page.get("/"))
    assert "Upload documents" not in html_of(page.get("/"))
    page.force_login(alice)
    assert "Upload documents" in html_of(page.get("/"))


def test_without_a_model_the_page_says_what_still_works(page: Client) -> None:
    gateway_document()
    html = html_of(page.get("/"))
    assert "You can still ask: the passages found are listed." in html
    assert 'href="/setup/"' in html


def test_a_store_that_is_down_is_said(page: Client, monkeypatch: Any) -> None:
    gateway_document()
    monkeypatch.setattr(type(get_vector_store()), "health", lambda _self: PartHealth("down", "start it"))
    assert "The vector store is down." in html_of(page.get("/"))


def test_sample_questions_come_from_the_documents(page: Client) -> None:
    gateway_document()
    indexed(text("退款", "# 退款\n\n三天内到账。\n", "退款说明"), "refund.md", "refunds")
    indexed(text("chargeback", "# Chargebacks\n\nAnswer within a week.\n", "Chargebacks"), "chargebacks.md", "disputes")
    assert {sample.question for sample in sample_questions()} == {
        "What does ERR_TIMEOUT mean",
        "What do the documents say about “chargeback”",
        "What does “退款说明” say",
    }
    assert "What does ERR_TIMEOUT mean" in html_of(page.get("/"))


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_sample_question_made_from_a_keyword_is_answered_exactly(language: str, bob: Any) -> None:
    gateway_document()
    indexed(text("chargeback", "# Chargebacks\n\nAnswer within a week.\n", "Chargebacks"), "chargebacks.md", "disputes")
    indexed(text("退款到账", "# 退款\n\n三天内到账。\n", "退款说明"), "refund.md", "refunds")
    with translation.override(language):
        samples = [sample.question for sample in sample_questions()]
    made_from_keywords = [each for each in samples if not re.search("讲了什么| say$", each)]
    assert len(made_from_keywords) == 2
    for question in made_from_keywords:
        assert ask(question, bob).message.lookups[0]["relevanceLevel"] == "PRECISE"


def test_hidden_documents_give_no_samples_and_cannot_be_read(page: Client) -> None:
    document = gateway_document()
    ApiDocument.objects.filter(pk=document.pk).update(enabled=False)
    assert sample_questions() == []
    html_of(page.get(f"/documents/{document.pk}/"), status=404)


# ---- Asking ----------------------------------------------------------------------------------------------------------
def test_a_form_without_script_leads_to_the_conversation(page: Client) -> None:
    gateway_document()
    answer = page.post("/ask/", {"message": "ERR_TIMEOUT"})
    session = ChatSession.objects.get()
    run = session.runs.get()
    assert answer["Location"] == f"/chat/{session.pk}/#turn-{run.pk}"
    html = html_of(page.get(f"/chat/{session.pk}/"))
    assert "Query the order first" in html
    assert "Looked up 1 time, used 1 document, stopped at an exact match" in html
    assert "Exact</span>" in html
    assert f'href="/sources/{Message.objects.get(role="assistant").pk}/1/"' in html
    # A score would look like 0.81; the seconds of a point in time may too.
    assert not re.search(r"0\.\d{2,}", re.sub(r"<time [^>]*>", "", html))


def test_the_script_gets_the_turn_as_html(page: Client) -> None:
    gateway_document()
    answer = page.post("/ask/", {"message": "ERR_TIMEOUT"}, headers={"X-Requested-With": "fetch"})
    body = answer.json()
    assert body["url"] == f"/chat/{body['session_id']}/"
    assert "k-cite" in body["turn"]
    assert body["title"] in body["side"]
    assert body["said"] == "Answer ready, 1 source."


@pytest.mark.parametrize(("message", "status"), [("", 400), ("a\x00b", 400), ("x" * 8001, 400)])
def test_a_refused_question_is_told_and_not_lost(message: str, status: int, page: Client) -> None:
    html = html_of(page.post("/ask/", {"message": message}), status=status)
    assert 'role="alert"' in html
    by_script = page.post("/ask/", {"message": message}, headers={"X-Requested-With": "fetch"})
    assert by_script.status_code == status
    assert by_script.json()["detail"]
    if message.startswith("x"):
        assert "x" * 8001 in html


def test_too_many_questions_are_told_with_the_time_to_wait(page: Client, settings: Any) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"chat": "1/min"}}
    page.post("/ask/", {"message": "ERR_TIMEOUT"})
    html = html_of(page.post("/ask/", {"message": "ERR_TIMEOUT"}), status=429)
    assert re.search(r"Too many questions\. Try again in \d+ seconds?\.", html)


def test_nothing_found_is_a_gap_with_a_dashed_ring(page: Client) -> None:
    gateway_document()
    page.post("/ask/", {"message": "how to bake rye bread"})
    html = html_of(page.get(f"/chat/{ChatSession.objects.get().pk}/"))
    assert '<div class="k-gap" data-answer><p>Nothing on this in the knowledge base.' in html
    assert "Nothing found</span>" in html
    assert "#i-miss" in html
    assert "k-source" not in html


def test_a_question_is_shown_as_text(page: Client) -> None:
    page.post("/ask/", {"message": "<script>window.x=1</script> <b>bold</b>"})
    session = ChatSession.objects.get()
    for address in (f"/chat/{session.pk}/", "/history/"):
        html = html_of(page.get(address))
        assert "<script>window.x" not in html
        assert "&lt;script&gt;window.x=1" in html


def test_a_document_cannot_bring_an_image_or_a_script_onto_the_page(page: Client) -> None:
    body = (
        "# Trap\n\nTRAP_CODE_1 ![p](https://evil.example/?q=1) <img src=x onerror=alert(1)> [go](javascript:alert(1))\n"
    )
    document = indexed(text("TRAP_CODE_1", body, "Trap"), "trap.md")
    page.post("/ask/", {"message": "TRAP_CODE_1"})
    answer = Message.objects.get(role="assistant")
    for address in (f"/chat/{answer.session_id}/", f"/sources/{answer.pk}/1/", f"/documents/{document.pk}/"):
        html = html_of(page.get(address))
        assert "<img" not in html
        assert 'href="javascript' not in html
        assert faults(html) == []


# ---- Sources ---------------------------------------------------------------------------------------------------------
def source_of(user: Any) -> tuple[str, Message]:
    answer = ask("ERR_TIMEOUT", user).message
    return f"/sources/{answer.pk}/1/", answer


def test_a_source_opens_at_its_section_with_the_passage_marked(page: Client, bob: Any) -> None:
    gateway_document()
    address, _answer = source_of(bob)
    html = html_of(page.get(address))
    marked = re.findall(r"<mark>(.*?)</mark>", html, re.S)
    assert any("The channel did not answer within 8 seconds." in each for each in marked)
    assert "payment/gateway-errors.md" in html
    drawer = page.get(address, headers={"X-Requested-With": "fetch"}).content.decode()
    assert "<html" not in drawer
    assert 'id="source-title"' in drawer


def test_a_source_whose_document_changed_shows_what_was_cited(page: Client, bob: Any) -> None:
    gateway_document()
    address, _answer = source_of(bob)
    indexed(text("ERR_TIMEOUT", "# Gateway errors\n\nAll new.\n", "Gateway errors"), "gateway-errors.md")
    html = html_of(page.get(address))
    assert "The document has changed since." in html
    assert "Query the order first" in html
    assert "All new." not in html


def test_a_source_whose_document_is_gone_shows_what_was_cited(page: Client, bob: Any) -> None:
    document = gateway_document()
    address, _answer = source_of(bob)
    ApiDocument.objects.filter(pk=document.pk).update(enabled=False)
    html = html_of(page.get(address))
    assert "The document is no longer in the knowledge base." in html
    assert "Query the order first" in html


def test_nobody_else_reads_a_conversation_or_its_sources(page: Client, charlie: Any) -> None:
    gateway_document()
    address, answer = source_of(charlie)
    for each in (address, f"/chat/{answer.session_id}/"):
        html_of(page.get(each), status=404)
    html_of(page.post(f"/chat/{answer.session_id}/delete/"), status=404)
    html_of(page.post("/ask/", {"message": "a", "session_id": str(answer.session_id)}), status=404)
    assert ChatSession.objects.filter(pk=answer.session_id).exists()


def test_an_unknown_source_is_a_404(page: Client, bob: Any) -> None:
    gateway_document()
    address, _answer = source_of(bob)
    html_of(page.get(address.replace("/1/", "/7/")), status=404)


# ---- Reading and history ---------------------------------------------------------------------------------------------
def test_a_document_is_read_whole_or_by_section(page: Client) -> None:
    document = gateway_document()
    whole = html_of(page.get(f"/documents/{document.pk}/"))
    assert "Which error means what" in whole
    assert whole.count("Gateway errors</h1>") == 1
    section = html_of(page.get(f"/documents/{document.pk}/", {"section": "ERR_SIGNATURE"}))
    assert "compare the key" in section
    assert "Which error means what" not in section
    assert GATEWAY.count("##") == 2


def test_an_own_conversation_can_be_deleted(page: Client, bob: Any) -> None:
    session = ask("ERR_TIMEOUT", bob).run.session
    assert "ERR_TIMEOUT" in html_of(page.get("/history/"))
    answer = page.post(f"/chat/{session.pk}/delete/", follow=True)
    assert "The conversation is deleted." in html_of(answer)
    assert not ChatSession.objects.exists()


def test_a_stale_form_is_told_as_a_page_of_ours(bob: Any) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Accept-Language": "en"})
    client.force_login(bob)
    html = html_of(client.post("/ask/", {"message": "ERR_TIMEOUT"}), status=403)
    assert "The form went stale" in html
    assert faults(html) == []
    assert not ChatSession.objects.exists()
