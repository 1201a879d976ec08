"""The knowledge map (DOM-4): a bounded YAML of the domains, for the Planner's prompt and ``/api/v1/knowledge-map/``.

Documents are dropped before domains, and what is left out is counted where it is left out. Every text is one line
without anything that a model could take for a role or a fence, and is quoted by the YAML emitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count

from clients.prompt_fence import one_line
from documents.domain_documents import SHOWN, DocumentWords, shown_documents, words_of
from documents.domain_steer import shortened
from documents.frontmatter import clean_line
from documents.map_text import DomainEntry, map_of, smallest_document
from documents.models import ApiDocument, KnowledgeDomain

MAX_ID, MAX_TITLE, MAX_COVER, MAX_COVERS = 64, 200, 120, 12
MAX_DESCRIPTION, MAX_WHEN = 256, 4000
"""A curator's own words have room; what a model or the summary wrote is shorter anyway."""


@dataclass(frozen=True)
class _Domain:
    row: KnowledgeDomain
    count: int


def knowledge_map() -> str:
    """The map as YAML, at most ``KNOWLEDGE_MAP_MAX_CHARS`` characters; the same for the same rows.

    ``available_knowledge_domains``: for each domain with documents ``domain_id``, ``description``,
    ``when_to_retrieve``, ``documents`` (``title``, ``covers``), and ``documents_left_out`` where some are;
    ``domains_left_out`` at the top where whole domains are.
    """
    limit = settings.KNOWLEDGE_MAP_MAX_CHARS
    domains = _domains()
    most = _most_documents([domain.count for domain in domains], limit // smallest_document())
    return map_of([_entry(domain, most) for domain in domains], limit)


def _domains() -> list[_Domain]:
    """Domains with documents to tell of, by their name; the documents are counted now, in one query."""
    rows = ApiDocument.objects.filter(SHOWN).order_by().values_list("category").annotate(n=Count("pk"))
    counts = dict(rows)
    known = KnowledgeDomain.objects.order_by("domain_id")
    return [_Domain(row, counts[row.domain_id]) for row in known if row.domain_id in counts]


def _most_documents(counts: Sequence[int], room: int) -> int:
    """So many documents of one domain are worth reading: were each as short as can be, ``room`` of them would fit."""
    left, share = room, 0
    for done, count in enumerate(sorted(counts)):
        share = left // (len(counts) - done)
        if count > share:
            return share
        left -= count
    return max(counts, default=0)


def _entry(domain: _Domain, most: int) -> DomainEntry:
    documents = words_of(shown_documents(domain.row.domain_id)[:most]) if most else []
    return DomainEntry(
        domain_id=_line(domain.row.domain_id, MAX_ID),
        description=_line(domain.row.description, MAX_DESCRIPTION),
        when_to_retrieve=_line(domain.row.when_to_retrieve, MAX_WHEN),
        documents=tuple(map(_document, documents)),
        document_count=domain.count,
    )


def _document(words: DocumentWords) -> tuple[str, tuple[str, ...]]:
    covers = (_line(cover, MAX_COVER) for cover in words.covers[:MAX_COVERS])
    return _line(words.title, MAX_TITLE), tuple(cover for cover in covers if cover)


def _line(text: str, limit: int) -> str:
    """One line of plain text. Cut first: a title of 64 KiB need not be cleaned whole."""
    line = clean_line(one_line(text[: 4 * limit]))
    return shortened(line, limit) if len(line) > limit else line
