"""The first page: what stands in the knowledge base, questions to begin with, and what does not work at the moment."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.cache import cache
from django.db.models import Count, Max
from django.utils.translation import get_language, gettext, ngettext

from agents.moments import moment
from agents.sources import readable_documents
from clients.registry import get_llm, get_vector_store

SAMPLES = 4
HEALTH_SECONDS = 10
_LOOKED_AT = 400
# A code that people meet and want explained: ERR_TIMEOUT, E1001, HTTP-429.
_CODE = re.compile(r"(?=.*[A-Z0-9])(?=.*[A-Z_])[A-Za-z0-9]+(?:[_\-.:][A-Za-z0-9]+)*")
_HAN = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True)
class Sample:
    """A question that the knowledge base can answer, made from one of its documents."""

    domain: str
    question: str


@dataclass(frozen=True)
class Holdings:
    """What the knowledge base holds for readers."""

    domains: int
    documents: int
    updated_at: datetime | None

    def __str__(self) -> str:
        domains = ngettext("%(count)s domain", "%(count)s domains", self.domains) % {"count": self.domains}
        documents = ngettext("%(count)s document", "%(count)s documents", self.documents) % {"count": self.documents}
        return gettext("The knowledge base has %(domains)s and %(documents)s. Last change: %(when)s.") % {
            "domains": domains,
            "documents": documents,
            "when": moment(self.updated_at),
        }


@dataclass(frozen=True)
class Banner:
    """The one thing above the page that a person should know. ``code`` chooses the words in the template."""

    code: str
    hint: str = ""


def holdings() -> Holdings:
    """Counted in one query."""
    found = readable_documents().aggregate(
        documents=Count("pk"), domains=Count("category", distinct=True), updated_at=Max("updated_at")
    )
    return Holdings(**found)


def banner(held: Holdings) -> Banner | None:
    """The gravest of: no documents, vector store down, no model."""
    if not held.documents:
        return Banner("empty")
    # Asking a store that is gone may take seconds: not once for every page.
    store = cache.get_or_set("store-health", lambda: get_vector_store().health(), HEALTH_SECONDS)
    if store is not None and store.status == "down":
        return Banner("store_down", store.hint)
    if not get_llm().configured:
        return Banner("no_model")
    return None


def sample_questions() -> list[Sample]:
    """At most four questions, from as many domains as there are, in the reader's language where documents allow it."""
    rows = readable_documents().order_by("-updated_at").values("category", "title", "metadata")[:_LOOKED_AT]
    by_domain: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_domain[row["category"]].append(row)
    for documents in by_domain.values():
        documents.sort(key=_fit)
    turns = _round_robin(sorted(by_domain.values(), key=lambda documents: (_fit(documents[0]), -len(documents))))
    return [Sample(row["category"], _question(row, place)) for place, row in enumerate(turns[:SAMPLES])]


def _fit(row: dict[str, Any]) -> tuple[bool, bool]:
    """Documents in the reader's language first, of these the ones with a code."""
    foreign = bool(_HAN.search(row["title"])) != (get_language() or "").startswith("zh")
    return foreign, _code_of(row) is None


def _question(row: dict[str, Any], place: int) -> str:
    """Codes and words take turns, so that both ways of asking are seen; a title serves where there is no keyword."""
    code, word = _code_of(row), _word_of(row)
    if code and (place % 2 == 0 or not word):
        return gettext("What does %(code)s mean") % {"code": code}
    if word:
        return gettext("What do the documents say about “%(keyword)s”") % {"keyword": word}
    return gettext("What does “%(title)s” say") % {"title": row["title"]}


def _keywords(row: dict[str, Any]) -> list[str]:
    keywords = (row["metadata"] or {}).get("keywords")
    words: Iterable[Any] = keywords if isinstance(keywords, list) else ()
    return [word for word in words if isinstance(word, str) and 2 <= len(word) <= 40]


def _code_of(row: dict[str, Any]) -> str | None:
    return next((word for word in _keywords(row) if _is_code(word)), None)


def _word_of(row: dict[str, Any]) -> str | None:
    """The longest keyword in the reader's script that is no code."""
    chinese = (get_language() or "").startswith("zh")
    words = [word for word in _keywords(row) if bool(_HAN.search(word)) == chinese and not _is_code(word)]
    return max(words, key=len, default=None)


def _is_code(word: str) -> bool:
    return bool(_CODE.fullmatch(word)) and ("_" in word or any(sign.isdigit() for sign in word)) and not word.isdigit()


def _round_robin(groups: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    longest = max((len(group) for group in groups), default=0)
    return [group[place] for place in range(longest) for group in groups if place < len(group)]
