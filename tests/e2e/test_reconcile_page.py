"""The page of reconcile in Chromium: both buttons, in two languages, on a phone, in both themes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.registry import get_vector_store
from documents.models import ApiDocument
from tests.documents.library import indexed, text

Opens = Callable[..., Any]
PAGE = "/admin/reconcile/"
SCROLLS = "document.documentElement.scrollWidth > innerWidth"


@pytest.fixture
def broken(knowledge_base: Path) -> ApiDocument:
    """A document with a long name whose vectors are gone."""
    document = indexed(text(), "a-very-long-file-name-" * 6 + ".md")
    get_vector_store().discard(document.pk, 1)
    return document


def test_a_look_and_a_run_and_what_they_say(open_page: Opens, alice: Any, broken: ApiDocument) -> None:
    page = open_page(alice, "/admin/")
    page.get_by_role("link", name="Reconcile").click()
    page.get_by_text("No reconcile has run yet").wait_for()
    page.get_by_role("button", name="Look only").click()
    page.get_by_text("This was only a look: nothing was changed.").wait_for()
    assert broken.file_path in page.locator("table").first.inner_text()
    page.get_by_role("button", name="Run now").click()
    page.get_by_text("1 thing was mended.").wait_for()
    assert "alice" in page.get_by_role("region", name="Last runs").last.inner_text()


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True), (320, False)])
@pytest.mark.parametrize(("language", "words"), [("en-GB", "Run now"), ("zh-CN", "立即核对")])
def test_it_fits_and_is_in_the_readers_language(
    open_page: Opens, alice: Any, broken: ApiDocument, width: int, dark: bool, language: str, words: str
) -> None:
    page = open_page(alice, PAGE, width=width, language=language, dark=dark)
    page.get_by_role("button", name=words).click()
    page.locator("table").first.wait_for()
    assert not page.evaluate(SCROLLS)
    assert broken.file_path in page.locator("table").first.inner_text()
