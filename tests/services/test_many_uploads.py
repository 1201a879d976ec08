"""300 uploads at once over two web processes: the model is asked once for each domain that is quiet, not 300 times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.llm_server import LLMServer
from tests.documents.domain_model import ENGLISH, asked, header
from tests.services.conftest import four_processes
from tests.services.fleet import Fleet, WebProcess, until

DOMAINS = ("payment", "release", "queue")


@pytest.fixture
def model() -> Iterator[LLMServer]:
    """A model that writes what a domain is about."""
    server = LLMServer()
    server.say(json.dumps(ENGLISH))
    yield server
    server.stop()


@pytest.fixture
def site(tmp_path: Any, redis_url: str, model: LLMServer) -> Iterator[Fleet]:
    variables = {"OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "test-model", "OPENAI_API_KEY": "test-key"}
    with four_processes(tmp_path / "site", redis_url, **variables) as fleet:
        yield fleet


def test_three_hundred_uploads_at_once_ask_the_model_once_a_domain(site: Fleet, model: LLMServer) -> None:
    def put(web: WebProcess, number: int) -> int:
        text = header(f"Note {number}", covers=f"case {number}", when=f"Case {number} occurs.")
        return web.upload(f"{number}.md", text, DOMAINS[number % 3])[0]

    assert Counter(site.at_once(300, put)) == {202: 300}
    web = site.webs[0]

    def written() -> bool:
        rows = web.call("GET", "/api/v1/domains/")[1]["results"]
        told = {row["domain_id"] for row in rows if row["description"] == ENGLISH["description"]}
        return told == set(DOMAINS)

    until(lambda: web.documents(status="INDEXED") == 300, "all are INDEXED", seconds=240)
    until(written, "every domain is written about", seconds=120)
    assert len(DOMAINS) <= len(asked(model)) <= 3 * len(DOMAINS)
