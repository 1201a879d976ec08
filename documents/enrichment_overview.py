"""How far the model is with the documents, and what it wrote of each beside its author: for people to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast

from documents.enrichment_due import OF_ROW
from documents.generated import DRAFT, FIELDS, LISTS, REJECTED, author_value, state_of
from documents.llm_pause import pause
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from documents.source import get_keyword_index
from retrieval.normalise import normalise

# In the JSON of a value the quotes would be escaped: only a state is written so.
_A_DRAFT = f'"state": "{DRAFT}"'


@dataclass(frozen=True)
class Draft:
    """One field as author and model have it; lists for keywords and covers, else texts, empty where there is none.

    ``state`` and ``made_at`` (ISO) are "" where the model wrote nothing. ``clashes`` are the keywords of the model that
    other documents have already: each with these documents (``pk``, ``title`` and ``file_path`` are loaded).
    """

    field: str
    author_value: str | list[str]
    value: str | list[str]
    state: str
    model: str
    made_at: str
    clashes: Mapping[str, Sequence[ApiDocument]]


@dataclass(frozen=True)
class EnrichmentProgress:
    """Documents by how far the model is with them; ``drafts`` have at least one text that waits for a person.

    ``trouble`` says why this process asks nothing just now, "" where it does.
    """

    waiting: int
    running: int
    done: int
    failed: int
    drafts: int
    trouble: str = ""


def drafts_of(document: ApiDocument) -> list[Draft]:
    """All five fields in the header's order, those without a draft too."""
    return [_draft(document, field) for field in FIELDS]


def progress() -> EnrichmentProgress:
    """Counts over all documents. A hidden one waits for nothing: the model is told of it when it is shown again."""
    states = LlmJob.State
    rows = DocumentEnrichment.objects.filter(OF_ROW | ~Q(state=states.WAITING))
    counts = dict(rows.order_by().values_list("state").annotate(n=Count("pk")))
    return EnrichmentProgress(
        waiting=counts.get(states.WAITING, 0),
        running=counts.get(states.RUNNING, 0),
        done=counts.get(states.DONE, 0),
        failed=counts.get(states.FAILED, 0),
        drafts=with_drafts().count(),
        trouble=pause.reason,
    )


def pending_ids() -> list[int]:
    """The documents with at least one draft, by id."""
    return list(with_drafts().order_by("pk").values_list("pk", flat=True))


def with_drafts() -> QuerySet[ApiDocument]:
    """The documents with at least one draft: for a further query, whose list of ids would be too long."""
    rows = ApiDocument.objects.exclude(status=ApiDocument.Status.DELETING)
    return rows.annotate(generated_text=Cast("generated", TextField())).filter(generated_text__contains=_A_DRAFT)


def _draft(document: ApiDocument, field: str) -> Draft:
    state = state_of(document.generated, field)
    entry = document.generated[field] if state else {}
    value = entry.get("value") or ([] if field in LISTS else "")
    return Draft(
        field=field,
        author_value=author_value(document.metadata, field),
        value=value,
        state=state,
        model=str(entry.get("model", "")),
        made_at=str(entry.get("made_at", "")),
        clashes=_clashes(document.pk, value) if field == "keywords" and state in (DRAFT, REJECTED) else {},
    )


def _clashes(document_id: int, keywords: Iterable[str]) -> dict[str, list[ApiDocument]]:
    """Which of the keywords other documents have already: exactly, in normalised spelling."""
    owners = {keyword: _owners(keyword) - {document_id} for keyword in keywords}
    ids = {owner for found in owners.values() for owner in found}
    rows = ApiDocument.objects.only("pk", "title", "file_path").in_bulk(ids)
    found = {
        keyword: [rows[owner] for owner in sorted(found) if owner in rows] for keyword, found in owners.items()
    }  # fmt: skip
    return {keyword: others for keyword, others in found.items() if others}


def _owners(keyword: str) -> set[int]:
    index, key = get_keyword_index(), normalise(keyword)
    index.refresh()
    return {
        match.entry.document_id
        for match in index.match(keyword)
        if any(normalise(spelling) == key for spelling in match.keywords)
    }  # fmt: skip
