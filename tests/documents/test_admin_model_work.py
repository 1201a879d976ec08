"""The document list and one document, with what a language model does: marks, filters, figures, actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from documents.enrichment import PARTIAL
from documents.llm_pause import pause
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from tests.documents.admin_pages import BARE, LIST, drafts_page, found_by, job, noted, readable, with_draft
from tests.documents.enriching import model  # noqa: F401 (a fixture)
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db(transaction=True)
PROGRESS = reverse("admin:documents_progress")
RETRY = reverse("admin:documents_retry_model")
State = LlmJob.State


@pytest.fixture
def curator(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def five() -> dict[str, ApiDocument]:
    """One document for each thing that can be the matter with the model's work."""
    made = {"open": with_draft(name="open.md")}
    for name in ("failed", "waiting", "running", "done"):
        made[name] = indexed(BARE + name, f"{name}.md")
        job(made[name], state=name.upper(), reason="It answered with a poem." if name == "failed" else "")
    return made


def act(client: Client, action: str, *documents: ApiDocument) -> Any:
    return client.post(LIST, {"action": action, "_selected_action": [one.pk for one in documents]}, follow=True)


def names(page: Any) -> list[str]:
    """Which files the list shows."""
    words = readable(page)
    return [name for name in ("open", "failed", "waiting", "running", "done") if f"payment/{name}.md" in words]


# ---- The list ------------------------------------------------------------------------------------------------------
def test_a_document_with_drafts_is_marked_and_leads_to_them(curator: Client) -> None:
    document = with_draft(title=None, summary=None)
    page = curator.get(LIST)
    assert "3 drafts to decide" in readable(page)
    assert drafts_page(document) in page.content.decode()


def test_a_document_that_the_model_failed_on_or_wrote_in_part_is_marked(curator: Client) -> None:
    document = indexed(text())
    assert "The model" not in readable(curator.get(LIST))
    job(document, state=State.FAILED, reason="x")
    assert "The model failed" in readable(curator.get(LIST))
    job(document, state=State.FAILED, reason="x", error_code=PARTIAL)
    assert "Written in part" in readable(curator.get(LIST))


@pytest.mark.parametrize(
    ("chosen", "shown"), [("open", ["open"]), ("failed", ["failed"]), ("waiting", ["waiting", "running"])]
)
def test_the_list_is_narrowed_by_the_models_work(
    chosen: str, shown: list[str], curator: Client, five: dict[str, ApiDocument]
) -> None:
    assert names(curator.get(LIST, {"drafts": chosen})) == shown


@pytest.mark.usefixtures("model", "five")
def test_the_figures_of_the_models_work_stand_above_the_list(curator: Client) -> None:
    counts = curator.get(PROGRESS).json()["model"]
    assert counts == {"total": 5, "written": 2, "waiting": 2, "failed": 1, "drafts": 1, "trouble": ""}
    page = curator.get(LIST)
    words = readable(page)
    for sentence in ("The model has read 2 of 5 documents", "The model failed on 1 document", "1 document with drafts"):
        assert sentence in words
    assert RETRY in page.content.decode()
    assert reverse("admin:documents_drafts") in page.content.decode()


@pytest.mark.usefixtures("five")
def test_without_a_model_the_list_waits_for_nothing(curator: Client) -> None:
    assert curator.get(PROGRESS).json()["model"]["waiting"] == 0
    assert "The model has read" not in readable(curator.get(LIST))


@pytest.mark.usefixtures("model")
def test_that_the_model_does_not_answer_just_now_is_said(curator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "_reason", "No route to the endpoint.")
    words = readable(curator.get(LIST))
    assert "The model does not answer just now; it is asked again by itself. No route to the endpoint." in words


def test_a_list_without_the_models_work_says_nothing_of_it(curator: Client) -> None:
    indexed(text())
    assert 'id="model-progress" data-waiting="0" hidden' in curator.get(LIST).content.decode()


@pytest.mark.usefixtures("model")
def test_all_that_failed_are_asked_for_again_with_one_button(curator: Client, five: dict[str, ApiDocument]) -> None:
    assert curator.get(RETRY).status_code == 405
    page = curator.post(RETRY, follow=True)
    assert "The model is asked again about 1 document." in readable(page)
    row = DocumentEnrichment.objects.get(pk=five["failed"].pk)
    assert (row.state, row.asked) == (State.WAITING, 1)
    assert DocumentEnrichment.objects.get(pk=five["done"].pk).state == State.DONE


def test_without_a_model_nothing_is_asked_again_and_the_settings_are_named(
    curator: Client, five: dict[str, ApiDocument]
) -> None:
    for page in (curator.post(RETRY, follow=True), act(curator, "ask_model_again", five["done"])):
        assert "OPENAI_MODEL" in readable(page)
    assert not DocumentEnrichment.objects.exclude(asked=0).exists()


# ---- The selected ones ---------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("model")
def test_the_model_is_asked_again_about_the_selected(curator: Client, five: dict[str, ApiDocument]) -> None:
    page = act(curator, "ask_model_again", five["open"], five["done"])
    assert "The model is asked again about 2 documents." in readable(page)
    asked = DocumentEnrichment.objects.filter(asked=1).values_list("pk", flat=True)
    assert set(asked) == {five["open"].pk, five["done"].pk}
    assert noted(five["open"]) == ["Asked the model again."]
    assert noted(five["failed"]) == []


def test_the_drafts_of_the_selected_are_accepted_and_one_that_is_refused_holds_up_no_other(
    curator: Client, knowledge_base: Path
) -> None:
    good, plain = with_draft(name="good.md"), indexed(BARE + "x", "plain.md")
    broken = with_draft("---\ntitle: x\nkeywords: [A\n---\nbody\n", "broken.md")
    words = readable(act(curator, "accept_drafts", broken, good, plain))
    assert "Done for 1 document." in words
    assert "cannot be read" in words
    assert "summary:" in (knowledge_base / "payment" / "good.md").read_text(encoding="utf-8")
    assert found_by("B-4013") == [good.pk]
    assert noted(good) == ["Accepted all drafts of the model."]
    assert noted(plain) == noted(broken) == []
    assert "None of the selected documents has a draft." in readable(act(curator, "accept_drafts", good, plain))


def test_who_may_only_look_may_not_ask_or_accept(client: Client, bob: Any) -> None:
    document = with_draft()
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_apidocument"))
    client.force_login(bob)
    assert client.post(RETRY).status_code == 403
    act(client, "accept_drafts", document)
    document.refresh_from_db()
    assert document.revision == 1
    assert "document with drafts" not in readable(client.get(LIST))


# ---- One document --------------------------------------------------------------------------------------------------
def test_the_page_of_a_document_shows_its_drafts_in_short(curator: Client) -> None:
    document = with_draft(title=None, covers=None, when_to_retrieve=None)
    page = curator.get(reverse("admin:documents_apidocument_change", args=[document.pk]))
    assert "To decide: Summary, Keywords." in readable(page)
    assert drafts_page(document) in page.content.decode()


def test_asking_for_the_list_costs_no_query_a_document(curator: Client, django_assert_max_num_queries: Any) -> None:
    for number in range(12):
        job(indexed(BARE + str(number), f"{number}.md"), state=State.DONE)
    curator.get(LIST)
    with django_assert_max_num_queries(20):
        curator.get(LIST)
