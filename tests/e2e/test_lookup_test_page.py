"""The lookup test page in Chromium: look up, read why, copy, repeat, forget; by keyboard, on a phone, in the dark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from documents.models import ToolInvocation
from tests.documents.library import indexed, text
from tests.e2e.test_admin_pages import SCROLLS, unlabelled

Opens = Callable[..., Any]
PAGE = "/admin/lookup-test/"
CODE = "ERR_TIMEOUT"
QUESTION = "The gateway gives up after thirty seconds"


@pytest.fixture
def documents() -> None:
    """Two that share a keyword, one of them with a long name, and one found by meaning alone."""
    indexed(text(CODE))
    indexed(text(CODE, "# Other\n\nSomething else.\n", "Averylongtitlewithoutanyspace" * 4), "other.md")
    indexed(text("unrelated", "# Gateways\n\nThe gateway gives up.\n", "Gateways"), "gateways.md")


def look_up(page: Any, query: str) -> dict[str, Any]:
    """Type a query, press Enter; what the model would get."""
    page.locator("#id_query").fill(query)
    page.keyboard.press("Enter")
    page.locator("#why").wait_for()
    found: dict[str, Any] = json.loads(page.locator("pre[data-model]").text_content())
    return found


def test_a_curator_looks_up_copies_and_repeats_with_one_click(open_page: Opens, alice: Any, documents: None) -> None:
    page = open_page(alice)
    page.get_by_role("link", name="Lookup test").click()
    page.wait_for_url(f"**{PAGE}")
    assert page.evaluate("document.activeElement.id") == "id_query"
    found = look_up(page, CODE)
    assert found["relevanceLevel"] in {"REFERENCE", "HIGHLY_RELEVANT"}
    assert "not one alone" in page.locator(".k-why").inner_text()
    assert "It would be Exact if" in page.locator(".k-changes").inner_text()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("status").filter(has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("pre[data-model]").text_content()
    look_up(page, "zebra crossing")
    page.get_by_role("button", name=CODE, exact=True).click()
    page.locator(".k-changes").filter(has_text="It would be Exact if").wait_for()
    assert page.locator("#id_query").input_value() == CODE
    assert ToolInvocation.objects.filter(channel="admin").count() == 3


def test_a_remembered_trial_is_withheld_the_second_time_until_forgotten(
    open_page: Opens, alice: Any, documents: None
) -> None:
    page = open_page(alice, PAGE)
    page.get_by_label("Memory").select_option("on")
    assert look_up(page, "unrelated")["relevanceLevel"] == "PRECISE"
    assert page.get_by_label("Memory").input_value() == "on"
    assert look_up(page, "unrelated")["relevanceLevel"] == "DEDUPED"
    page.get_by_role("button", name="Forget").click()
    page.get_by_text("Forgotten").wait_for()
    page.get_by_label("Memory").select_option("on")
    assert look_up(page, "unrelated")["relevanceLevel"] == "PRECISE"


def test_a_blank_and_a_long_query_are_answered_in_words(open_page: Opens, alice: Any) -> None:
    page = open_page(alice, PAGE, expected="400")
    for query, words in (("   ", "Type what to look up"), ("a" * 2001, "The query has 2001 characters")):
        page.locator("#id_query").evaluate("(field, query) => { field.required = false; field.value = query; }", query)
        page.get_by_role("button", name="Look up").click()
        page.get_by_role("alert").filter(has_text=words).wait_for()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_nothing_scrolls_sideways_and_the_page_has_its_basics(
    language: str, width: int, dark: bool, open_page: Opens, alice: Any, documents: None
) -> None:
    page = open_page(alice, PAGE, width=width, height=844, language=language, dark=dark)
    for query in ("", CODE, QUESTION, "unrelated", "zebra"):
        if query:
            look_up(page, query)
        assert not page.evaluate(SCROLLS), query
        assert page.locator("h1").inner_text() == ("Lookup test" if language == "en-GB" else "检索试验")
        assert page.locator("html").get_attribute("lang") == ("en" if language == "en-GB" else "zh-hans")
        assert unlabelled(page) == []
        assert covered(page) == []
        assert page.get_by_role("link", name=re.compile("^(Dashboards|看板)$")).first.is_visible()


def covered(page: Any) -> list[str]:
    """Figures of the scale that lie on one another."""
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".k-scale text")].map((text) => {
            const { x, y, width, height } = text.getBoundingClientRect();
            return { said: text.textContent, x, y, width, height };
        })"""
    )
    return [
        f"{one['said']} {other['said']}"
        for place, one in enumerate(boxes)
        for other in boxes[place + 1 :]
        if one["x"] < other["x"] + other["width"]
        and other["x"] < one["x"] + one["width"]
        and abs(one["y"] - other["y"]) < min(one["height"], other["height"]) / 2
    ]


def test_every_stop_of_the_keyboard_shows_its_focus(open_page: Opens, alice: Any, documents: None) -> None:
    page = open_page(alice, PAGE)
    look_up(page, CODE)
    page.locator("#id_query").focus()
    seen = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        stop = page.evaluate(
            """() => { const at = document.activeElement, style = getComputedStyle(at);
                return { name: at.tagName + (at.id || at.textContent.trim().slice(0, 20)),
                    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
                    inside: Boolean(at.closest("#content")) }; }"""
        )
        if stop["inside"]:
            assert stop["outlined"], stop["name"]
            seen.add(stop["name"].split("\n")[0])
    assert any(name.startswith("BUTTON") and "Copy" in name for name in seen)
    assert any(name.startswith("PRE") for name in seen)
    assert any(name.startswith("SUMMARY") for name in seen)
