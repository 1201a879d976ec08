"""What the tests of enrichment share: a scripted model of the site, answers that hold, and looks at the outcome."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clients import llm as llm_module
from clients.registry import reset_clients
from documents.enrichment import enrich_next
from documents.llm_pause import pause
from documents.models import ApiDocument, DocumentEnrichment
from documents.source import get_keyword_index
from tests.clients.llm_server import LLMServer, Reply, Request, as_asked, completion

GOOD: dict[str, Any] = {
    "title": "Gateway time-outs",
    "summary": "The gateway gives up after thirty seconds, and the bank has to be asked.",
    "keywords": ["gateway time-out", "thirty seconds"],
    "covers": ["A payment hangs at the gateway", "The bank does not answer"],
    "when_to_retrieve": "When a payment runs into a time-out at the gateway.",
}
CHINESE: dict[str, Any] = {
    "title": "支付网关超时",
    "summary": "网关三十秒后放弃等待，需要联系银行确认。",
    "keywords": ["支付网关超时", "银行确认"],
    "covers": ["支付请求在网关超时", "银行没有应答"],
    "when_to_retrieve": "当支付请求在网关超时时查阅。",
}
BARE = "# Time-outs\n\nThe gateway gives up after thirty seconds.\n\nAsk the bank.\n"
CODED = f"---\nkeywords: [ERR_TIMEOUT]\n---\n{BARE}"
CHINESE_BARE = "# 超时\n\n支付网关在三十秒后放弃等待。请联系银行确认这笔交易的状态。\n"


class Model(LLMServer):
    """The site's model: scripted as any, and it counts how many requests were open at once."""

    def __init__(self) -> None:
        super().__init__()
        self.open = self.most_open = 0
        self._counting = threading.Lock()

    def write(self, **changes: Any) -> None:
        """Script a good answer, some fields changed (None: left out)."""
        self.say(json.dumps(answer(**changes), ensure_ascii=False))

    def hold(self, gate: threading.Event, reached: threading.Event, **changes: Any) -> None:
        """Script a good answer that comes when ``gate`` opens; ``reached`` says that it was asked for."""

        def held(request: Request) -> Reply:
            reached.set()
            assert gate.wait(30)
            return as_asked(completion(json.dumps(answer(**changes))))(request)

        self.reply(held)

    def next_reply(self, request: Request) -> Reply:
        with self._counting:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            return super().next_reply(request)
        finally:
            with self._counting:
                self.open -= 1


@pytest.fixture
def model(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """A scripted model behind the real client, configured as the site's; it waits less than the real one."""
    server = Model()
    monkeypatch.setattr(llm_module, "FIRST_WAIT", 0.01)
    configure(settings, server)
    yield server
    server.stop()
    reset_clients()


def configure(settings: Any, server: LLMServer, **patience: float) -> None:
    options = {"model": "test-model", "base_url": server.base_url, "api_key": "test-key", **patience}
    settings.CLIENTS = {**settings.CLIENTS, "llm": {"BACKEND": "clients.llm.OpenAILLM", "OPTIONS": options}}
    reset_clients()


def answer(**changes: Any) -> dict[str, Any]:
    """A good answer for the English document, some fields changed; None leaves one out."""
    return {field: value for field, value in {**GOOD, **changes}.items() if value is not None}


def run_all(limit: int = 50) -> int:
    """Every document that is due, in this thread, and nothing of domains."""
    tried = 0
    while not pause.resting() and enrich_next():
        tried += 1
        assert tried <= limit, "it does not come to an end"
    return tried


def row(document: ApiDocument | int) -> DocumentEnrichment:
    pk = document if isinstance(document, int) else document.pk
    return DocumentEnrichment.objects.get(pk=pk)


def fresh(document: ApiDocument | int) -> ApiDocument:
    pk = document if isinstance(document, int) else document.pk
    return ApiDocument.objects.get(pk=pk)


def states(document: ApiDocument | int) -> dict[str, str]:
    """The states of all fields that have an entry."""
    return {field: entry["state"] for field, entry in fresh(document).generated.items()}


def values(document: ApiDocument | int) -> dict[str, Any]:
    return {field: entry["value"] for field, entry in fresh(document).generated.items()}


def answers_exactly(query: str) -> list[int]:
    """The documents that an exact lookup finds now."""
    return [match.entry.document_id for match in get_keyword_index().exact_match(query)]


def shown(request: Request) -> str:
    """The user's message of a request: the fenced document."""
    return str(next(one["content"] for one in request.body["messages"] if one["role"] == "user"))


def path_in(request: Request) -> str:
    """Which document a request is about."""
    found = re.search(r'^path: "([^"]+)"', shown(request), re.MULTILINE)
    assert found is not None
    return found[1]


def until(condition: Any, patience: float = 30.0) -> None:
    """Wait for what a thread will bring about; no promise about how soon."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
