"""What a lookup keeps of its own way, so that staff can be told why it came to its level (SPEC LK-5)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from retrieval.exact import ExactMatches
from retrieval.hybrid import RankedDocument
from retrieval.interfaces import DocumentState
from retrieval.lookup_types import DocumentRef, LookupTrace, TracedCandidate, TracedMatch
from retrieval.relevance import LevelRule
from retrieval.semantic import SemanticFindings, SemanticHit

RANKED_KEPT = 6
"""Documents of the ranking that are kept: those that levels look at, and what came next."""


def trace_of(exact: ExactMatches | None, found: SemanticFindings, rule: LevelRule) -> LookupTrace:
    """The hits of one lookup as plain values. Nothing is read for it."""
    matches = exact.recorded() if exact is not None else []
    ranking = found.ranking
    ranked = ranking.documents if ranking is not None else ()
    known = {hit.state.document_id: hit for hit in found.candidates}
    places = _Places(ranked)
    return LookupTrace(
        matches=tuple(TracedMatch(_reference(hit.state), hit.keywords) for hit in matches),
        candidates=tuple(
            _candidate(one, places, known.get(one.state.document_id), rule) for one in ranked[:RANKED_KEPT]
        ),
        ranked=len(ranked),
        has_lexical=ranking is not None and ranking.has_lexical,
    )


class _Places:
    """A document's place in either list, 1 for the best; equals share the better place."""

    def __init__(self, ranked: Sequence[RankedDocument]) -> None:
        self._dense = sorted(-one.nearness for one in ranked if one.nearness is not None)
        self._lexical = sorted(-one.lexical for one in ranked if one.lexical is not None)

    def dense(self, one: RankedDocument) -> int | None:
        return None if one.nearness is None else bisect_left(self._dense, -one.nearness) + 1

    def lexical(self, one: RankedDocument) -> int | None:
        return None if one.lexical is None else bisect_left(self._lexical, -one.lexical) + 1


def _candidate(one: RankedDocument, places: _Places, hit: SemanticHit | None, rule: LevelRule) -> TracedCandidate:
    return TracedCandidate(
        document=_reference(one.state),
        fused=one.score,
        dense_rank=places.dense(one),
        distance=one.distance,
        lexical_rank=places.lexical(one),
        lexical=one.lexical,
        first_in_both=one.first_in_both,
        section=hit.chunk.section if hit is not None else "",
        similarity=hit.similarity if hit is not None else None,
        coverage=hit.evidence.coverage if hit is not None else None,
        found=hit is not None and rule.finds(hit.evidence),
        highly_relevant=hit is not None and rule.is_highly_relevant(hit.evidence),
    )


def _reference(state: DocumentState) -> DocumentRef:
    return DocumentRef(state.document_id, state.file_path, state.domain, state.title)
