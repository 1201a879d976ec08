"""What the tests of domains and their model share: documents that need no draft, time that passes, good answers."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from documents.domains import recompute_dirty
from documents.models import ApiDocument, DocumentEnrichment, DomainAggregation, KnowledgeDomain, LlmJob
from tests.clients.llm_server import LLMServer, Reply, Request, as_asked, completion
from tests.documents.library import upload

ENGLISH = {
    "when_to_retrieve": "A payment fails at the gateway or hangs, or a refund does not arrive.",
    "description": "Payments, refunds and their faults",
}
CHINESE = {
    "when_to_retrieve": "支付失败、网关超时，或者退款没有到账时。",
    "description": "支付与退款的问题排查",
}


def header(title: str = "Gateway time-outs", covers: str = "time-outs, retries", when: str = "A payment hangs.") -> str:
    """A document that lacks nothing a domain's text is made of."""
    return f"---\ntitle: {title}\nkeywords: [K]\nsummary: S\ncovers: [{covers}]\nwhen_to_retrieve: {when}\n---\nBody.\n"


def add(name: str = "a.md", content: str | None = None, category: str = "payment") -> ApiDocument:
    """A document that no model has to look at any more."""
    document = upload(content or header(name), name, category).document
    looked_at()
    return document


def looked_at() -> None:
    """Every document has its drafts."""
    for pk, content_hash in ApiDocument.objects.values_list("pk", "content_hash"):
        DocumentEnrichment.objects.update_or_create(
            document_id=pk, defaults={"state": LlmJob.State.DONE, "seen_hash": content_hash}
        )


def pass_time(seconds: float = 6.0) -> None:
    """So long ago was everything that a domain remembers; what was counted late is counted."""
    ago = timedelta(seconds=seconds)
    for domain in KnowledgeDomain.objects.all():
        KnowledgeDomain.objects.filter(pk=domain.pk).update(
            changed_at=F("changed_at") - ago if domain.changed_at else None,
            dirty_since=F("dirty_since") - ago if domain.dirty_since else None,
        )
    DomainAggregation.objects.filter(next_attempt_at__isnull=False).update(next_attempt_at=F("next_attempt_at") - ago)
    recompute_dirty()


def say(server: LLMServer, **changes: Any) -> None:
    """Script a good English answer, some fields changed."""
    server.say(json.dumps({**ENGLISH, **changes}, ensure_ascii=False))


def hold(server: LLMServer, gate: threading.Event, reached: threading.Event) -> None:
    """Script a good answer that comes when ``gate`` opens; ``reached`` says that it was asked for."""

    def held(request: Request) -> Reply:
        reached.set()
        assert gate.wait(30)
        return as_asked(completion(json.dumps(ENGLISH)))(request)

    server.reply(held)


def meanwhile(server: LLMServer, change: Any) -> None:
    """Script a good answer before which something happens."""

    def changed(request: Request) -> Reply:
        worker = threading.Thread(target=change)
        worker.start()
        worker.join(30)
        return as_asked(completion(json.dumps(ENGLISH)))(request)

    server.reply(changed)


def domain(name: str = "payment") -> KnowledgeDomain:
    return KnowledgeDomain.objects.get(domain_id=name)


def job(name: str = "payment") -> DomainAggregation:
    return DomainAggregation.objects.get(domain__domain_id=name)


def asked(server: LLMServer) -> list[str]:
    """The users' messages of the requests about domains."""
    prompts = [[str(message["content"]) for message in request.body["messages"]] for request in server.requests]
    return [prompt[1] for prompt in prompts if prompt[0].startswith("# Domain\n")]


def now_plus(seconds: float) -> Any:
    return timezone.now() + timedelta(seconds=seconds)
