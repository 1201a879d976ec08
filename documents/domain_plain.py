"""The plain summary of a domain: what stands in until a curator or a model writes a better one (DOM-2).

It ends in the steer too. The Planner reads it while the model has not written yet, or could not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from documents.domain_documents import shown_documents, words_of
from documents.domain_steer import STEER, language_of, with_steer

DESCRIPTION_LIMIT = 256
WHEN_LIMIT = 600
_DOCUMENTS = 50


def plain_texts(category: str) -> tuple[str, str]:
    """``description`` (titles) and ``when_to_retrieve`` (covers, else titles, and the steer); "" of no documents."""
    words = words_of(shown_documents(category)[:_DOCUMENTS])
    titles = [each.title for each in words]
    covers = [scenario for each in words for scenario in each.covers]
    language = language_of([*titles, *covers])
    summary = _join(covers or titles, WHEN_LIMIT - len(STEER[language]) - 2)
    return _join(titles, DESCRIPTION_LIMIT), with_steer(summary, language, WHEN_LIMIT)


def _join(parts: Sequence[str], limit: int) -> str:
    """Distinct parts, one line each made of them, joined by ``; `` as far as they fit; ``…`` where some did not."""
    text = ""
    for part in _distinct(parts):
        longer = f"{text}; {part}" if text else part
        if len(longer) > limit - 1:
            return f"{(text or part)[: limit - 1].rstrip()}…"
        text = longer
    return text


def _distinct(parts: Iterable[str]) -> list[str]:
    lines = (" ".join(part.split()) for part in parts)
    return list(dict.fromkeys(line for line in lines if line))
