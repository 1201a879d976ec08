"""Three hundred uploads at once to two web processes and two workers: the model is asked about each domain once."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.llm_server import LLMServer, Reply, Request, as_asked, completion
from tests.documents.domain_model import ENGLISH, asked
from tests.documents.enriching import BARE, GOOD
from tests.services.conftest import Broker, needs
from tests.services.databases import Database
from tests.services.fleet import Fleet, WebProcess, until
from tests.services.reachable import MARIADB

DOMAINS = ("payment", "api", "release")


def written(request: Request) -> Reply:
    """A good answer to either kind of prompt."""
    of_domain = request.body["messages"][0]["content"].startswith("# Domain\n")
    return as_asked(completion(json.dumps(ENGLISH if of_domain else GOOD)))(request)


@pytest.fixture
def model() -> Iterator[LLMServer]:
    server = LLMServer()
    server.reply(written)
    yield server
    server.stop()


@pytest.fixture
def site(tmp_path: Path, redis_url: str, model: LLMServer) -> Iterator[Fleet]:
    database, broker = Database(needs(MARIADB)), Broker(redis_url)
    llm = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "test-key", "OPENAI_MODEL": "test-model"}
    fleet = Fleet(tmp_path, {"DATABASE_URL": database.url, "REDIS_URL": redis_url, **broker.variables, **llm})
    try:
        for _ in range(2):
            fleet.web()
        for _ in range(2):
            fleet.worker()
        yield fleet
    finally:
        fleet.stop()
        broker.remove()
        database.drop()


def domains(web: WebProcess) -> list[dict[str, Any]]:
    _status, page = web.call("GET", "/api/v1/domains/")
    return list(page["results"])


def knowledge_map(web: WebProcess) -> Any:
    request = urllib.request.Request(f"{web.url}/api/v1/knowledge-map/", headers={"Authorization": f"Bearer {web.key}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return yaml.safe_load(answer.read())


@pytest.mark.parametrize("headers", ["complete", "missing"])
def test_three_hundred_uploads_at_once_are_one_request_a_domain(site: Fleet, model: LLMServer, headers: str) -> None:
    lines = [f"{name}: {json.dumps(value)}" for name, value in GOOD.items()] if headers == "complete" else []
    header = "\n".join(["---", *lines, "---", ""]) if lines else ""

    def put(web: WebProcess, number: int) -> int:
        return web.upload(f"{number // 3}.md", f"{header}{BARE}\n{number}\n", DOMAINS[number % 3])[0]

    assert set(site.at_once(300, put)) == {202}
    web, other = site.webs
    until(lambda: all(row["when_to_retrieve_source"] == "model" for row in domains(web)), "the model writes", 180)
    assert [(row["domain_id"], row["document_count"]) for row in domains(other)] == [(d, 100) for d in sorted(DOMAINS)]
    requests = Counter(request.split("\n", 1)[0] for request in asked(model))
    assert requests == {f"Domain: {name}": 1 for name in DOMAINS}
    assert [row["domain_id"] for row in knowledge_map(other)["available_knowledge_domains"]] == sorted(DOMAINS)
    assert knowledge_map(web) == knowledge_map(other)
