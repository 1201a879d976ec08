"""Failpoints of one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.site import Places


@pytest.fixture
def places(tmp_path: Path, knowledge_base: Path) -> Iterator[Places]:
    """Armed while the test runs."""
    made = Places(tmp_path / "failpoints")
    with made.armed():
        yield made
