"""The pages of domains: who wrote each text, what the model is at, and the map as the Planner gets it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from documents.domains import ensure_aggregations, recompute_now
from documents.knowledge_map import knowledge_map
from documents.models import ApiDocument, DomainAggregation, KnowledgeDomain, LlmJob
from tests.documents.admin_pages import readable
from tests.documents.enriching import model  # noqa: F401 (a fixture)
from tests.documents.library import indexed, text, upload

pytestmark = pytest.mark.django_db(transaction=True)
LIST = reverse("admin:documents_knowledgedomain_changelist")
MAP = reverse("admin:documents_map")
FILE = reverse("admin:documents_map_file")
Source = KnowledgeDomain.TextSource
State = LlmJob.State


@pytest.fixture
def curator(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def payment() -> KnowledgeDomain:
    """A domain with one document and the summaries that stand in by themselves."""
    indexed(text())
    domain = recompute_now("payment")
    ensure_aggregations()
    return domain


def page_of(domain: KnowledgeDomain) -> str:
    return reverse("admin:documents_knowledgedomain_change", args=[domain.pk])


def press(client: Client, domain: KnowledgeDomain, do: str) -> Any:
    return client.post(reverse("admin:documents_domain_do", args=[domain.pk]), {"do": do}, follow=True)


def written(domain: KnowledgeDomain, **columns: Any) -> KnowledgeDomain:
    KnowledgeDomain.objects.filter(pk=domain.pk).update(**columns)
    domain.refresh_from_db()
    return domain


def job(domain: KnowledgeDomain, **columns: Any) -> None:
    DomainAggregation.objects.filter(pk=domain.pk).update(**columns)


# ---- List and page -------------------------------------------------------------------------------------------------
def test_the_list_says_who_wrote_each_text(curator: Client, payment: KnowledgeDomain) -> None:
    written(payment, description="Payments", description_source=Source.CURATOR, when_to_retrieve_source=Source.MODEL)
    words = readable(curator.get(LIST))
    assert "Payments a curator" in words
    assert "the model" in words
    assert "plain summary" not in words
    written(payment, description_source=Source.PLAIN)
    assert "plain summary" in readable(curator.get(LIST))


@pytest.mark.usefixtures("model")
def test_the_models_work_is_said_with_its_reason(curator: Client, payment: KnowledgeDomain) -> None:
    assert "Waits for the model" in readable(curator.get(LIST))
    job(payment, state=State.FAILED, reason="It answered with a poem.")
    for address in (LIST, page_of(payment)):
        words = readable(curator.get(address))
        assert "The model failed" in words
        assert "It answered with a poem." in words


def test_without_a_model_it_is_said_how_one_is_set_up(curator: Client, payment: KnowledgeDomain) -> None:
    page = curator.get(page_of(payment))
    assert "No model is set up" in readable(page)
    assert reverse("setup") in page.content.decode()
    assert 'value="ask"' not in page.content.decode()


def test_the_page_leads_to_the_domains_documents(curator: Client, payment: KnowledgeDomain) -> None:
    upload(text("OTHER", title="Elsewhere"), "other.md", "api")
    address = f"{reverse('admin:documents_apidocument_changelist')}?category=payment"
    assert address in curator.get(page_of(payment)).content.decode()
    words = readable(curator.get(address))
    assert "payment/timeouts.md" in words
    assert "api/other.md" not in words


def test_hostile_texts_stay_text(curator: Client, payment: KnowledgeDomain) -> None:
    written(payment, description="<script>alert(1)</script>", when_to_retrieve="<img src=x>")
    for address in (LIST, page_of(payment), MAP):
        page = curator.get(address).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x>" not in page


# ---- A curator's own words -----------------------------------------------------------------------------------------
def test_what_is_typed_is_the_curators_and_emptied_it_is_the_programs_at_once(
    curator: Client, payment: KnowledgeDomain
) -> None:
    plain = payment.description
    assert plain
    typed = {"description": "  Money that moves ", "when_to_retrieve": payment.when_to_retrieve}
    curator.post(page_of(payment), typed)
    payment.refresh_from_db()
    assert (payment.description, payment.description_source) == ("Money that moves", Source.CURATOR)
    assert payment.when_to_retrieve_source == Source.PLAIN
    recompute_now("payment")
    payment.refresh_from_db()
    assert payment.description == "Money that moves"
    curator.post(page_of(payment), {**typed, "description": "  "})
    payment.refresh_from_db()
    assert (payment.description, payment.description_source) == (plain, Source.PLAIN)


def test_a_text_is_handed_back_with_a_button(curator: Client, payment: KnowledgeDomain) -> None:
    plain = payment.description
    assert "hand-back:" not in curator.get(page_of(payment)).content.decode()
    written(payment, description="Mine", description_source=Source.CURATOR)
    assert 'value="hand-back:description"' in curator.get(page_of(payment)).content.decode()
    assert "Handed back" in readable(press(curator, payment, "hand-back:description"))
    payment.refresh_from_db()
    assert (payment.description, payment.description_source) == (plain, Source.PLAIN)


@pytest.mark.usefixtures("model")
def test_a_text_that_is_handed_back_asks_the_model(curator: Client, payment: KnowledgeDomain) -> None:
    written(payment, when_to_retrieve="Mine", when_to_retrieve_source=Source.CURATOR)
    curator.post(page_of(payment), {"description": payment.description, "when_to_retrieve": ""})
    assert DomainAggregation.objects.get(pk=payment.pk).asked == 1


def test_computing_again_counts_and_keeps_a_curators_words(curator: Client, payment: KnowledgeDomain) -> None:
    written(payment, description="Mine", description_source=Source.CURATOR, document_count=99, when_to_retrieve="old")
    assert "Computed again" in readable(press(curator, payment, "compute"))
    payment.refresh_from_db()
    assert (payment.document_count, payment.description) == (1, "Mine")
    assert payment.when_to_retrieve != "old"


@pytest.mark.usefixtures("model")
def test_the_model_is_asked_again_where_there_is_something_to_ask(curator: Client, payment: KnowledgeDomain) -> None:
    job(payment, state=State.FAILED, reason="x")
    assert "The model is asked again." in readable(press(curator, payment, "ask"))
    row = DomainAggregation.objects.get(pk=payment.pk)
    assert (row.state, row.asked) == (State.WAITING, 1)
    written(payment, description_source=Source.CURATOR, when_to_retrieve_source=Source.CURATOR)
    assert "There is nothing to ask" in readable(press(curator, payment, "ask"))


def test_buttons_that_are_not_there_and_a_missing_model_do_nothing(curator: Client, payment: KnowledgeDomain) -> None:
    assert "OPENAI_MODEL" in readable(press(curator, payment, "ask"))
    for do in ("", "hand-back:domain_id", "drop"):
        assert "Choose one of the buttons" in readable(press(curator, payment, do))
    before = payment.domain_id
    payment.refresh_from_db()
    assert payment.domain_id == before
    assert curator.get(reverse("admin:documents_domain_do", args=[payment.pk])).status_code == 405


def test_several_are_computed_by_one_action(curator: Client, payment: KnowledgeDomain) -> None:
    upload(text("OTHER", title="Elsewhere"), "other.md", "api")
    KnowledgeDomain.objects.update(document_count=99)
    ids = list(KnowledgeDomain.objects.values_list("pk", flat=True))
    page = curator.post(LIST, {"action": "compute_selected", "_selected_action": ids}, follow=True)
    assert readable(page).count("Computed again") == 1
    assert list(KnowledgeDomain.objects.values_list("document_count", flat=True)) == [1, 1]


# ---- The map -------------------------------------------------------------------------------------------------------
def test_the_map_stands_there_word_for_word_with_its_length(
    curator: Client, payment: KnowledgeDomain, settings: Any
) -> None:
    page = curator.get(MAP)
    assert page.context["map"] == knowledge_map()
    assert "domain_id: payment" in readable(page)
    assert f"{len(knowledge_map())} of at most {settings.KNOWLEDGE_MAP_MAX_CHARS} characters" in readable(page)
    assert "1 domain" in readable(page)
    assert "left out" not in readable(page)
    file = curator.get(FILE)
    assert file.content.decode() == knowledge_map()
    assert "attachment" in file["Content-Disposition"]


def test_what_the_map_leaves_out_is_counted(curator: Client, settings: Any) -> None:
    for number in range(12):
        upload(text(f"K{number}", title=f"Document number {number} about a matter of its own"), f"{number}.md")
    recompute_now("payment")
    settings.KNOWLEDGE_MAP_MAX_CHARS = 1_400
    words = readable(curator.get(MAP))
    shown = knowledge_map().count("- title:")
    assert 0 < shown < 12
    assert f"{12 - shown} documents are left out." in words
    assert "KNOWLEDGE_MAP_MAX_CHARS" in words


def test_an_empty_map_says_what_fills_it(curator: Client, payment: KnowledgeDomain) -> None:
    ApiDocument.objects.update(enabled=False)
    words = readable(curator.get(MAP))
    assert "The map is empty" in words
    assert knowledge_map().strip() in words


def test_the_pages_speak_chinese(curator: Client, payment: KnowledgeDomain) -> None:
    chinese = {"accept-language": "zh-hans"}
    assert "自动摘要" in readable(curator.get(LIST, headers=chinese))
    assert "重新汇总" in readable(curator.get(page_of(payment), headers=chinese))
    assert "规划器看到的知识库" in readable(curator.get(MAP, headers=chinese))


# ---- Who may -------------------------------------------------------------------------------------------------------
def test_who_may_look_at_domains_sees_the_map_and_changes_nothing(
    client: Client, bob: Any, payment: KnowledgeDomain
) -> None:
    bob.is_staff = True
    bob.save()
    client.force_login(bob)
    assert client.get(MAP).status_code == client.get(FILE).status_code == 403
    bob.user_permissions.add(Permission.objects.get(codename="view_knowledgedomain"))
    assert client.get(MAP).status_code == client.get(FILE).status_code == 200
    assert client.get(page_of(payment)).status_code == 200
    assert press(client, payment, "compute").status_code == 403
