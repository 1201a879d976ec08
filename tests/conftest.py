"""Fixtures that every test may use: an own knowledge base folder, fresh clients, people with names and rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

from clients.registry import reset_clients
from documents.enrichment_due import unseen
from documents.llm_pause import pause
from documents.source import reset_source

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share one running site stay in one process of a parallel run, so that it is started once."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))


@pytest.fixture(autouse=True)
def knowledge_base(tmp_path: Path, settings: Any) -> Iterator[Path]:
    """An empty knowledge base folder, fresh clients and a fresh keyword index for this test alone."""
    folder = tmp_path / "knowledge_base"
    folder.mkdir()
    settings.KNOWLEDGE_BASE_PATH = folder
    reset_clients()
    reset_source()
    unseen.forget()
    pause.end()
    yield folder
    reset_clients()
    reset_source()


@pytest.fixture(autouse=True)
def default_language(settings: Any) -> Iterator[None]:
    """The language of the settings: a page asked for in Chinese leaves its thread in Chinese."""
    with translation.override(settings.LANGUAGE_CODE):
        yield


@pytest.fixture
def shared_data() -> Path:
    """The development data beside the project; tests that need it skip without it."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data (development data), which is not here")
    return folder


@pytest.fixture
def alice(django_user_model: Any) -> Any:
    """Alice is a superuser: she may do everything."""
    return django_user_model.objects.create_superuser("alice", password="alice-pass-1")


@pytest.fixture
def bob(django_user_model: Any) -> Any:
    """Bob is a signed-in person without staff rights: he reads and asks."""
    return django_user_model.objects.create_user("bob", password="bob-pass-1")


@pytest.fixture
def charlie(django_user_model: Any) -> Any:
    """Charlie is another person without staff rights: what is Bob's is not his."""
    return django_user_model.objects.create_user("charlie", password="charlie-pass-1")
