"""The frozen values of one lookup: its settings, what a model sees, and what is recorded beside it (SPEC section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clients.interfaces import LevelFit

MatchType = Literal["exact_L0", "semantic_L1"]
Confidence = Literal["high", "low"]
Role = Literal["primary", "supplement"]
Language = Literal["zh", "en"]
DomainLimit = Literal["off", "soft", "hard"]
PrimaryContent = Literal["selected", "head"]
DedupReason = Literal["doc_retrieved", "domain_retrieved", "budget_exhausted"]
LookupCase = Literal["served", "miss", "miss_l1_down", "deduped", "unknown_section"]


@dataclass(frozen=True)
class RetrievalSettings:
    """What an operator may set. A threshold of ``None`` takes ``fit``, or without one the embedder's own; 0 is a value.

    Without ``precise_check`` every unique exact match is PRECISE (the literal rule). ``text_limit`` counts
    characters of one passage; of a longer document the parts that bear on the question are shown, or its ``head``.
    """

    highly_relevant_threshold: float | None = None
    reference_threshold: float | None = None
    max_l2_distance: float = 2.0
    domain_limit: DomainLimit = "soft"
    precise_check: bool = True
    text_limit: int = 2000
    primary_content: PrimaryContent = "selected"
    fit: LevelFit | None = None


@dataclass(frozen=True)
class Primary:
    """The exact match that is served."""

    content: str
    source: str
    match_type: MatchType
    confidence: Confidence
    available_sections: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "content": self.content,
            "source": self.source,
            "matchType": self.match_type,
            "confidence": self.confidence,
            "availableSections": None if self.available_sections is None else list(self.available_sections),
        }


@dataclass(frozen=True)
class Supplement:
    """The best passage by meaning that is served."""

    content: str
    source: str
    match_type: MatchType = "semantic_L1"

    def as_dict(self) -> dict[str, Any]:
        return {"content": self.content, "source": self.source, "matchType": self.match_type}


@dataclass(frozen=True)
class LookupResult:
    """Exactly what a model sees. No score, distance or similarity may ever be added here (LK-2b)."""

    found: bool
    primary: Primary | None = None
    supplement: Supplement | None = None
    relevance_level: str | None = None
    completeness_hint: str | None = None
    retrieved_domains: tuple[str, ...] = ()
    message: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON object of SPEC section 9, keys in its order."""
        return {
            "found": self.found,
            "primary": self.primary.as_dict() if self.primary else None,
            "supplement": self.supplement.as_dict() if self.supplement else None,
            "relevanceLevel": self.relevance_level,
            "completenessHint": self.completeness_hint,
            "retrievedDomainsThisSession": list(self.retrieved_domains),
            "message": self.message,
        }


@dataclass(frozen=True)
class DocumentRef:
    """A document by its words: what is recorded of the best hit."""

    document_id: int
    file_path: str
    domain: str
    title: str


@dataclass(frozen=True)
class ServedDocument:
    """One document served by a lookup. ``section`` is a section's key, "" for the opening; ``similarity`` is 0 to 1."""

    document_id: int
    file_path: str
    domain: str
    title: str
    role: Role
    section: str
    match_type: MatchType
    similarity: float | None


@dataclass(frozen=True)
class Timings:
    """Milliseconds by stage; ``None`` where a stage did not run."""

    total_ms: float
    l0_ms: float | None = None
    embed_ms: float | None = None
    l1_ms: float | None = None
    memory_ms: float | None = None


@dataclass(frozen=True)
class TracedMatch:
    """A document that exact search found, and by which of its keywords (in the author's spelling)."""

    document: DocumentRef
    keywords: tuple[str, ...]


@dataclass(frozen=True)
class TracedCandidate:
    """A document's place in the ranking. Ranks count from 1; None: that list does not hold the document.

    ``distance`` is squared, ``lexical`` the score of the lexical search, ``fused`` (0 to 1) what the order is by.
    ``similarity`` and ``coverage`` (0 to 1) and the two verdicts are known of the first documents only: levels look no
    further.
    """

    document: DocumentRef
    fused: float
    dense_rank: int | None
    distance: float | None
    lexical_rank: int | None
    lexical: float | None
    first_in_both: bool
    section: str = ""
    similarity: float | None = None
    coverage: float | None = None
    found: bool = False
    highly_relevant: bool = False

    @property
    def support(self) -> float:
        """Similarity and coverage together."""
        return (self.similarity or 0.0) + (self.coverage or 0.0)


@dataclass(frozen=True)
class LookupTrace:
    """How a lookup came to its level, for staff: what was found before anything was filtered.

    ``candidates`` are the first of ``ranked`` documents. ``has_lexical``: the ranking was by words too.
    """

    matches: tuple[TracedMatch, ...] = ()
    candidates: tuple[TracedCandidate, ...] = ()
    ranked: int = 0
    has_lexical: bool = False


@dataclass(frozen=True)
class LookupOutcome:
    """A lookup's result with everything that is recorded of it and never shown to a model.

    ``degraded`` names the parts that failed (``keyword_index``, ``embedder``, ``vector_store``, ``memory``,
    ``document_text``), separated by commas, "" when all was well; ``error`` says why, one line. ``details`` is
    ``retrieval_details`` (LK-4).
    """

    result: LookupResult
    case: LookupCase
    timings: Timings
    dedup_reason: DedupReason | None = None
    served: tuple[ServedDocument, ...] = ()
    best: DocumentRef | None = None
    l0_match_count: int = 0
    l1_top_similarity: float | None = None
    degraded: str = ""
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    trace: LookupTrace | None = None
