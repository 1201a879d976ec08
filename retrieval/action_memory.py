"""What a run, or a caller's session, has already been given (SPEC section 8)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clients.interfaces import SessionMemory

SCOPE_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_DOMAINS = "domains"
_DOCUMENTS = "documents"
_HELD = "held"
_LOOKUPS = "lookups"
_REPEATS = "repeats"


def is_valid_scope(text: str) -> bool:
    """May this text be a caller's ``session_id`` (AM-7)?"""
    return SCOPE_PATTERN.fullmatch(text) is not None


@dataclass(frozen=True)
class MemoryScope:
    """Whose memory, and which: different principals never meet, whatever scope they name.

    ``principal`` is ``user:{id}`` or ``key:{prefix}``; ``scope`` is a run's id or a caller's session id. ``ValueError``
    for a scope that is not ``[A-Za-z0-9._:-]{1,128}``.
    """

    principal: str
    scope: str

    def __post_init__(self) -> None:
        if not self.principal:
            raise ValueError("A memory scope needs a principal.")
        if not is_valid_scope(self.scope):
            raise ValueError("A session id has 1 to 128 letters, digits, or the characters . _ : -")

    @property
    def key(self) -> str:
        """One key a pair: the length in front keeps ``a:b`` + ``c`` and ``a`` + ``b:c`` apart."""
        return f"{len(self.principal)}:{self.principal}:{self.scope}"


@dataclass(frozen=True)
class HeldDocument:
    """A document that a scope has been given text of."""

    domain: str
    path: str
    title: str


class RetrievedDocTracker:
    """Session → domain → documents, over the shared :class:`SessionMemory`; ``session`` is ``MemoryScope.key``.

    Every method raises ``ClientError`` when the memory cannot be reached.
    """

    def __init__(self, memory: SessionMemory) -> None:
        self._memory = memory

    def mark_retrieved(self, session: str, domain: str, path: str, *, title: str = "") -> bool:
        """Remember a document and its domain. True when the document was new; of parallel calls exactly one says so."""
        self._memory.append(session, _DOMAINS, domain)
        self._memory.append(session, _HELD, "\t".join((domain, path, title)))
        return self._memory.append(session, _DOCUMENTS, path)

    def is_doc_retrieved(self, session: str, path: str) -> bool:
        """Was any text of this document given?"""
        return path in self._memory.values(session, _DOCUMENTS)

    def is_domain_retrieved(self, session: str, domain: str) -> bool:
        """Was any document of this domain given?"""
        return domain in self._memory.values(session, _DOMAINS)

    def get_retrieved_domains(self, session: str) -> list[str]:
        """Domains in the order of their first retrieval."""
        return self._memory.values(session, _DOMAINS)

    def held_documents(self, session: str) -> list[HeldDocument]:
        """Documents in the order of their first retrieval, each once, under the title it last had."""
        held: dict[str, HeldDocument] = {}
        for value in self._memory.values(session, _HELD):
            domain, path, title = value.split("\t", 2)
            held[path] = HeldDocument(domain=domain, path=path, title=title)
        return list(held.values())

    def marks(self, session: str) -> frozenset[str]:
        """Every mark of :mod:`retrieval.parts` that was claimed."""
        return self._memory.marked(session)

    def claim(self, session: str, *, unless: Sequence[frozenset[str]], marks: Sequence[str]) -> bool:
        """Mark atomically unless one of the sets is wholly marked already; True when this call may serve the text."""
        return self._memory.claim(session, unless=unless, marks=marks)

    def release(self, session: str, marks: Sequence[str]) -> None:
        """Give a claim back whose text was not served after all."""
        self._memory.release(session, marks)

    def count_lookup(self, session: str) -> int:
        """How many lookups this scope has made, this one included; atomic."""
        return self._memory.increment(session, _LOOKUPS)

    def count_repeat(self, session: str) -> int:
        """How many lookups, this one included, led to a best document that was already given; atomic."""
        return self._memory.increment(session, _REPEATS)

    def clear_session(self, session: str) -> None:
        """Forget everything of this session."""
        self._memory.clear(session)
