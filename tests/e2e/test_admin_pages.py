"""The curators' pages in Chromium: upload, edit, disable, delete; in two languages, on a phone, in both themes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from documents.models import ApiDocument
from documents.worker import run_due_jobs
from tests.documents.library import indexed, text

Opens = Callable[..., Any]
LIST = "/admin/documents/apidocument/"
ADD = f"{LIST}add/"
BROKEN = "---\ntitle: x\nkeywords: [A\n---\nbody\n"
SCROLLS = "document.documentElement.scrollWidth > innerWidth"


def file(name: str, content: str) -> dict[str, Any]:
    return {"name": name, "mimeType": "text/plain", "buffer": content.encode()}


def put_up(page: Any, *files: dict[str, Any], domain: str = "payment") -> list[str]:
    """Choose files and send them; the line of each on the page that follows."""
    page.get_by_label(re.compile("Domain|领域")).fill(domain)
    page.locator("input[type=file]").set_input_files(list(files))
    page.get_by_role("button", name=re.compile("^(Upload|上传)$")).click()
    page.locator("#results").wait_for()
    return list(page.locator("li.k-prog").all_inner_texts())


def change_page(document: ApiDocument) -> str:
    return f"{LIST}{document.pk}/change/"


@pytest.fixture
def documents() -> list[ApiDocument]:
    """One with all that is good, one with a broken header and long names."""
    long = "a-very-long-file-name-" * 6
    return [indexed(text()), indexed(BROKEN, f"{long}.md", "release")]


def test_a_curator_signs_in_and_uploads_two_files_at_once(open_page: Opens, alice: Any) -> None:
    page = open_page(None, ADD)
    page.get_by_label("Name").fill("alice")
    page.get_by_label("Password").fill("alice-pass-1")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Upload documents").wait_for()
    good, refused = put_up(page, file("timeouts.md", text()), file("notes.txt", "not Markdown"))
    assert "timeouts.md" in good
    assert "Saved, found by keyword" in good
    assert "notes.txt" in refused
    assert "Not taken" in refused
    assert ".md" in refused.replace("timeouts.md", "")
    document = ApiDocument.objects.get()
    page.get_by_role("link", name="To the list of documents").click()
    row = page.locator("#result_list tbody tr")
    row.wait_for()
    assert row.count() == 1
    assert "Payment time-outs" in row.inner_text()
    assert "Waiting" in row.inner_text()
    assert "Found by keyword already." in row.inner_text()
    run_due_jobs()
    page.reload()
    assert "Indexed" in row.inner_text()
    document.refresh_from_db()
    assert document.uploaded_by == alice


def test_the_list_shows_the_vectors_arriving_without_a_reload_by_hand(open_page: Opens, alice: Any) -> None:
    page = open_page(alice, ADD)
    put_up(page, file("timeouts.md", text()))
    page.goto(page.url.replace(ADD, LIST))
    assert page.get_by_role("progressbar").is_visible()
    assert page.get_by_role("status").filter(has_text="0 of 1 documents").count() == 1
    run_due_jobs()
    page.locator("#result_list").get_by_text("Indexed", exact=True).wait_for()
    assert not page.locator("#progress").is_visible()


def test_a_text_is_edited_and_published_as_a_new_revision(
    open_page: Opens, alice: Any, knowledge_base: Path, documents: list[ApiDocument]
) -> None:
    page = open_page(alice, change_page(documents[0]))
    area = page.get_by_label("Text:")
    area.fill(area.input_value().replace("ERR_TIMEOUT", "ERR_OTHER"))
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(".messagelist").wait_for()
    assert "changed successfully" in page.locator(".messagelist").inner_text()
    assert "ERR_OTHER" in (knowledge_base / "payment" / "timeouts.md").read_text(encoding="utf-8")
    assert ApiDocument.objects.get(pk=documents[0].pk).revision == 2
    page.locator("#searchbar").fill("ERR_OTHER")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=ERR_OTHER**")
    assert page.locator("#result_list tbody tr").count() == 1


def test_who_edits_what_somebody_else_changed_is_told_and_keeps_the_text(
    open_page: Opens, alice: Any, documents: list[ApiDocument]
) -> None:
    mine, theirs = (open_page(alice, change_page(documents[0])) for _ in range(2))
    for page, word in ((theirs, "their words"), (mine, "my words")):
        area = page.get_by_label("Text:")
        area.fill(area.input_value() + f"\n{word}\n")
        page.get_by_role("button", name="Save and continue editing").click()
        page.locator(".messagelist, .errornote").first.wait_for()
    assert "Somebody else changed this document" in mine.locator(".errorlist").first.inner_text()
    assert "my words" in mine.get_by_label("Text:").input_value()


def test_a_document_is_disabled_and_then_deleted_after_a_question(
    open_page: Opens, alice: Any, documents: list[ApiDocument]
) -> None:
    page = open_page(alice, change_page(documents[0]))
    page.get_by_label("enabled").uncheck()
    page.get_by_role("button", name="Save", exact=True).click()
    row = page.locator("#result_list tbody tr").filter(has_text="Payment time-outs")
    row.wait_for()
    assert "Disabled" in row.inner_text()
    row.get_by_role("link").click()
    page.get_by_role("link", name="Delete").click()
    page.get_by_text("Are you sure").first.wait_for()
    assert ApiDocument.objects.filter(pk=documents[0].pk).exists()
    page.get_by_role("button", name=re.compile("Yes")).click()
    page.locator(".messagelist").wait_for()
    assert not ApiDocument.objects.filter(pk=documents[0].pk).exists()
    assert page.locator("#result_list tbody tr").count() == 1


def test_several_are_disabled_by_one_action(open_page: Opens, alice: Any, documents: list[ApiDocument]) -> None:
    page = open_page(alice, LIST)
    page.locator("#action-toggle").check()
    page.get_by_label("Action:").select_option(label="Disable")
    page.get_by_role("button", name="Go").click()
    page.locator(".messagelist").wait_for()
    assert "2 documents" in page.locator(".messagelist").inner_text()
    assert not ApiDocument.objects.filter(enabled=True).exists()


def test_the_pages_speak_chinese(open_page: Opens, alice: Any, documents: list[ApiDocument]) -> None:
    page = open_page(alice, LIST, language="zh-CN")
    assert page.locator("html").get_attribute("lang") == "zh-hans"
    assert page.locator("h1").inner_text() == "文档"
    table = page.locator("#result_list").inner_text()
    for word in ("标题", "状态", "领域", "关键词", "已索引", "缺关键词"):
        assert word in table
    assert "Indexed" not in table
    page.get_by_role("link", name="上传文档").click()
    good, refused, same = put_up(
        page, file("b.md", text("ERR_B")), file("notes.txt", "x"), file("timeouts.md", text()), domain="payment"
    )
    for line in (good, refused, same):
        assert re.search("[一-鿿]", line)
        assert not re.search("Saved|Not taken|Nothing changed", line)


def test_a_key_is_shown_once_in_chinese(open_page: Opens, alice: Any) -> None:
    page = open_page(alice, "/admin/documents/apikey/add/", language="zh-CN")
    assert not re.search("Name|Expires|Revoked|free-form", page.locator("#content").inner_text())
    page.get_by_label("名称").fill("ci")
    page.get_by_role("button", name="保存", exact=True).click()
    page.locator(".messagelist .warning").get_by_text("密钥“ci”").wait_for()
    assert "Prefix" not in page.locator("#result_list").inner_text()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_no_page_scrolls_sideways_and_each_has_its_basics(
    language: str, width: int, dark: bool, open_page: Opens, alice: Any, documents: list[ApiDocument]
) -> None:
    page = open_page(alice, LIST, width=width, height=844, language=language, dark=dark)
    base = page.url.removesuffix(LIST)
    own = [change_page(document) for document in documents]
    more = ["knowledgedomain/", "documenthistory/", "toolinvocation/", "apikey/", "apikey/add/"]
    for path in ["/admin/", LIST, ADD, *own, *(f"/admin/documents/{each}" for each in more)]:
        page.goto(base + path)
        assert not page.evaluate(SCROLLS), path
        assert page.locator("h1").count() == 1, path
        assert page.locator("html").get_attribute("lang") == ("en" if language == "en-GB" else "zh-hans")
        assert page.title().endswith(" · kbsite")
        assert unlabelled(page) == [], path
        assert outside(page) == [], path
        assert page.get_by_role("link", name=re.compile("^(Dashboards|看板)$")).first.is_visible(), path


def outside(page: Any) -> list[str]:
    """Fields of a form that reach beyond its frame, where one cannot see their end."""
    found = page.evaluate(
        """() => [...document.querySelectorAll(".module .form-row :is(input, select, textarea, .select2)")]
            .filter((field) => field.checkVisibility() && !field.matches(".select2-hidden-accessible"))
            .filter((field) => field.getBoundingClientRect().right
                > field.closest(".module").getBoundingClientRect().right)
            .map((field) => field.id || field.className)"""
    )
    return list(found)


def unlabelled(page: Any) -> list[str]:
    """Fields that one can see and that have no name for those who can't."""
    found = page.evaluate(
        """() => [...document.querySelectorAll("input:not([type=hidden],[type=submit]), select, textarea, button")]
            .filter((field) => field.checkVisibility())
            .filter((field) => !field.labels?.length && !field.ariaLabel && !field.title
                && !field.getAttribute("aria-labelledby") && !field.textContent.trim())
            .map((field) => field.outerHTML)"""
    )
    return list(found)
