"""A real browser against the real site on its own port. Where there is none, the tests are skipped with the reason."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Playwright's synchronous interface runs an event loop in this thread; Django's guard would take it for an async view.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests, from CHROMIUM or from the usual places."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (requirements/dev.txt)")
    found = os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)
    if not found:
        pytest.skip("no Chromium on this machine: install one, or name it in the variable CHROMIUM")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, live_server: Any, settings: Any) -> Iterator[Callable[..., Any]]:
    """``open_page(user, path="/", width=1440, height=900, language="en-GB", dark=False)``: a signed-in page.

    When the test ends, errors on the console and requests to other hosts fail it; ``expected`` is part of an error that
    the test brings about itself.
    """
    contexts: list[Any] = []
    faults: list[str] = []

    excused: list[str] = []

    def opened(
        user: Any,
        path: str = "/",
        *,
        width: int = 1440,
        height: int = 900,
        language: str = "en-GB",
        dark: bool = False,
        expected: str = "",
    ) -> Any:
        excused.extend([expected] if expected else [])
        context = chromium.new_context(
            viewport={"width": width, "height": height}, locale=language, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        if user is not None:
            context.add_cookies([_session_cookie(user, live_server.url, settings)])
        page = context.new_page()
        page.set_default_timeout(15_000)
        _watch(page, live_server.url, faults)
        page.goto(live_server.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [fault for fault in faults if not any(each in fault for each in excused)] == []


def _session_cookie(user: Any, url: str, settings: Any) -> dict[str, str]:
    from django.test import Client

    client = Client()
    client.force_login(user)
    return {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
        "url": url,
    }


def _watch(page: Any, url: str, faults: list[str]) -> None:
    def console(message: Any) -> None:
        if message.type == "error":
            faults.append(f"console: {message.text}")

    def request(asked: Any) -> None:
        if not asked.url.startswith((url, "data:", "blob:")):
            faults.append(f"request to another host: {asked.url}")

    page.on("console", console)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", request)
