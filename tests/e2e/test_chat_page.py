"""The chat page in Chromium: asked by keyboard, answered with sources, opened beside the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.models import Message, Run
from tests.agents.asking import gateway_document
from tests.documents.library import indexed, text

Opens = Callable[..., Any]


def ask(page: Any, question: str) -> Any:
    """Type and send by keyboard; the turn that came of it."""
    before = page.locator("[data-turn]").count()
    page.locator(".k-composer textarea:visible").fill(question)
    page.keyboard.press("Enter")
    turn = page.locator("[data-turn]").nth(before)
    turn.wait_for()
    return turn


def test_a_question_is_asked_and_its_source_opened_by_keyboard(open_page: Opens, bob: Any) -> None:
    gateway_document()
    page = open_page(bob)
    turn = ask(page, "ERR_TIMEOUT")
    assert "Query the order first" in turn.inner_text()
    assert page.url.endswith(f"/chat/{Run.objects.get().session_id}/")
    assert page.locator("[data-status]").inner_text() == "Answer ready, 1 source."
    turn.locator(".k-cite").first.focus()
    page.keyboard.press("Enter")
    drawer = page.locator(".k-drawer[open]")
    drawer.locator("mark").first.wait_for()
    assert "The channel did not answer" in " ".join(drawer.locator("mark").all_inner_texts())
    assert turn.locator(".k-source").get_attribute("aria-current") == "true"
    page.keyboard.press("Escape")
    assert not drawer.is_visible()
    assert page.evaluate("document.activeElement.className") == "k-cite"


def test_a_conversation_survives_a_reload(open_page: Opens, bob: Any) -> None:
    gateway_document()
    page = open_page(bob)
    ask(page, "ERR_TIMEOUT")
    ask(page, "ERR_TIMEOUT")
    page.reload()
    turns = page.locator("[data-turn]")
    assert turns.count() == 2
    for turn in turns.all():
        assert "Query the order first" in turn.inner_text()
        assert turn.locator(".k-source").count() == 1
        assert "Exact" in turn.locator(".k-source").inner_text()
    assert page.locator("[data-history] a[aria-current=page]").inner_text() == "ERR_TIMEOUT"


def test_shift_enter_breaks_the_line_and_an_input_method_keeps_its_enter(open_page: Opens, bob: Any) -> None:
    page = open_page(bob)
    area = page.locator(".k-composer textarea:visible")
    area.fill("first")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second")
    assert area.input_value() == "first\nsecond"
    area.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True, "cancelable": True})
    assert page.locator("[data-turn], [aria-busy]").count() == 0
    page.locator("h1").first.click()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"


def test_a_sample_question_is_asked_by_a_click(open_page: Opens, bob: Any) -> None:
    gateway_document()
    page = open_page(bob)
    page.get_by_text("What does ERR_TIMEOUT mean").click()
    page.locator("[data-turn]").wait_for()
    assert Run.objects.get().question == "What does ERR_TIMEOUT mean"


def test_answer_again_makes_a_new_turn(open_page: Opens, bob: Any) -> None:
    gateway_document()
    page = open_page(bob)
    ask(page, "ERR_TIMEOUT").get_by_label("Answer again").click()
    page.locator("[data-turn]").nth(1).wait_for()
    assert Message.objects.filter(role="assistant").count() == 2


def test_a_server_that_is_gone_is_told_and_the_question_kept(open_page: Opens, bob: Any) -> None:
    page = open_page(bob, expected="ERR_FAILED")
    page.route("**/ask/", lambda route: route.abort())
    page.locator(".k-composer textarea:visible").fill("ERR_TIMEOUT")
    page.keyboard.press("Enter")
    alert = page.locator("[role=alert]")
    alert.wait_for()
    assert "The site did not answer." in alert.inner_text()
    page.unroute("**/ask/")
    alert.get_by_role("button", name="Ask again").click()
    page.locator("[data-turn]").wait_for()
    assert page.locator("[role=alert]").count() == 0


def test_waiting_can_be_stopped_with_escape(open_page: Opens, bob: Any) -> None:
    page = open_page(bob)
    page.route("**/ask/", lambda route: None)  # never answered
    page.locator(".k-composer textarea:visible").fill("ERR_TIMEOUT")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("Stopped waiting.").wait_for()
    assert page.get_by_role("button", name="Send").is_visible()
    page.unroute_all(behavior="ignoreErrors")


def test_the_language_switch_and_the_theme_switch(open_page: Opens, bob: Any) -> None:
    page = open_page(bob)
    assert page.locator("h1").inner_text() == "What are you looking for?"
    page.get_by_role("button", name="中文").click()
    page.get_by_text("想查什么？").wait_for()
    assert page.locator("html").get_attribute("lang") == "zh-hans"
    for theme in ("light", "dark", "auto"):
        page.get_by_label("切换明暗").click()
        assert page.locator("html").get_attribute("data-theme") == theme


def test_on_a_phone_one_menu_leads_everywhere_and_nothing_scrolls_sideways(open_page: Opens, bob: Any) -> None:
    gateway_document()
    page = open_page(bob, width=390, height=844, language="zh-CN", dark=True)
    ask(page, "ERR_TIMEOUT 怎么办")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_label("菜单").click()
    page.get_by_role("link", name="提问历史").click()
    page.get_by_role("heading", name="提问历史").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_script_the_form_asks_all_the_same(chromium: Any, live_server: Any, bob: Any) -> None:
    gateway_document()
    context = chromium.new_context(java_script_enabled=False, locale="en-GB")
    page = context.new_page()
    page.goto(live_server.url + "/")
    page.fill("#id_username", "bob")
    page.fill("#id_password", "bob-pass-1")
    page.get_by_role("button", name="Sign in").click()
    page.locator(".k-composer textarea:visible").fill("ERR_TIMEOUT")
    page.get_by_role("button", name="Send").click()
    page.locator("[data-turn]").wait_for()
    page.locator(".k-source").click()
    assert page.locator("mark").count() > 0
    context.close()


def test_nothing_of_a_bad_document_runs_or_is_loaded(open_page: Opens, shared_data: Path, bob: Any) -> None:
    cases = json.loads((shared_data / "bad_inputs.json").read_text(encoding="utf-8"))["cases"]
    payloads = [case["input"] for case in cases if case["surface"].startswith("render.")]
    # In parts, so that each payload is inside the passages that are shown.
    for number in range(0, len(payloads), 4):
        body = "\n\n".join(f"TRAP_{number}X line\n\n{payload}" for payload in payloads[number : number + 4])
        indexed(text(f"TRAP_{number}X", f"# Trap\n\n{body}\n", "Trap"), f"trap-{number}.md")
    page = open_page(bob)
    for number in range(0, len(payloads), 4):
        turn = ask(page, f"TRAP_{number}X")
        turn.locator(".k-source").first.click()
        page.locator(".k-drawer[open]").wait_for()
        page.keyboard.press("Escape")
        assert page.evaluate("window.__xss") is None


@pytest.mark.parametrize("path", ["/", "/history/", "/setup/"])
@pytest.mark.parametrize("width", [1440, 390, 320])
def test_no_page_scrolls_sideways(path: str, width: int, open_page: Opens, bob: Any) -> None:
    gateway_document()
    page = open_page(bob, path, width=width, height=844)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
