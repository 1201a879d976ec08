"""What the tests of the curators' pages share: a document with drafts, and looks at pages as a reader has them."""

from __future__ import annotations

import html
import re
from typing import Any

from django.contrib.admin.models import LogEntry
from django.urls import reverse

from documents.generated import with_drafts
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from documents.source import get_keyword_index
from tests.documents.library import indexed

LIST = reverse("admin:documents_apidocument_changelist")
BARE = "# Channel B\n\nThe clock may be 300 seconds off, else `B-4013`.\n"
DRAFTS: dict[str, Any] = {
    "title": "Channel B onboarding",
    "summary": "How to connect a merchant to channel B.",
    "keywords": ["B-4013", "channel B"],
    "covers": ["Connecting a merchant", "A rejected signature"],
    "when_to_retrieve": "When a question names channel B.",
}
MADE_AT = "2026-04-12T09:42:00+00:00"


def with_draft(content: str = BARE, name: str = "channel-b.md", **changes: Any) -> ApiDocument:
    """An indexed document of which the model wrote ``DRAFTS``, some changed (None: left out)."""
    document = indexed(content, name)
    values = {field: value for field, value in {**DRAFTS, **changes}.items() if value is not None}
    draft(document, **values)
    return document


def draft(document: ApiDocument, **values: Any) -> None:
    """Put drafts of the model beside a document, as its lane does."""
    document.refresh_from_db()
    document.generated = with_drafts(document.generated, values, values, model="test-model", made_at=MADE_AT)
    document.save(update_fields=["generated"])
    job(document, state=LlmJob.State.DONE, model="test-model")


def job(document: ApiDocument, **columns: Any) -> None:
    """The row of the model's work on a document."""
    columns.setdefault("seen_hash", document.content_hash)
    DocumentEnrichment.objects.update_or_create(pk=document.pk, defaults=columns)


def drafts_page(document: ApiDocument | int) -> str:
    pk = document if isinstance(document, int) else document.pk
    return reverse("admin:documents_document_drafts", args=[pk])


def readable(answer: Any) -> str:
    """A page's text as one reads it: without tags, entities resolved, blanks as one."""
    plain = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", answer.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(plain))


def buttons(answer: Any) -> list[str]:
    """What the buttons of the page would do."""
    return [html.unescape(value) for value in re.findall(r'name="do" value="([^"]+)"', answer.content.decode())]


def found_by(keyword: str) -> list[int]:
    """The documents that a lookup of ``keyword`` finds exactly."""
    get_keyword_index().refresh()
    return [match.entry.document_id for match in get_keyword_index().match(keyword)]


def noted(document: ApiDocument) -> list[str]:
    """What the admin's history says of a document, oldest first."""
    rows = LogEntry.objects.filter(object_id=str(document.pk)).order_by("pk")
    return [row.get_change_message() for row in rows]
