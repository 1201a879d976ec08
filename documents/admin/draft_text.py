"""The text that the drafts page shows on the left: the body, or the whole file where its header cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from documents import services
from documents.encoding import UnreadableText, decode
from documents.errors import DocumentError
from documents.frontmatter import parse_document
from documents.models import ApiDocument

MAX_CHARS = 64_000
"""More is cut, and said so: nobody decides on a header by the end of a book."""


@dataclass(frozen=True)
class ShownText:
    """What is shown; ``raw`` where it is no Markdown body, ``problem`` why there is none, ``cut`` at the bound."""

    text: str = ""
    raw: bool = False
    cut: bool = False
    problem: str = ""


def shown_text(document: ApiDocument) -> ShownText:
    """The document's text as it stands now."""
    try:
        whole = decode(services.read_content(document_id=document.pk)).text
    except DocumentError as refusal:
        return ShownText(problem=refusal.detail)
    except (UnreadableText, OSError) as fault:
        return ShownText(problem=str(fault))
    broken = is_broken(document)
    text = whole if broken else parse_document(whole, file=document.file_path).body
    return ShownText(text[:MAX_CHARS], raw=broken, cut=len(text) > MAX_CHARS)


def is_broken(document: ApiDocument) -> bool:
    """Whether the file's header is malformed; a header that was read may have a remark of its own."""
    return bool(document.frontmatter_problem) and document.metadata is None
