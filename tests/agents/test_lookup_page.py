"""The lookup test page: who may see it, that its left side is the tool's answer to the byte, what it says of faults."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from agents.explanation import Hit
from agents.json_markup import json_markup
from agents.level_fit import save_calibration
from agents.lookup_page import HITS_SHOWN, shown_hits
from agents.tools import LOOKUP_TOOL, ToolContext, call_tool, text_for_model
from clients.interfaces import ClientError, LevelFit
from clients.registry import get_embedder, get_session_memory, get_vector_store, reset_clients
from documents.models import ToolInvocation
from retrieval.lookup_types import DocumentRef, TracedCandidate
from tests.documents.library import indexed, text, upload
from tests.doors import browser

pytestmark = pytest.mark.django_db
PAGE = "/admin/lookup-test/"
FORGET = "/admin/lookup-test/forget/"
CODE = "ERR_TIMEOUT"


class Model(HTMLParser):
    """The text that a browser shows on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = self.inside or (tag == "pre" and "data-model" in dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""


def left(html: str) -> str:
    parser = Model()
    parser.feed(html)
    return parser.text


@pytest.fixture
def staff(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


def trial(client: Client, query: str = CODE, *, status: int = 200, **more: str) -> str:
    answer = client.post(PAGE, {"query": query, **more})
    assert answer.status_code == status
    return answer.content.decode()


def as_agent(query: str, **more: Any) -> str:
    """What the tool gives for the same arguments."""
    context = ToolContext(principal="user:999", channel="chat", scope=more.pop("scope", None))
    return text_for_model(call_tool(LOOKUP_TOOL, {"query": query} | more, context).content)


# ---- Who may ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [PAGE, FORGET])
def test_the_nameless_are_sent_to_the_sign_in(client: Client, path: str) -> None:
    for answer in (client.get(path), client.post(path)):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/?next=")


@pytest.mark.parametrize("path", [PAGE, FORGET])
@pytest.mark.parametrize(("is_staff", "may_view"), [(False, False), (False, True), (True, False)])
def test_staff_without_the_right_and_others_are_refused(
    client: Client, bob: Any, path: str, is_staff: bool, may_view: bool
) -> None:
    bob.is_staff = is_staff
    bob.save()
    if may_view:
        bob.user_permissions.add(Permission.objects.get(codename="view_apidocument"))
    client.force_login(bob)
    assert client.post(path, {"query": CODE}).status_code == 403
    assert client.get(PAGE).status_code == 403
    assert PAGE not in client.get("/").content.decode()
    assert not ToolInvocation.objects.exists()


def test_a_curator_who_may_only_view_documents_may_test(client: Client, bob: Any) -> None:
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_apidocument"))
    client.force_login(bob)
    upload(text(CODE))
    html = trial(client)
    assert json.loads(left(html))["found"] is True
    assert reverse("admin:documents_toolinvocation_changelist") not in html
    assert f'href="{PAGE}"' in client.get("/").content.decode()


def test_a_foreign_page_cannot_make_a_trial(alice: Any) -> None:
    assert browser(alice).post(PAGE, {"query": CODE}).status_code == 403


def test_the_bar_leads_there_and_marks_it(staff: Client) -> None:
    assert f'<a href="{PAGE}" aria-current="page">Lookup test</a>' in staff.get(PAGE).content.decode()
    assert f'<a href="{PAGE}">Lookup test</a>' in staff.get(reverse("admin:index")).content.decode()


# ---- The left side ---------------------------------------------------------------------------------------------------
ODD = '# <b>&amp; "quoted" \\ </pre>\n\n网关：“超时”\u2028 😀\ttab {"a": [1]}\n\n## Empty: {}\n\nEnd.\n'


@pytest.mark.parametrize(
    "query", [CODE, "the gateway gives up after thirty seconds", "nothing of the kind", "超时 <script>", 'a "b" \\ c']
)
@pytest.mark.parametrize("body", ["# Time-outs\n\nThe gateway gives up after thirty seconds.\n", ODD])
def test_the_left_side_is_the_tools_answer_to_the_byte(staff: Client, query: str, body: str) -> None:
    indexed(text(CODE, body))
    assert left(trial(staff, query)) == as_agent(query)


def test_the_left_side_is_what_the_command_prints(staff: Client, capsys: pytest.CaptureFixture[str]) -> None:
    upload(text(CODE))
    shown = left(trial(staff))
    call_command("lookup", CODE, "--json")
    assert capsys.readouterr().out == shown + "\n"
    assert shown == json.dumps(json.loads(shown), ensure_ascii=False, indent=2)


@pytest.mark.parametrize("section", ["What to do", "no such section"])
def test_a_section_reaches_the_tool(staff: Client, section: str) -> None:
    indexed(text(CODE))
    shown = left(trial(staff, section=section))
    assert shown == as_agent(CODE, section_title=section)
    assert ("Ask the bank" in shown) == (section == "What to do")


def test_no_figure_of_the_right_side_stands_on_the_left(staff: Client) -> None:
    indexed(text("unrelated"))
    html = trial(staff, "the gateway gives up after thirty seconds")
    assert "Similarity" in html
    assert not {"similarity", "distance", "score"} & set(json.loads(left(html)))


def test_markup_leaves_every_character_where_it_was() -> None:
    source = json.dumps({"a": ['x "y": {z}', "\\", "</pre>&amp;"], "b{": {"c": None}}, indent=2)
    parser = Model()
    parser.feed(f"<pre data-model>{json_markup(source)}</pre>")
    assert parser.text == source


# ---- The right side --------------------------------------------------------------------------------------------------
def test_the_level_is_explained_and_the_shared_keyword_can_be_edited(staff: Client) -> None:
    first = indexed(text(CODE))
    second = indexed(text(CODE, "# Other\n\nSomething else.\n", "Other"), "other.md")
    html = trial(staff)
    assert "2 documents have a keyword in the query: not one alone, so not Exact." in html
    assert "It would be Exact if only “Payment time-outs” had the keyword “ERR_TIMEOUT”." in html
    for document in (first, second):
        assert reverse("admin:documents_apidocument_change", args=[document.pk]) in html
    assert "Shared: change the keywords" in html


def test_the_picture_has_its_places_as_attributes_and_no_style(staff: Client) -> None:
    indexed(text("unrelated"))
    html = trial(staff, "the gateway gives up after thirty seconds")
    assert '<svg class="k-scale" role="img" aria-label="Similarity: Payment time-outs 0.' in html
    main = html[html.index('id="content"') :]
    assert " style=" not in main
    assert "<style" not in main
    assert "<script" not in main


def test_many_matches_are_cut_and_what_was_served_stays() -> None:
    documents = [DocumentRef(number, f"{number}.md", "api", f"{number}") for number in range(40)]
    hits = [Hit(document, role="supplement" if document.document_id == 39 else "") for document in documents]
    shown = shown_hits(hits)
    assert len(shown) == HITS_SHOWN
    assert shown[-1].role == "supplement"


@pytest.mark.parametrize(("coverage", "shown"), [(0.768, "0.76"), (0.149, "0.14"), (0.7, "0.70"), (0.0, "0.00")])
def test_the_covered_share_is_rounded_in_the_table_as_in_the_sentences(coverage: float, shown: str) -> None:
    document = DocumentRef(1, "knowledge_base/a.md", "general", "A")
    hit = Hit(
        document, candidate=TracedCandidate(document, 0.5, 1, 0.9, 1, 3.2, True, similarity=0.3, coverage=coverage)
    )
    html = render_to_string("admin/lookup_test/hits.html", {"hits": [hit], "explanation": {"has_lexical": True}})
    assert f'<td class="num">{shown}</td></tr>' in html
    without = render_to_string("admin/lookup_test/hits.html", {"hits": [hit], "explanation": {"has_lexical": False}})
    assert '<td class="num">–</td></tr>' in without


def test_a_calibration_that_was_saved_is_what_the_page_shows(staff: Client) -> None:
    embedder = get_embedder()
    assert "fitted for hashing" in trial(staff)
    fit = LevelFit(highly_relevant=0.77, reference=0.22, fitted_on="here", date="2026-11-30")
    save_calibration(embedder=embedder.name, version=embedder.version, fit=fit, by="alice")
    html = trial(staff)
    assert "calibrated on this knowledge base" in html
    assert "fitted for hashing" not in html
    for figure in ("0.77", "0.22", "2026-11-30"):
        assert figure in html


def test_a_threshold_of_the_environment_is_named(staff: Client, settings: Any) -> None:
    settings.RETRIEVAL_REFERENCE_THRESHOLD = 0.13
    html = trial(staff)
    assert "0.13" in html
    assert "<code>RETRIEVAL_REFERENCE_THRESHOLD</code>" in html


def test_the_page_speaks_chinese(staff: Client) -> None:
    indexed(text(CODE))
    html = staff.post(PAGE, {"query": CODE}, headers={"Accept-Language": "zh-CN"}).content.decode()
    for words in ("检索试验", "为什么是这一级", "核对通过：“ERR_TIMEOUT”像编号一样", "精确匹配", "界线", "用时"):
        assert words in html
    for words in ("Why this level", "Check passed", "Hits", "Bounds", "Look up"):
        assert words not in html


# ---- What cannot be looked up ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"query": ""}, "Type what to look up"),
        ({"query": " \t "}, "Type what to look up"),
        ({}, "Type what to look up"),
        ({"query": "a" * 2001}, "The query has 2001 characters; 2000 are the limit."),
        ({"query": "a", "section": "b" * 501}, "The section title has 501 characters; 500 are the limit."),
        ({"query": "a\x00b"}, "Null characters are not allowed."),
        ({"query": "a", "memory": "perhaps"}, "Select a valid choice"),
        ({"again": "99999999"}, "Type what to look up"),
        ({"again": "9" * 40}, "Type what to look up"),
        ({"again": "²"}, "Type what to look up"),
    ],
)
def test_what_cannot_be_looked_up_is_said_beside_its_field(staff: Client, sent: dict[str, str], words: str) -> None:
    answer = staff.post(PAGE, sent)
    assert answer.status_code == 400
    html = answer.content.decode()
    assert words in html
    assert 'role="alert"' in html
    assert 'aria-invalid="true"' in html
    assert not ToolInvocation.objects.exists()


def test_what_was_typed_stays_in_the_form(staff: Client) -> None:
    assert "a" * 2001 in trial(staff, "a" * 2001, status=400)
    assert 'value="&lt;b&gt;"' in trial(staff, "<b>")


@pytest.mark.parametrize("query", ["a" * 2000, "中" * 2000, "%(x)s", "{{ 7 }}", "😀", "' OR 1=1 --"])
def test_an_odd_query_is_a_query(staff: Client, query: str) -> None:
    indexed(text(CODE))
    assert left(trial(staff, query)) == as_agent(query)


def test_a_link_may_bring_a_query_and_looks_nothing_up(staff: Client) -> None:
    html = staff.get(PAGE, {"query": "zebra"}).content.decode()
    assert 'value="zebra"' in html
    assert "What an agent would be given" in html
    assert not ToolInvocation.objects.exists()


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_other_methods_are_refused(staff: Client, method: str) -> None:
    assert getattr(staff, method)(PAGE).status_code == 405
    assert staff.get(FORGET).status_code == 405


# ---- Recorded, remembered, repeated ----------------------------------------------------------------------------------
def test_a_trial_is_recorded_as_one_of_the_admin(staff: Client, alice: Any) -> None:
    upload(text(CODE))
    html = trial(staff)
    row = ToolInvocation.objects.get()
    assert (row.channel, row.principal, row.query, row.relevance_level) == (
        "admin",
        f"user:{alice.pk}",
        CODE,
        "PRECISE",
    )
    assert (row.session_id, row.run_id) == ("", "")
    assert reverse("admin:documents_toolinvocation_change", args=[row.pk]) in html


def test_a_record_that_cannot_be_written_is_said_and_breaks_nothing(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(text(CODE))
    monkeypatch.setattr("agents.tools.record_call", lambda **_: None)
    html = trial(staff)
    assert "This lookup could not be recorded" in html
    assert json.loads(left(html))["relevanceLevel"] == "PRECISE"


def test_nothing_is_remembered_unless_asked(staff: Client) -> None:
    upload(text(CODE))
    levels = [json.loads(left(trial(staff)))["relevanceLevel"] for _ in range(2)]
    assert levels == ["PRECISE", "PRECISE"]


def test_remembered_trials_share_a_memory_until_it_is_forgotten(staff: Client) -> None:
    upload(text(CODE))
    first, second = (json.loads(left(trial(staff, memory="on")))["relevanceLevel"] for _ in range(2))
    assert (first, second) == ("PRECISE", "DEDUPED")
    assert FORGET in staff.get(PAGE).content.decode()
    answer = staff.post(FORGET, follow=True)
    assert "Forgotten" in answer.content.decode()
    assert f'action="{FORGET}"' not in answer.content.decode()
    assert json.loads(left(trial(staff, memory="on")))["relevanceLevel"] == "PRECISE"


def test_two_curators_do_not_share_a_memory(staff: Client, django_user_model: Any) -> None:
    upload(text(CODE))
    trial(staff, memory="on")
    other = Client()
    other.force_login(django_user_model.objects.create_superuser("dora", password="dora-pass-1"))
    assert json.loads(left(trial(other, memory="on")))["relevanceLevel"] == "PRECISE"


def test_a_memory_that_is_down_is_said_and_forgotten_all_the_same(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(text(CODE))
    trial(staff, memory="on")

    def fail(*_: Any, **__: Any) -> Any:
        raise ClientError("no route to Redis", code="memory_unavailable", retryable=True)

    for name in ("clear", "marked", "claim", "append", "values"):
        monkeypatch.setattr(get_session_memory(), name, fail)
    assert "The memory does not answer: what was given before may be given again." in trial(staff, memory="on")
    page = staff.post(FORGET, follow=True).content.decode()
    assert "no route to Redis" in page
    monkeypatch.undo()
    assert json.loads(left(trial(staff, memory="on")))["relevanceLevel"] == "PRECISE"


def test_an_earlier_trial_is_repeated_with_its_conditions(staff: Client) -> None:
    indexed(text(CODE))
    trial(staff, section="What to do", memory="on")
    row = ToolInvocation.objects.get()
    html = staff.post(PAGE, {"again": str(row.pk), "query": "ignored"}).content.decode()
    assert 'value="What to do"' in html
    again = ToolInvocation.objects.first()
    assert again is not None
    assert (again.query, again.arguments["section_title"], again.session_id) == (CODE, "What to do", row.session_id)
    assert again.pk != row.pk


def test_what_was_tried_several_times_stands_in_the_list_once(staff: Client) -> None:
    for query in ("one", "two", "one", "one"):
        trial(staff, query)
    assert staff.get(PAGE).content.decode().count('name="again"') == 2


def test_the_list_holds_ones_own_trials_only(staff: Client, bob: Any) -> None:
    other = ToolInvocation.objects.create(
        channel="admin", tool_name=LOOKUP_TOOL, principal=f"user:{bob.pk}", query="bobs own", found=True
    )
    as_agent("an agents own")
    html = staff.get(PAGE).content.decode()
    assert "bobs own" not in html
    assert "an agents own" not in html
    assert staff.post(PAGE, {"again": str(other.pk)}).status_code == 400


# ---- Parts that fail -------------------------------------------------------------------------------------------------
def down(*_: Any, **__: Any) -> Any:
    raise ClientError("no route to the store", code="store_unavailable", retryable=True)


def test_a_store_that_is_down_is_said_with_the_reason(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(text(CODE))
    indexed(text(CODE, "# Other\n\nSomething else.\n", "Other"), "other.md")
    monkeypatch.setattr(get_vector_store(), "search", down)
    html = trial(staff)
    assert "The vector store is down. Keyword lookups work; search by meaning is left out." in html
    assert "no route to the store" in html
    assert json.loads(left(html))["relevanceLevel"] == "REFERENCE"
    assert "no route" not in left(html)


def test_an_embedder_that_fails_is_said(staff: Client, settings: Any) -> None:
    indexed(text("unrelated"))
    settings.CLIENTS = {**settings.CLIENTS, "embedder": {"BACKEND": "tests.agents.test_lookup_page.SilentEmbedder"}}
    reset_clients()
    html = trial(staff, "the gateway gives up after thirty seconds")
    assert "The embedder does not answer. Keyword lookups work; search by meaning is left out." in html
    assert "With the embedder back" in html


def test_an_embedder_without_meaning_is_said(staff: Client) -> None:
    assert "This embedder (hashing) knows letters, not meaning." in trial(staff)


class SilentEmbedder:
    """Answers nothing."""

    name, version, dimension, lexical, own_level_space = "silent", "1", 8, False, False
    fit = LevelFit(highly_relevant=0.75, reference=0.5)

    embed_query = embed_documents = level_cosines = staticmethod(down)
