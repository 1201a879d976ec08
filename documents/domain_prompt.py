"""What the language model is told of a domain: a bounded share of each document's words, fenced as data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from clients.interfaces import LLMMessage
from clients.prompt_fence import fence, new_nonce, one_line
from documents.domain_documents import DocumentWords, shown_documents, words_of
from documents.domain_plain import DESCRIPTION_LIMIT, WHEN_LIMIT
from documents.domain_steer import STEER, Language, language_of

MAX_CHARACTERS = 12_000
MAX_DOCUMENTS = 200
_MAX_TITLE, _MAX_COVER, _COVERS, _MAX_WHEN = 200, 120, 20, 500
_LANGUAGES: dict[Language, str] = {"zh": "Simplified Chinese", "en": "English"}


@dataclass(frozen=True)
class DomainInput:
    """What is told of a domain: ``lines`` one a document, ``left_out`` how many further ones there are."""

    domain_id: str
    language: Language
    lines: tuple[str, ...]
    left_out: int

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, in hex: the same again needs no new text."""
        told = "\n".join([self.domain_id, self.language, str(self.left_out), *self.lines])
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def read_input(domain_id: str) -> DomainInput:
    """The domain's documents, at most ``MAX_DOCUMENTS`` from all over it, within ``MAX_CHARACTERS`` in all."""
    documents = shown_documents(domain_id)
    ids = list(documents.values_list("pk", flat=True))
    chosen = _evenly(ids, MAX_DOCUMENTS)
    words = words_of(documents.filter(pk__in=chosen))
    language = language_of([" ".join([each.title, *each.covers, each.when_to_retrieve]) for each in words])
    lines = _within(list(map(_line, words)), MAX_CHARACTERS)
    return DomainInput(domain_id, language, tuple(lines), len(ids) - len(lines))


def prompt_of(told: DomainInput) -> list[LLMMessage]:
    """The two messages: the rules, and the documents between fences."""
    nonce = new_nonce()
    rules = (settings.PROMPTS_DIR / "domain.md").read_text(encoding="utf-8")
    left_out = f" ({told.left_out} more are left out here)" if told.left_out else ""
    asked = f"Domain: {one_line(told.domain_id)}\nDocuments: {len(told.lines)}{left_out}\n\n"
    return [
        LLMMessage(
            "system",
            rules.format(
                language=_LANGUAGES[told.language],
                when_limit=WHEN_LIMIT - len(STEER[told.language]),
                description_limit=DESCRIPTION_LIMIT,
                nonce=nonce,
            ),
        ),
        LLMMessage("user", asked + fence("\n".join(told.lines), name="documents", nonce=nonce)),
    ]


def _line(words: DocumentWords) -> str:
    parts = [f"- {one_line(words.title)[:_MAX_TITLE]}"]
    covers = [one_line(cover)[:_MAX_COVER] for cover in words.covers[:_COVERS]]
    if covers:
        parts.append(f"covers: {'; '.join(covers)}")
    if words.when_to_retrieve:
        parts.append(f"when: {one_line(words.when_to_retrieve)[:_MAX_WHEN]}")
    return " | ".join(parts)


def _evenly(ids: Sequence[int], limit: int) -> list[int]:
    """All, or ``limit`` of them, the first and others at equal distances."""
    if len(ids) <= limit:
        return list(ids)
    return [ids[number * len(ids) // limit] for number in range(limit)]


def _within(lines: Sequence[str], limit: int) -> list[str]:
    """The lines; where all together are too long, the longest are cut to one length: they share what others leave."""
    left, cap = limit, 0
    for done, length in enumerate(sorted(map(len, lines))):
        cap = left // (len(lines) - done) - 1  # its line break too
        if length > cap:
            break
        left -= length + 1
    else:
        return list(lines)
    return [line if len(line) <= cap else f"{line[: cap - 1]}…" for line in lines]
