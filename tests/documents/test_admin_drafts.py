"""The drafts page: what a model proposed is decided beside the document, and nothing typed is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from documents import enrichment_review as review
from documents import services
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from tests.documents.admin_pages import (
    BARE,
    DRAFTS,
    LIST,
    buttons,
    draft,
    drafts_page,
    found_by,
    job,
    noted,
    readable,
    with_draft,
)
from tests.documents.enriching import model  # noqa: F401 (a fixture)
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db(transaction=True)
NEXT = reverse("admin:documents_drafts")


@pytest.fixture
def curator(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


def press(client: Client, document: ApiDocument, do: str, **more: Any) -> Any:
    """Press a button of the page as it stands now; what follows is the page that it leads to."""
    document.refresh_from_db()
    return client.post(drafts_page(document), {"do": do, "revision": document.revision, **more}, follow=True)


def on_disk(knowledge_base: Path, name: str = "payment/channel-b.md") -> str:
    return (knowledge_base / name).read_text(encoding="utf-8")


# ---- What is shown -------------------------------------------------------------------------------------------------
def test_the_document_stands_beside_what_is_proposed_and_who_wrote_what(curator: Client) -> None:
    document = with_draft(f"---\ntitle: The author's title\n---\n{BARE}", title=None)
    page = curator.get(drafts_page(document))
    words = readable(page)
    assert "The clock may be 300 seconds off" in words
    assert "Author’s own The author's title" in words
    assert words.count("Draft by model") == 4
    assert words.count("used in the map already") == 2
    assert "1 of 5 decided" in words
    assert "Accept the other 4" in words
    assert "accept:summary,keywords,covers,when_to_retrieve" in buttons(page)
    assert not any("title" in button for button in buttons(page))


def test_a_hostile_document_and_hostile_drafts_stay_text(curator: Client) -> None:
    evil = "<script>alert(1)</script> ![x](http://evil.example/x.png) [y](javascript:alert(2))"
    page = curator.get(drafts_page(with_draft(f"# Bad\n\n{evil}\n", summary=evil, keywords=[evil]))).content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert page.count("&lt;script&gt;alert(1)") >= 3


def test_the_drafts_are_gone_through_one_after_another(curator: Client) -> None:
    first, second, third = (with_draft(BARE + name, f"{name}.md") for name in ("a", "b", "c"))
    assert curator.get(NEXT).url == drafts_page(first)  # type: ignore[attr-defined]
    page = curator.get(drafts_page(second))
    assert "Draft 2 of 3" in readable(page)
    assert drafts_page(first) in page.content.decode()
    assert drafts_page(third) in page.content.decode()
    review.reject(second.pk, None, user=None)
    words = readable(curator.get(drafts_page(second)))
    assert "2 documents wait" in words
    assert "All is decided here." in words


def test_without_drafts_the_page_says_so_and_names_what_a_model_needs(curator: Client) -> None:
    words = readable(curator.get(NEXT))
    assert "No drafts: the model has proposed nothing that waits for a decision." in words
    assert "OPENAI_MODEL" in words


def test_a_keyword_of_other_documents_is_said_and_can_be_left_out(curator: Client) -> None:
    other = indexed(text("channel B", title="Another channel"), "other.md")
    document = with_draft()
    page = curator.get(drafts_page(document))
    assert "Also belongs to Another channel" in readable(page)
    assert reverse("admin:documents_apidocument_change", args=[other.pk]) in page.content.decode()
    editor = curator.get(drafts_page(document), {"edit": "keywords", "without": "channel B"}).content.decode()
    assert ">\nB-4013</textarea>" in editor


def test_without_a_model_it_is_said_and_drafts_can_be_decided_all_the_same(curator: Client) -> None:
    document = with_draft()
    page = curator.get(drafts_page(document))
    assert "No model is set up." in readable(page)
    assert not any(button.startswith("ask") for button in buttons(page))
    press(curator, document, "accept:keywords")
    assert found_by("B-4013") == [document.pk]


@pytest.mark.usefixtures("model")
def test_why_the_model_failed_is_said_with_a_button_to_try_again(curator: Client) -> None:
    document = indexed(BARE)
    job(document, state=LlmJob.State.FAILED, reason="It answered with a poem.", attempts=5)
    page = curator.get(drafts_page(document))
    assert "The model failed" in readable(page)
    assert "It answered with a poem." in readable(page)
    assert "ask" in buttons(page)
    assert "The model is asked again." in readable(press(curator, document, "ask"))
    row = DocumentEnrichment.objects.get(pk=document.pk)
    assert (row.state, row.reason, row.asked) == (LlmJob.State.WAITING, "", 1)
    waiting = curator.get(drafts_page(document))
    assert "Waits for the model" in readable(waiting)
    assert curator.get(f"{drafts_page(document)}state/").json() == {"busy": True}


@pytest.mark.usefixtures("model")
def test_a_hidden_document_waits_for_no_model(curator: Client) -> None:
    document = indexed(BARE)
    job(document, state=LlmJob.State.WAITING)
    services.set_enabled(document_id=document.pk, enabled=False)
    assert "Waits until the document is no longer hidden" in readable(curator.get(drafts_page(document)))
    assert curator.get(f"{drafts_page(document)}state/").json() == {"busy": False}


def test_a_header_that_cannot_be_read_takes_nothing_in(curator: Client, knowledge_base: Path) -> None:
    broken = "---\ntitle: x\nkeywords: [A\n---\nbody\n"
    document = with_draft(broken)
    page = curator.get(drafts_page(document))
    assert "The file’s header cannot be read." in readable(page)
    assert document.frontmatter_problem in readable(page)
    assert not any(button.startswith("accept") for button in buttons(page))
    assert "dismiss:summary" in buttons(page)
    words = readable(press(curator, document, "accept:summary"))
    assert "cannot be read" in words
    assert on_disk(knowledge_base) == broken


def test_of_a_document_that_is_being_deleted_nothing_is_decided(curator: Client) -> None:
    document = with_draft()
    ApiDocument.objects.update(status=ApiDocument.Status.DELETING)
    page = curator.get(drafts_page(document))
    assert "This document is being deleted." in readable(page)
    assert buttons(page) == []
    assert press(curator, document, "dismiss:summary").status_code == 200
    document.refresh_from_db()
    assert document.generated["summary"]["state"] == "draft"


def test_a_document_that_is_gone_leads_back_to_the_list(curator: Client) -> None:
    page = curator.get(drafts_page(4711), follow=True)
    assert page.redirect_chain == [(LIST, 302)]
    assert "That document is gone" in readable(page)


def test_the_page_speaks_chinese(curator: Client) -> None:
    document = with_draft()
    words = readable(curator.get(drafts_page(document), headers={"accept-language": "zh-hans"}))
    for word in ("草稿审阅", "全部采纳（5 项）", "模型草稿", "适用场景", "还没有配置模型。", "放弃"):
        assert word in words
    assert "Draft" not in words.replace(DRAFTS["title"], "")


# ---- Deciding --------------------------------------------------------------------------------------------------------
def test_accepted_keywords_stand_in_the_file_and_find_the_document(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    assert found_by("B-4013") == []
    page = press(curator, document, "accept:keywords")
    assert page.redirect_chain == [(f"{drafts_page(document)}#keywords", 302)]
    assert "In the header now: Keywords." in readable(page)
    assert "undo:keywords" in buttons(page)
    assert "keywords: [B-4013, channel B]" in on_disk(knowledge_base)
    assert on_disk(knowledge_base).endswith(BARE)
    assert found_by("B-4013") == [document.pk]
    assert noted(document) == ["Accepted the model’s draft: Keywords."]


def test_all_open_drafts_are_accepted_with_one_button_as_one_revision(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    button = next(each for each in buttons(curator.get(drafts_page(document))) if each.startswith("accept:title,"))
    words = readable(press(curator, document, button))
    assert "5 of 5 decided" in words
    document.refresh_from_db()
    assert document.revision == 2
    assert document.title == DRAFTS["title"]
    for line in ("title: Channel B onboarding", "- A rejected signature", "when_to_retrieve: When a question"):
        assert line in on_disk(knowledge_base).replace("[Connecting a merchant, ", "- ")


def test_an_edited_draft_is_a_persons_own_and_shows_what_was_changed(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    page = press(curator, document, "save:keywords", value=" B-4013 \r\n\r\nchannel B go-live\r\n")
    assert "It is a person’s own now" in readable(page)
    assert "keywords: [B-4013, channel B go-live]" in on_disk(knowledge_base)
    assert found_by("channel B go-live") == [document.pk]
    document.refresh_from_db()
    assert document.generated["keywords"]["state"] == "edited"
    assert "<ins> go-live</ins>" in page.content.decode().replace("-</ins><ins>", "-")
    assert noted(document) == ["Edited and accepted the model’s draft: Keywords."]


def test_an_accepted_text_is_taken_out_again(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    press(curator, document, "accept:summary,keywords")
    page = press(curator, document, "undo:summary,keywords")
    assert "A draft again: Summary, Keywords." in readable(page)
    assert "summary" not in on_disk(knowledge_base)
    assert found_by("B-4013") == []
    document.refresh_from_db()
    assert {document.generated[field]["state"] for field in ("summary", "keywords")} == {"draft"}
    assert document.revision == 3


def test_a_dismissed_draft_is_brought_back(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    page = press(curator, document, "dismiss:when_to_retrieve")
    assert "Dismissed: When to retrieve." in readable(page)
    assert "restore:when_to_retrieve" in buttons(page)
    document.refresh_from_db()
    assert document.generated["when_to_retrieve"]["state"] == "rejected"
    press(curator, document, "restore:when_to_retrieve")
    document.refresh_from_db()
    assert document.generated["when_to_retrieve"]["state"] == "draft"
    assert on_disk(knowledge_base) == BARE
    assert len(noted(document)) == 2


@pytest.mark.usefixtures("model")
def test_one_field_is_asked_for_again_and_the_others_stay(curator: Client) -> None:
    document = with_draft()
    assert "The model is asked again: Summary." in readable(press(curator, document, "ask:summary"))
    document.refresh_from_db()
    assert [field for field, entry in document.generated.items() if entry.get("renew")] == ["summary"]
    assert noted(document) == ["Asked the model again: Summary."]


# ---- Somebody else was quicker ---------------------------------------------------------------------------------------
def test_an_edit_for_an_older_revision_is_refused_and_what_was_typed_stays(
    curator: Client, knowledge_base: Path
) -> None:
    document = with_draft()
    services.replace_text(document_id=document.pk, data=(BARE + "More.\n").encode(), revision=1, user=None)
    sent = {"do": "save:summary", "revision": "1", "value": "My own words"}
    page = curator.post(drafts_page(document), sent)
    assert page.status_code == 409
    assert "Somebody else changed this document meanwhile: it is at revision 2 now" in readable(page)
    assert ">\nMy own words</textarea>" in page.content.decode()
    assert "More." in readable(page)
    assert on_disk(knowledge_base) == BARE + "More.\n"
    assert 'name="revision" value="2"' in page.content.decode()
    curator.post(drafts_page(document), {**sent, "revision": "2"})
    assert "summary: My own words" in on_disk(knowledge_base)


def test_what_was_typed_for_a_field_that_is_decided_by_now_is_shown_to_be_copied(curator: Client) -> None:
    document = with_draft()
    review.accept(document.pk, ["summary"], revision=None, user=None)
    page = curator.post(drafts_page(document), {"do": "save:summary", "revision": "1", "value": "My own words"})
    assert page.status_code == 409
    assert "Not saved." in readable(page)
    assert "This was typed: My own words" in readable(page)


def test_accepting_for_an_older_revision_changes_nothing(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    services.replace_text(document_id=document.pk, data=(BARE + "More.\n").encode(), revision=1, user=None)
    page = curator.post(drafts_page(document), {"do": "accept:summary", "revision": "1"}, follow=True)
    assert "Somebody else changed this document meanwhile" in readable(page)
    assert on_disk(knowledge_base) == BARE + "More.\n"


def test_a_draft_that_nobody_has_looked_at_is_not_accepted_unseen(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    page = curator.get(drafts_page(document)).content.decode()
    assert page.count('name="seen-summary" value="2026-04-12T09:42:00+00:00"') == 1
    document.generated["summary"] |= {"value": "Another one", "made_at": "2026-04-12T10:00:00+00:00"}
    document.save(update_fields=["generated"])
    words = readable(press(curator, document, "accept:summary", **{"seen-summary": "2026-04-12T09:42:00+00:00"}))
    assert "The model has written another draft meanwhile." in words
    assert on_disk(knowledge_base) == BARE


def test_an_empty_box_is_refused_in_its_place(curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    page = curator.post(drafts_page(document), {"do": "save:keywords", "revision": "1", "value": " \r\n "})
    assert page.status_code == 400
    assert "The box is empty." in readable(page)
    assert 'aria-invalid="true"' in page.content.decode()
    assert on_disk(knowledge_base) == BARE


@pytest.mark.parametrize("do", ["", "nonsense:summary", "accept:", "accept:category", "save:"])
def test_what_no_button_sends_does_nothing(do: str, curator: Client, knowledge_base: Path) -> None:
    document = with_draft()
    assert "Choose one of the buttons of the page." in readable(press(curator, document, do))
    assert on_disk(knowledge_base) == BARE
    assert noted(document) == []


# ---- Who may ---------------------------------------------------------------------------------------------------------
def test_only_who_may_change_documents_sees_and_decides(client: Client, bob: Any) -> None:
    document = with_draft()
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_apidocument"))
    client.force_login(bob)
    assert client.get(LIST).status_code == 200
    for address in (NEXT, drafts_page(document), f"{drafts_page(document)}state/"):
        assert client.get(address).status_code == 403
    assert client.post(drafts_page(document), {"do": "dismiss:summary"}).status_code == 403
    document.refresh_from_db()
    assert document.generated["summary"]["state"] == "draft"
    assert ">Drafts</a>" not in client.get(LIST).content.decode()


def test_a_form_without_its_token_is_refused(alice: Any) -> None:
    document = with_draft()
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.post(drafts_page(document), {"do": "dismiss:summary"}).status_code == 403


def test_looking_changes_nothing(curator: Client) -> None:
    document = with_draft()
    curator.get(drafts_page(document), {"do": "dismiss:summary", "edit": "summary"})
    draft(document)
    document.refresh_from_db()
    assert {entry["state"] for entry in document.generated.values()} == {"draft"}
