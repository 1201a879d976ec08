"""The curators' story in Chromium: the model proposes, a person accepts with one change, a lookup finds it by that."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from documents.domains import ensure_aggregations, recompute_dirty
from documents.models import ApiDocument, KnowledgeDomain, LlmJob
from documents.worker import run_due_jobs
from tests.documents.admin_pages import BARE, job, with_draft
from tests.documents.enriching import Model, model, run_all  # noqa: F401 (a fixture)
from tests.documents.library import indexed, text
from tests.e2e.test_admin_pages import SCROLLS, file, outside, put_up, unlabelled

Opens = Callable[..., Any]
LIST = "/admin/documents/apidocument/"
DOMAINS = "/admin/documents/knowledgedomain/"
WRITTEN: dict[str, Any] = {
    "title": "Channel B onboarding",
    "summary": "The clock may be off by 300 seconds at most, else the channel answers B-4013.",
    "keywords": ["B-4013", "clock off"],
    "covers": ["A request is rejected for its clock"],
    "when_to_retrieve": "When a request is rejected with B-4013.",
}


def drafts_of(document: ApiDocument) -> str:
    return f"{LIST}{document.pk}/drafts/"


def field(page: Any, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def looked_up(page: Any, query: str) -> str:
    """The level of a lookup on the test page."""
    page.get_by_label("Query").fill(query)
    page.keyboard.press("Enter")
    page.get_by_role("button", name=query, exact=True).wait_for()
    return str(page.locator("[aria-labelledby=why] .k-level").inner_text())


def test_a_document_without_a_header_is_found_by_the_keyword_that_a_curator_corrected(
    open_page: Opens,
    alice: Any,
    knowledge_base: Path,
    model: Model,  # noqa: F811
) -> None:
    page = open_page(alice, f"{LIST}add/")
    put_up(page, file("channel-b.md", BARE))
    run_due_jobs()
    model.write(**WRITTEN)
    assert run_all() == 1
    page.goto(page.url.replace("add/", ""))
    page.get_by_role("link", name="5 drafts to decide").click()
    assert page.get_by_role("link", name="Drafts", exact=True).get_attribute("aria-current") == "page"
    assert "The clock may be 300 seconds off" in field(page, "Document").inner_text()

    field(page, "Keywords").get_by_role("link", name="Edit").click()
    box = page.get_by_role("textbox", name="Keywords")
    assert box.input_value() == "B-4013\nclock off"
    assert box.evaluate("box => box === document.activeElement")
    box.fill("B-4013\nclock skew")
    page.get_by_role("button", name="Save", exact=True).click()
    toast = page.get_by_role("status").filter(has_text="It is a person’s own now")
    toast.wait_for()
    assert toast.get_by_role("button", name="Undo").is_visible()
    page.get_by_role("button", name="Accept the other 4").click()
    page.get_by_text("5 of 5 decided").wait_for()
    assert "All is decided here." in page.locator("#content").inner_text()

    stored = (knowledge_base / "payment" / "channel-b.md").read_text(encoding="utf-8")
    assert "keywords: [B-4013, clock skew]" in stored
    assert stored.endswith(BARE)
    page.get_by_role("link", name="Lookup test").click()
    assert looked_up(page, "clock skew") == "Exact"
    assert "channel-b.md" in page.locator("[data-model]").inner_text()
    assert looked_up(page, "clock off") != "Exact"


def test_what_was_done_is_undone_from_the_message_and_the_message_is_closed(open_page: Opens, alice: Any) -> None:
    document = with_draft()
    page = open_page(alice, drafts_of(document))
    field(page, "Summary").get_by_role("button", name="Dismiss").click()
    toast = page.locator(".k-toast")
    toast.get_by_role("button", name="Undo").click()
    toast.filter(has_text="A draft again: Summary.").wait_for()
    assert "Draft by model" in field(page, "Summary").inner_text()
    toast.get_by_label("Close").click()
    toast.wait_for(state="detached")
    field(page, "Summary").get_by_role("button", name="Accept").press("Enter")
    toast.filter(has_text="In the header now: Summary.").wait_for()
    assert page.url.endswith("#summary")


def test_the_page_and_the_list_show_by_themselves_what_the_model_has_written(
    open_page: Opens,
    alice: Any,
    model: Model,  # noqa: F811
) -> None:
    document = indexed(BARE, "channel-b.md")
    job(document, state=LlmJob.State.WAITING, seen_hash="")
    listed, page = open_page(alice, LIST), open_page(alice, drafts_of(document))
    page.get_by_text("Waits for the model").wait_for()
    listed.get_by_text("The model has read 0 of 1 documents").wait_for()
    model.write(**WRITTEN)
    assert run_all() == 1
    page.get_by_text("Draft by model").first.wait_for()
    listed.get_by_text("5 drafts to decide").wait_for()
    assert listed.get_by_role("link", name="1 document with drafts").is_visible()


def test_what_a_curator_types_survives_that_somebody_else_was_quicker(open_page: Opens, alice: Any) -> None:
    document = with_draft()
    mine, theirs = (open_page(alice, drafts_of(document), expected="409 (Conflict)") for _ in range(2))
    field(mine, "Summary").get_by_role("link", name="Edit").click()
    mine.get_by_role("textbox", name="Summary").fill("My own words")
    field(theirs, "Title").get_by_role("button", name="Accept").click()
    theirs.locator(".k-toast").wait_for()
    mine.get_by_role("button", name="Save", exact=True).click()
    mine.get_by_role("alert").filter(has_text="Somebody else changed this document meanwhile").wait_for()
    assert mine.get_by_role("textbox", name="Summary").input_value() == "My own words"
    mine.get_by_role("button", name="Save", exact=True).click()
    mine.locator(".k-toast").filter(has_text="Saved: Summary.").wait_for()


def test_a_domains_text_is_a_curators_and_handed_back(open_page: Opens, alice: Any) -> None:
    indexed(text())
    recompute_dirty(force=True)
    page = open_page(alice, DOMAINS)
    page.get_by_role("link", name="payment").click()
    page.get_by_label("Description:").fill("Money that moves")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_role("button", name="Hand the description back").click()
    page.locator(".messagelist").filter(has_text="Handed back").wait_for()
    assert page.get_by_label("Description:").input_value() == "Payment time-outs"
    page.get_by_role("link", name="Knowledge map").click()
    page.get_by_role("region", name="The map as YAML").filter(has_text="domain_id: payment").wait_for()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("status").filter(has_text="Copied").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "domain_id: payment" in Path(download.value.path()).read_text(encoding="utf-8")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_no_page_of_the_models_work_scrolls_sideways_and_each_has_its_basics(
    language: str, width: int, dark: bool, open_page: Opens, alice: Any
) -> None:
    empty = open_page(alice, f"{LIST}drafts/", width=width, height=844, language=language, dark=dark)
    base = empty.url.removesuffix(f"{LIST}drafts/")
    assert not empty.evaluate(SCROLLS)
    long = "a-very-long-word-that-nothing-breaks-" * 6
    document = with_draft(f"# {long}\n\n```\n{long}{long}\n```\n", keywords=[long, "ERR_TIMEOUT"], covers=[long])
    indexed(text(title=long), "other.md")
    failed = indexed(BARE, "failed.md")
    job(failed, state=LlmJob.State.FAILED, reason=long)
    recompute_dirty(force=True)
    ensure_aggregations()
    page = open_page(alice, drafts_of(document), width=width, height=844, language=language, dark=dark)
    domain = f"{DOMAINS}{KnowledgeDomain.objects.get().pk}/change/"
    own = [
        drafts_of(document),
        f"{drafts_of(document)}?edit=keywords",
        drafts_of(failed),
        f"{LIST}{document.pk}/change/",
    ]
    for path in [*own, LIST, DOMAINS, domain, f"{DOMAINS}map/"]:
        page.goto(base + path)
        assert not page.evaluate(SCROLLS), path
        assert page.locator("h1").count() == 1, path
        assert page.title().endswith(" · kbsite")
        assert unlabelled(page) == [], path
        assert outside(page) == [], path
        assert page.get_by_role("link", name=re.compile("^(Drafts|草稿审阅)$")).is_visible(), path
