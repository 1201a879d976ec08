"""Puts a lookup's answer together: what the model sees, and beside it what is recorded (SPEC sections 7 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.call_memory import CallMemory
from retrieval.exact import ExactMatches
from retrieval.interfaces import DocumentState
from retrieval.lookup_types import (
    DedupReason,
    DocumentRef,
    Language,
    LookupCase,
    LookupOutcome,
    LookupResult,
    MatchType,
    Primary,
    Role,
    ServedDocument,
    Supplement,
)
from retrieval.messages import Held, messages_in
from retrieval.passages import Passage, section_titles
from retrieval.relevance import LevelRule, RelevanceLevel, assess, completeness_hint
from retrieval.semantic import SemanticFindings
from retrieval.serving import CurrentText
from retrieval.stopwatch import Stopwatch
from retrieval.trace import trace_of

_KEYWORDS_RECORDED = 50


@dataclass(frozen=True)
class Served:
    """A passage that this call claimed, and its place in the answer."""

    state: DocumentState
    passage: Passage
    role: Role
    match_type: MatchType


class Answers:
    """One call's answer; the cases are the rows of SPEC's table."""

    def __init__(
        self,
        *,
        memory: CallMemory,
        rule: LevelRule,
        language: Language,
        watch: Stopwatch,
        metric: str,
        embedder: str,
    ) -> None:
        self._memory = memory
        self._rule = rule
        self._say = messages_in(language)
        self._watch = watch
        self._metric = metric
        self._embedder = embedder
        self._exact: ExactMatches | None = None
        self._found = SemanticFindings()
        self._unreadable = False

    def note_hits(self, exact: ExactMatches, found: SemanticFindings) -> None:
        """What was found, before anything was filtered."""
        self._exact = exact
        self._found = found

    def served(self, served: Sequence[Served], *, precise: bool, unreadable: bool) -> LookupOutcome:
        """Something is given. ``precise``: the one exact match is among it, and passed its check."""
        self._unreadable = unreadable
        for one in served:
            self._memory.remember(domain=one.state.domain, path=one.state.file_path, title=one.state.title)
        domains = tuple(self._memory.domains())
        level = self._level([one.state for one in served], precise=precise)
        result = LookupResult(
            found=True,
            primary=next((_primary(one, precise=precise) for one in served if one.role == "primary"), None),
            supplement=next((_supplement(one) for one in served if one.role == "supplement"), None),
            relevance_level=level.value if level is not None else None,
            completeness_hint=completeness_hint(level),
            retrieved_domains=domains,
            message=self._degraded_message(),
        )
        return self._outcome("served", result, served=tuple(self._recorded(one) for one in served))

    def miss(self, *, unreadable: bool) -> LookupOutcome:
        """Nothing to give."""
        self._unreadable = unreadable
        case: LookupCase = "miss_l1_down" if self._found.degraded else "miss"
        message = self._say.miss_without_search() if self._found.degraded else self._say.miss()
        if unreadable:
            message = self._say.unreadable()
        elif self._outdated():
            message = f"{message} {self._say.without_exact_search()}"
        return self._outcome(case, LookupResult(found=False, retrieved_domains=self._domains(), message=message))

    def already_given(self, held: Sequence[Held]) -> LookupOutcome:
        return self._deduped("doc_retrieved", self._say.already_given(held))

    def domain_given(self, domains: Sequence[str], held: Sequence[Held]) -> LookupOutcome:
        return self._deduped("domain_retrieved", self._say.domain_given(domains, held))

    def budget_used_up(self) -> LookupOutcome:
        held = [Held(title=one.title, path=one.path) for one in self._memory.held()]
        return self._deduped("budget_exhausted", self._say.budget_used_up(held), found=bool(held))

    def unknown_section(
        self, asked: CurrentText, would_be_served: Sequence[DocumentState], *, precise: bool
    ) -> LookupOutcome:
        """The section titles of the document that would answer; nothing is marked."""
        level = self._level(would_be_served, precise=precise)
        result = LookupResult(
            found=True,
            relevance_level=level.value if level is not None else None,
            completeness_hint=completeness_hint(level),
            retrieved_domains=self._domains(),
            message=self._say.unknown_section(asked.state.title, section_titles(asked.section_keys)),
        )
        return self._outcome("unknown_section", result)

    def _deduped(self, reason: DedupReason, message: str, *, found: bool = True) -> LookupOutcome:
        result = LookupResult(
            found=found,
            relevance_level=RelevanceLevel.DEDUPED.value,
            retrieved_domains=self._domains(),
            message=message,
        )
        return self._outcome("deduped", result, dedup_reason=reason)

    def _level(self, states: Sequence[DocumentState], *, precise: bool) -> RelevanceLevel | None:
        evidence = [self._found.evidence_of(state.document_id) for state in states]
        return assess(
            l0_match_count=self._exact.count if self._exact is not None else 0,
            precise_served=precise,
            evidence=[one for one in evidence if one is not None],
            rule=self._rule,
        )

    def _domains(self) -> tuple[str, ...]:
        return tuple(self._memory.domains())

    def _outdated(self) -> bool:
        return self._exact is not None and self._exact.outdated

    def _degraded_message(self) -> str | None:
        sentences = [self._say.without_exact_search()] if self._outdated() else []
        if self._found.degraded:
            sentences.append(self._say.without_search())
        if self._memory.error:
            sentences.append(self._say.without_memory())
        return " ".join(sentences) or None

    def _recorded(self, one: Served) -> ServedDocument:
        return ServedDocument(
            document_id=one.state.document_id,
            file_path=one.state.file_path,
            domain=one.state.domain,
            title=one.state.title,
            role=one.role,
            section=one.passage.section,
            match_type=one.match_type,
            similarity=self._found.similarity_of_document(one.state.document_id),
        )

    def _best(self) -> DocumentRef | None:
        first = self._exact.first() if self._exact is not None else None
        state = first.state if first is not None else next((hit.state for hit in self._found.hits), None)
        if state is None:
            return None
        return DocumentRef(state.document_id, state.file_path, state.domain, state.title)

    def _outcome(
        self,
        case: LookupCase,
        result: LookupResult,
        *,
        dedup_reason: DedupReason | None = None,
        served: tuple[ServedDocument, ...] = (),
    ) -> LookupOutcome:
        degraded = [
            "keyword_index" if self._outdated() else "",
            self._found.degraded,
            "memory" if self._memory.error else "",
            "document_text" if self._unreadable else "",
        ]
        return LookupOutcome(
            result=result,
            case=case,
            timings=self._watch.timings(),
            dedup_reason=dedup_reason,
            served=served,
            best=self._best(),
            l0_match_count=self._exact.count if self._exact is not None else 0,
            l1_top_similarity=self._found.top_similarity,
            degraded=",".join(part for part in degraded if part),
            error="; ".join(reason for reason in (self._found.error, self._memory.error) if reason),
            details=self._details(result, dedup_reason),
            trace=trace_of(self._exact, self._found, self._rule),
        )

    def _details(self, result: LookupResult, dedup_reason: DedupReason | None) -> dict[str, Any]:
        """``retrieval_details``, every key of LK-4."""
        exact = self._exact.recorded() if self._exact is not None else []
        keywords = dict.fromkeys(keyword for hit in exact for keyword in hit.keywords)
        return {
            "l0_match_count": self._exact.count if self._exact is not None else 0,
            "l0_titles": [hit.state.title for hit in exact],
            "l0_matched_keywords": list(keywords)[:_KEYWORDS_RECORDED],
            "l1_match_count": len(self._found.hits),
            "l1_scores": [hit.squared_distance for hit in self._found.candidates],
            "l1_top_score": self._found.top_score,
            "l1_top_similarity": self._found.top_similarity,
            "metric": self._metric,
            "embedder": self._embedder,
            "relevance_level": result.relevance_level,
            "completeness_hint": result.completeness_hint,
            "retrieved_domains": list(result.retrieved_domains),
            "dedup_reason": dedup_reason,
        }


def _primary(one: Served, *, precise: bool) -> Primary:
    return Primary(
        content=one.passage.content,
        source=one.state.file_path,
        match_type=one.match_type,
        confidence="high" if precise else "low",
        available_sections=one.passage.available_sections,
    )


def _supplement(one: Served) -> Supplement:
    return Supplement(content=one.passage.content, source=one.state.file_path)
