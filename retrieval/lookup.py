"""One lookup: exact match, semantic search when that is not unique, level, action memory, answer (SPEC section 9)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from clients.interfaces import Embedder, VectorStore
from retrieval.action_memory import MemoryScope, RetrievedDocTracker
from retrieval.answers import Answers, Served
from retrieval.call_memory import CallMemory
from retrieval.chunking import find_section
from retrieval.exact import ExactHit, ExactIndex, ExactMatches
from retrieval.interfaces import DocumentSource, DocumentState
from retrieval.lookup_types import Language, LookupOutcome, RetrievalSettings
from retrieval.messages import Held
from retrieval.part_scores import PartScores
from retrieval.precise import may_be_precise
from retrieval.relevance import rule_for
from retrieval.rows import LiveRows
from retrieval.semantic import SemanticFindings, SemanticHit, SemanticSearch
from retrieval.serving import CurrentText, Texts
from retrieval.stopwatch import Stopwatch

log = logging.getLogger(__name__)

REPEATS_ALLOWED = 2
"""Lookups of one run that may lead to a document already given and still get what is left of it (AM-4 b)."""
_SECTION_CANDIDATES = 10
_HELD_NAMED = 5
# A knowledge base folder that is gone makes every text unreadable: the lookup does not try a thousand of them.
_UNREADABLE_TRIED = 10


def lookup_knowledge(
    query: str,
    *,
    section_title: str | None = None,
    source: DocumentSource,
    index: ExactIndex,
    embedder: Embedder,
    store: VectorStore,
    tracker: RetrievedDocTracker,
    scope: MemoryScope | None,
    settings: RetrievalSettings,
    budget: int | None = None,
    language: Language = "zh",
) -> LookupOutcome:
    """Look something up; the one function behind the agents' tool, the API, MCP and the admin's test page.

    ``query`` is not blank and at most 2,000 characters (the caller checks). Without a ``scope`` nothing is remembered
    and nothing withheld. ``budget`` is how many lookups this scope may make in all. An embedder, store or memory that
    fails is named in ``degraded`` and never raised.
    """
    watch = Stopwatch()
    memory = CallMemory(tracker, scope, watch)
    rule = rule_for(settings, embedder.fit)
    rows = LiveRows(source)
    answers = Answers(
        memory=memory,
        rule=rule,
        language=language,
        watch=watch,
        metric=store.metric,
        embedder=embedder.name,
    )
    if budget is not None and memory.count_lookup() > budget:
        return answers.budget_used_up()
    with watch.stage("l0"):
        # Degradation point "keyword_index" (L0-7): an index that cannot be read leaves the lookup to L1.
        outdated = not index.refresh()
        found = index.find(query, rows.live, wanted=2)
    exact = ExactMatches(found, rows, watch, outdated=outdated)
    search = SemanticSearch(
        source=source,
        embedder=embedder,
        store=store,
        rows=rows,
        rule=rule,
        max_l2_distance=settings.max_l2_distance,
        watch=watch,
    )
    scores = PartScores(query, source)
    chooses = settings.primary_content == "selected"
    lookup = _Lookup(
        query=query,
        exact=exact,
        search=search,
        scores=scores,
        texts=Texts(source, rows, memory, scores if chooses else None, settings.text_limit),
        memory=memory,
        answers=answers,
        hard_domain_limit=settings.domain_limit == "hard",
        precise_check=settings.precise_check,
    )
    try:
        return lookup.run((section_title or "").strip())
    except BaseException:
        # What this call claimed was not served: without this the text would be withheld for the rest of the run.
        memory.give_back()
        raise


class _Lookup:
    """One call's hits on their way to an answer."""

    def __init__(
        self,
        *,
        query: str,
        exact: ExactMatches,
        search: SemanticSearch,
        scores: PartScores,
        texts: Texts,
        memory: CallMemory,
        answers: Answers,
        hard_domain_limit: bool,
        precise_check: bool,
    ) -> None:
        self._query = query
        self._exact = exact
        self._search = search
        self._scores = scores
        self._texts = texts
        self._memory = memory
        self._answers = answers
        self._hard_domain_limit = hard_domain_limit
        self._precise_check = precise_check
        self._found = SemanticFindings()
        self._precise = False

    def run(self, section_title: str) -> LookupOutcome:
        first = self._exact.first()
        self._precise = first is not None and self._exact.is_unique() and self._may_be_precise(first)
        log.debug("exact search: %d matches; semantic search %s", self._exact.count, "no" if self._precise else "asked")
        if not self._precise:
            self._ask_meaning()
        self._note_hits()
        if first is None and not self._found.hits:
            return self._answers.miss(unreadable=False)
        return self._run_section(section_title) if section_title else self._run_hits()

    def _may_be_precise(self, match: ExactHit) -> bool:
        return not self._precise_check or may_be_precise(self._query, match.keywords)

    def _ask_meaning(self) -> None:
        self._found = self._search.find(self._query)
        if self._found.ranking is not None:
            self._scores.distances = self._found.ranking.distances

    def _note_hits(self) -> None:
        self._answers.note_hits(self._exact, self._found)

    @property
    def _unreadable(self) -> bool:
        return self._texts.unreadable > 0

    # ---- Without a section title ----

    def _run_hits(self) -> LookupOutcome:
        best = self._best_state()
        repeated = self._texts.was_given(best) and self._memory.count_repeat() > REPEATS_ALLOWED
        if repeated or not self._anything_left():
            return self._already_given()
        if self._hard_domain_limit and self._only_known_domains():
            domains = dict.fromkeys(state.domain for state in self._hit_states())
            return self._answers.domain_given(list(domains), self._held_hits())
        return self._serve()

    def _best_state(self) -> DocumentState:
        first = self._exact.first()
        return first.state if first is not None else self._found.hits[0].state

    def _anything_left(self) -> bool:
        return any(not self._texts.exact_is_filtered(hit.state) for hit in self._exact) or any(
            not self._texts.semantic_is_filtered(hit) for hit in self._found.hits
        )

    def _only_known_domains(self) -> bool:
        """Does every hit lie in a domain retrieved before, and is no exact match on an unseen document? (AM-5)"""
        known = set(self._memory.domains())
        if any(hit.state.domain not in known for hit in self._found.hits):
            return False
        return all(self._texts.was_given(hit.state) and hit.state.domain in known for hit in self._exact)

    def _serve(self) -> LookupOutcome:
        primary = self._serve_primary()
        if self._precise and primary is None and not self._texts.refused:
            # The one exact match had no text to give: what is near in meaning is the next best.
            self._precise = False
            self._ask_meaning()
            self._note_hits()
        supplement = self._serve_supplement(other_than=primary.state.document_id if primary else None)
        served = [one for one in (primary, supplement) if one is not None]
        if served:
            return self._answers.served(
                served, precise=self._precise and primary is not None, unreadable=self._unreadable
            )
        if self._texts.refused:
            return self._already_given()
        return self._answers.miss(unreadable=self._unreadable)

    def _serve_primary(self) -> Served | None:
        for hit in self._exact:
            if self._texts.unreadable >= _UNREADABLE_TRIED:
                break
            given = self._texts.serve_exact(hit.state)
            if given is not None:
                state, passage = given
                return Served(state=state, passage=passage, role="primary", match_type="exact_L0")
        return None

    def _serve_supplement(self, *, other_than: int | None) -> Served | None:
        for hit in self._found.hits:
            if hit.state.document_id == other_than:
                continue
            passage = self._texts.serve_semantic(hit)
            if passage is not None:
                return Served(state=hit.state, passage=passage, role="supplement", match_type="semantic_L1")
        return None

    # ---- With a section title (DOC-11) ----

    def _run_section(self, title: str) -> LookupOutcome:
        """That section of the first hit that has it and was not shown it whole; nothing else is spent on the call."""
        asked: CurrentText | None = None
        shown_before: list[DocumentState] = []
        for state, is_exact in self._section_candidates():
            text = self._texts.current(state)
            if text is None:
                continue
            asked = asked or text
            section = find_section(text.sections, title)
            if section is None:
                continue
            passage = self._texts.serve_section(text, section)
            if passage is None:
                shown_before.append(text.state)
                continue
            served = Served(
                state=text.state,
                passage=passage,
                role="primary" if is_exact else "supplement",
                match_type="exact_L0" if is_exact else "semantic_L1",
            )
            return self._answers.served([served], precise=self._precise and is_exact, unreadable=self._unreadable)
        if shown_before:
            return self._answers.already_given([self._texts.held(state) for state in shown_before])
        if asked is None:
            return self._answers.miss(unreadable=self._unreadable)
        return self._answers.unknown_section(asked, self._would_be_served(), precise=self._precise)

    def _section_candidates(self) -> Iterator[tuple[DocumentState, bool]]:
        exact = [hit.state for hit in islice(self._exact, _SECTION_CANDIDATES)]
        yield from ((state, True) for state in exact)
        known = {state.document_id for state in exact}
        yield from ((hit.state, False) for hit in self._found.hits if hit.state.document_id not in known)

    def _would_be_served(self) -> list[DocumentState]:
        """The documents of the same lookup without a section title, memory left out."""
        first = self._exact.first()
        primary = [first.state] if first is not None else []
        ids = {state.document_id for state in primary}
        others: Sequence[SemanticHit] = [hit for hit in self._found.hits if hit.state.document_id not in ids]
        return primary + [hit.state for hit in others[:1]]

    # ---- What the reader holds already ----

    def _already_given(self) -> LookupOutcome:
        return self._answers.already_given(self._held_hits())

    def _hit_states(self) -> Iterator[DocumentState]:
        seen: set[int] = set()
        exact = (hit.state for hit in islice(self._exact, _SECTION_CANDIDATES))
        for state in (*exact, *(hit.state for hit in self._found.hits)):
            if state.document_id not in seen:
                seen.add(state.document_id)
                yield state

    def _held_hits(self) -> list[Held]:
        """The hits whose text was given before; where none was, what the same domains gave."""
        given = [state for state in self._hit_states() if self._texts.was_given(state)]
        if given:
            return [self._texts.held(state) for state in given[:_HELD_NAMED]]
        domains = {state.domain for state in self._hit_states()}
        return [Held(title=one.title, path=one.path) for one in self._memory.held() if one.domain in domains]
