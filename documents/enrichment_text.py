"""What a model is shown of one document: fenced as data, bounded, with what its author says of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.conf import settings

from clients.interfaces import LLMMessage
from clients.prompt_fence import fence, new_nonce, quote_title
from documents.generated import FIELDS, author_value
from retrieval.headings import find_headings
from retrieval.lexical import is_cjk_text

Language = Literal["zh", "en"]
IN_WORDS: Mapping[Language, str] = {"zh": "Simplified Chinese", "en": "English"}
SHOWN_CHARACTERS = 12_000
"""So much of a document is shown; of a longer one its beginning, its headings and its end."""
_HEAD, _OUTLINE = 7_000, 2_000
_TAIL = SHOWN_CHARACTERS - _HEAD - _OUTLINE
_HEADINGS = 400
_HEADER_CHARACTERS = 3_000
PROMPT_FILE = "frontmatter.md"


@dataclass(frozen=True)
class Subject:
    """The document that is asked about, as it stood when the job began. ``body`` is without its header."""

    file_path: str
    title: str
    metadata: Mapping[str, Any] | None
    body: str

    @property
    def language(self) -> Language:
        """The language of the document: a CJK letter among ten is enough, as for the lexical search."""
        return "zh" if is_cjk_text(self.body) else "en"


def rules() -> str:
    """The prompt, as it lies in its file."""
    return (Path(settings.PROMPTS_DIR) / PROMPT_FILE).read_text(encoding="utf-8")


def messages_for(subject: Subject) -> list[LLMMessage]:
    """Our rules as the system's message, the document as the user's. The fence's word is new each time."""
    nonce = new_nonce()
    told = rules().format(language=IN_WORDS[subject.language], nonce=nonce)
    parts = [fence(about(subject), name="author", nonce=nonce)]
    parts += [fence(text, name=name, nonce=nonce) for name, text in shown_parts(subject.body)]
    return [LLMMessage("system", told), LLMMessage("user", "\n\n".join(parts))]


def about(subject: Subject) -> str:
    """Path, title and the header's own fields, bounded."""
    own = {field: author_value(subject.metadata, field) for field in FIELDS}
    said = json.dumps({field: value for field, value in own.items() if value}, ensure_ascii=False)
    lines = [f"path: {quote_title(subject.file_path)}", f"title: {quote_title(subject.title)}", f"header: {said}"]
    return "\n".join(lines)[:_HEADER_CHARACTERS]


def shown_parts(body: str) -> list[tuple[str, str]]:
    """The body in named parts, at most ``SHOWN_CHARACTERS`` together: whole, or beginning, headings and end."""
    if len(body) <= SHOWN_CHARACTERS:
        return [("document", body)]
    left_out = len(body) - _HEAD - _TAIL
    parts = [("document-beginning", body[:_HEAD])]
    outline = _outline(body)
    if outline:
        parts.append(("document-headings", outline))
    return [*parts, (f"document-end-after-{left_out}-characters-left-out", body[-_TAIL:])]


def _outline(body: str) -> str:
    lines = [f"{'#' * heading.level} {heading.title}" for heading in find_headings(body, limit=_HEADINGS)]
    return "\n".join(lines)[:_OUTLINE]
