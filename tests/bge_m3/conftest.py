"""A tiny checkpoint for all tests of a run, with the model hub off."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

# Read when the library is imported, which no test does before this.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")

from tests.bge_m3.checkpoint import make_checkpoint, neutral_texts
from tests.clients.embedder_contract import AWKWARD, TEXTS


@pytest.fixture(scope="session", autouse=True)
def _flag_embedding() -> None:
    if find_spec("FlagEmbedding") is None:
        pytest.skip("FlagEmbedding is not installed here; `make bge-m3-test` makes an environment that has it")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, 64 numbers, everything else as in the real one."""
    texts = [*neutral_texts(), *TEXTS * 20, *(text for text in AWKWARD if text.isascii() and text.strip())]
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint"), texts=texts)
