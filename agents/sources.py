"""A cited source, opened: its document's section with the cited passage marked; or a whole document, to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from agents.markdown import MAX_CHARS, render_markdown
from agents.models import Message
from documents.models import ApiDocument
from documents.names import PREFIX
from documents.source import get_source
from documents.twins import document_at
from retrieval.chunking import Section, find_section

MAX_CHIPS = 12
_WITH_SUBSECTIONS = 6000


class SourceNotFoundError(Exception):
    """No such citation of this person's, or no such document: callers answer 404."""


@dataclass(frozen=True)
class SectionLink:
    """One section of a document, as a way there."""

    title: str
    level: int
    url: str
    current: bool


@dataclass(frozen=True)
class OpenedSource:
    """What the drawer shows. ``changed``: the cited text is no longer in the document (None where that is gone)."""

    index: int
    title: str
    section: str
    path: str
    level: str | None
    html: SafeString
    document: ApiDocument | None
    changed: bool
    next_url: str
    next_index: int


@dataclass(frozen=True)
class OpenedDocument:
    """What the reading page shows: the whole text, or one section of it."""

    document: ApiDocument
    path: str
    html: SafeString
    sections: Sequence[SectionLink]
    section: str
    cut: bool


def open_source(*, message_id: Any, index: int, principal: str, highest: int = 3) -> OpenedSource:
    """The source that an own answer cites by ``index``; raises :class:`SourceNotFoundError`.

    ``highest``: the level of the text's highest heading on the page.
    """
    message = Message.objects.filter(pk=message_id, session__principal=principal).first()
    citations = {int(citation["index"]): citation for citation in (message.citations if message else [])}
    citation = citations.get(index)
    if message is None or citation is None:
        raise SourceNotFoundError
    document, html, section = _cited_text(citation, highest)
    following = min((number for number in citations if number > index), default=0)
    return OpenedSource(
        index=index,
        title=citation["title"],
        section=section or citation["section"],
        path=citation["source"].removeprefix(PREFIX),
        level=citation.get("level"),
        html=html if html is not None else render_markdown(citation["excerpt"], highest=highest),
        document=document,
        changed=html is None,
        next_url=reverse("source", args=[message.pk, following]) if following else "",
        next_index=following,
    )


def open_document(*, document_id: int, section: str = "") -> OpenedDocument:
    """A document that may be served now; raises :class:`SourceNotFoundError`."""
    document = readable_documents().filter(pk=document_id).first()
    body = _body(document)
    if document is None or body is None:
        raise SourceNotFoundError
    sections = get_source().sections(document.pk, document.revision)
    found = find_section(sections, section) if section else None
    text = body[found.start : found.tree_end] if found else body[_own_title(body, document.title) :]
    return OpenedDocument(
        document=document,
        path=document.file_path.removeprefix(PREFIX),
        html=render_markdown(text, highest=2),
        sections=_links(document, sections, found),
        section=found.title if found else "",
        cut=len(text) > MAX_CHARS,
    )


def readable_documents() -> Any:
    """Documents that people may read: enabled, published, not on their way out, their file in place."""
    return ApiDocument.objects.filter(enabled=True, missing_since=None, published_revision__gt=0).exclude(
        status=ApiDocument.Status.DELETING
    )


def _cited_text(citation: dict[str, Any], highest: int) -> tuple[ApiDocument | None, SafeString | None, str]:
    """The document, its section with the excerpt marked (None where it is no longer there), the section's name."""
    document = document_at(readable_documents(), citation["source"])
    body = _body(document)
    if document is None or body is None:
        return None, None, ""
    start = body.find(citation["excerpt"])
    if start < 0:
        return document, None, ""
    section = _section_around(get_source().sections(document.pk, document.revision), start, citation["section"])
    first, end = _extent(section, start, start + len(citation["excerpt"]), len(body))
    first += _own_title(body[first:start], document.title)
    marked_from = body.count("\n", first, start)
    marked_to = marked_from + citation["excerpt"].rstrip().count("\n") + 1
    return (
        document,
        render_markdown(body[first:end], marked_lines=(marked_from, marked_to), highest=highest),
        _name(section),
    )


def _section_around(sections: Sequence[Section], offset: int, cited: str) -> Section | None:
    """The section that the offset lies in; the cited one where it does so too."""
    around = [section for section in sections if section.start <= offset < section.end]
    return next((section for section in around if section.key == cited), around[-1] if around else None)


def _extent(section: Section | None, start: int, end: int, length: int) -> tuple[int, int]:
    if section is None:
        return 0, max(end, min(length, _WITH_SUBSECTIONS))
    whole = section.tree_end if section.tree_end - section.start <= _WITH_SUBSECTIONS else section.end
    return section.start, max(whole, end)


def _name(section: Section | None) -> str:
    return section.title if section else ""


def _body(document: ApiDocument | None) -> str | None:
    return get_source().body(document.pk, document.revision) if document else None


def _links(document: ApiDocument, sections: Sequence[Section], current: Section | None) -> list[SectionLink]:
    address = reverse("read_document", args=[document.pk])
    return [
        SectionLink(
            section.title, section.level, f"{address}?{urlencode({'section': section.key})}", section == current
        )
        for section in sections
        if section.key and section.level <= 3 and section.title != document.title
    ]


def _own_title(text: str, title: str) -> int:
    """How many characters the document's own title takes at the beginning of ``text``: the page's heading says it."""
    heading = re.match(r"\s*# +([^\n]*)\n", text)
    return heading.end() if heading and heading[1].strip(" #") == title else 0
