"""The steps on the way to a lookup's level, and what would have made it another one, as codes with their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from agents.explanation import PreciseCheck, Reason, rounded_down
from retrieval.lookup_types import LookupOutcome, LookupTrace, TracedCandidate, TracedMatch
from retrieval.normalise import normalise
from retrieval.precise import ENOUGH_OF_THE_QUERY, may_be_precise
from retrieval.relevance import NEARLY_ALL, LevelRule, found_from


@dataclass(frozen=True)
class Lookup:
    """What the reasons are drawn from. ``check`` is None unless exactly one document matched."""

    query: str
    section_title: str
    outcome: LookupOutcome
    trace: LookupTrace
    rule: LevelRule
    check: PreciseCheck | None

    @property
    def level(self) -> str | None:
        return self.outcome.result.relevance_level

    @property
    def count(self) -> int:
        """Exact matches."""
        return self.outcome.l0_match_count

    @property
    def asked_meaning(self) -> bool:
        return self.outcome.timings.embed_ms is not None

    @property
    def agreement(self) -> float | None:
        """The bound that goes with being first in both lists, where that is asked for and there are two."""
        one_list = self.trace.ranked and not self.trace.has_lexical
        return None if one_list else self.rule.agreement

    @property
    def high_bound(self) -> float:
        """The similarity that a highly relevant document has at least."""
        return self.rule.highly_relevant if self.agreement is None else self.agreement

    @property
    def failed(self) -> str:
        """``embedder`` or ``vector_store``, where that part of the search failed."""
        parts = self.outcome.degraded.split(",")
        return next((part for part in ("embedder", "vector_store") if part in parts), "")

    @property
    def served_ids(self) -> set[int]:
        return {one.document_id for one in self.outcome.served}

    @cached_property
    def decisive(self) -> TracedCandidate | None:
        """Of what is served (of the ranking, where nothing is) the document that the level was decided on."""
        known = [one for one in self.trace.candidates if one.similarity is not None]
        if self.outcome.served:
            known = [one for one in known if one.document.document_id in self.served_ids]
        elif self.outcome.case == "unknown_section":
            known = [one for one in known if one.document.document_id in self._would_be_served]
        return max(known, key=lambda one: (one.highly_relevant, one.found, one.similarity or 0.0), default=None)

    @property
    def unreadable(self) -> bool:
        """Was a text missing that would have been served?"""
        return "document_text" in self.outcome.degraded

    @property
    def _would_be_served(self) -> set[int]:
        """Without the section title: the first match, and the best other document by meaning."""
        first = {match.document.document_id for match in self.trace.matches[:1]}
        found = [one.document.document_id for one in self.trace.candidates if one.found]
        return first | set([one for one in found if one not in first][:1])


# ---- The way to the level ------------------------------------------------------------------------------------------
def reasons_of(lookup: Lookup) -> Iterator[Reason]:
    """In the order in which a lookup goes."""
    if lookup.outcome.dedup_reason == "budget_exhausted":
        yield Reason("budget_exhausted")
        return
    yield from _exact(lookup)
    yield from _check(lookup)
    yield from _meaning(lookup)
    yield from _served(lookup)
    nothing_readable = lookup.level is None and lookup.unreadable
    if lookup.level != "DEDUPED" and not nothing_readable:
        yield from _evidence(lookup)
    yield Reason("level", {"level": lookup.level})


def _exact(lookup: Lookup) -> Iterator[Reason]:
    if "keyword_index" in lookup.outcome.degraded:
        yield Reason("index_outdated")
    if not lookup.count:
        yield Reason("no_match")
    elif lookup.count == 1 and lookup.trace.matches:
        match = lookup.trace.matches[0]
        yield Reason("one_match", {"title": match.document.title, "keywords": match.keywords})
    else:
        yield Reason("several_matches", {"count": lookup.count})


def _check(lookup: Lookup) -> Iterator[Reason]:
    check = lookup.check
    if check is None:
        return
    match check.reason:
        case "off":
            yield Reason("check_off")
        case "identifier":
            yield Reason("check_identifier", {"keywords": check.codes})
        case "share":
            yield Reason("check_share", _shares(check))
        case "failed":
            yield Reason("check_failed", {"keywords": lookup.trace.matches[0].keywords, **_shares(check)})
    if check.passed and lookup.asked_meaning:
        yield Reason("match_unreadable")


def _shares(check: PreciseCheck) -> dict[str, int]:
    return {"share": _percent(check.share), "needed": round(check.needed * 100)}


def _percent(share: float) -> int:
    return round(rounded_down(share) * 100)


def _meaning(lookup: Lookup) -> Iterator[Reason]:
    if not lookup.asked_meaning:
        yield Reason("meaning_not_asked")
    elif lookup.failed:
        yield Reason(f"{lookup.failed}_down", {"error": lookup.outcome.error})
    elif not lookup.trace.ranked:
        yield Reason("nothing_ranked")
    else:
        code = "meaning_and_words_asked" if lookup.trace.has_lexical else "meaning_asked"
        yield Reason(code, {"count": lookup.trace.ranked})


def _served(lookup: Lookup) -> Iterator[Reason]:
    """Where what is served is not what was found first."""
    outcome, best = lookup.outcome, lookup.outcome.best
    if outcome.dedup_reason is not None:
        yield Reason(outcome.dedup_reason)
    elif outcome.case == "unknown_section":
        yield Reason("unknown_section", {"section": lookup.section_title})
    elif lookup.level is None and lookup.unreadable:
        yield Reason("nothing_readable")
    elif outcome.served and best is not None and best.document_id not in lookup.served_ids:
        code = "best_without_section" if lookup.section_title else "best_given_before"
        yield Reason("best_unreadable" if lookup.unreadable else code, {"title": best.title})


def _evidence(lookup: Lookup) -> Iterator[Reason]:
    """What the document that decides has to show. A match that is PRECISE needs nothing more."""
    one = lookup.decisive
    if lookup.level == "PRECISE" or not lookup.asked_meaning or lookup.failed:
        pass
    elif one is not None:
        yield _found(one, lookup)
        if one.found:
            yield from _high(one, lookup)
    elif lookup.trace.ranked:
        yield Reason("match_not_near")
    if lookup.level == "REFERENCE" and lookup.count and not (one is not None and one.found):
        yield Reason("keyword_suffices")


def _found(one: TracedCandidate, lookup: Lookup) -> Reason:
    rule, similarity = lookup.rule, one.similarity or 0.0
    values = {"title": one.document.title, "similarity": similarity, "bound": rule.reference}
    if similarity >= rule.reference:
        return Reason("similar_enough", values)
    if one.found:
        return Reason("covered_enough", values | _coverage(one, lookup))
    bound = found_from(rule, one.coverage or 0.0)
    return Reason("not_similar_enough", values | {"bound": bound, "short": bound - similarity})


def _coverage(one: TracedCandidate, lookup: Lookup) -> dict[str, float]:
    rule = lookup.rule
    coverage = one.coverage or 0.0
    nearly_all = coverage >= NEARLY_ALL
    return {
        "bound": found_from(rule, coverage),
        "share": _percent(coverage),
        "needed": round((NEARLY_ALL if nearly_all else rule.min_coverage) * 100),
    }


def _high(one: TracedCandidate, lookup: Lookup) -> Iterator[Reason]:
    """That it is highly relevant, or everything that keeps it from that."""
    similarity, bound = one.similarity or 0.0, lookup.high_bound
    values = {"similarity": similarity, "bound": bound, "support": one.support, "needed": lookup.rule.min_support}
    if one.highly_relevant and lookup.agreement is None:
        yield Reason("high_by_similarity", values)
    elif one.highly_relevant:
        yield Reason("high_by_support" if lookup.rule.min_support else "high_by_agreement", values)
    missing = _missing_for_high(one, lookup)
    if "short" in missing:
        yield Reason("not_high_by_similarity", values | missing)
    if "dense" in missing:
        yield Reason("not_agreed", {"dense": missing["dense"], "lexical": missing["lexical"]})
    if "short_support" in missing:
        yield Reason("not_supported", values)


def _missing_for_high(one: TracedCandidate, lookup: Lookup) -> dict[str, float]:
    """``short`` of similarity, ``short_support`` of similarity and coverage together, and the places ``dense`` and
    ``lexical`` (0: not there) of what is not first in both lists.
    """
    missing: dict[str, float] = {}
    if one.highly_relevant:
        return missing
    short = lookup.high_bound - (one.similarity or 0.0)
    if short > 0:
        missing["short"] = short
    if lookup.agreement is not None and not one.first_in_both:
        missing |= {"dense": one.dense_rank or 0, "lexical": one.lexical_rank or 0}
    if lookup.agreement is not None and one.support < lookup.rule.min_support:
        missing["short_support"] = lookup.rule.min_support - one.support
    return missing


# ---- What would change it ------------------------------------------------------------------------------------------
def changes_of(lookup: Lookup) -> Iterator[Reason]:
    """What would have made the level another one; only what is known to do so."""
    if lookup.outcome.dedup_reason is not None:
        yield Reason("forget")
        return
    if lookup.level == "PRECISE":
        yield Reason("second_owner", {"keywords": lookup.trace.matches[0].keywords})
        return
    yield from _to_precise(lookup)
    if lookup.failed:
        yield Reason(f"{lookup.failed}_back")
    elif lookup.decisive is not None:
        yield from _to_better_evidence(lookup.decisive, lookup)


def _to_precise(lookup: Lookup) -> Iterator[Reason]:
    check, matches = lookup.check, lookup.trace.matches
    if check is not None:
        code = "text_needed" if check.passed else "share_needed"
        yield Reason(code, {"keywords": matches[0].keywords, **_shares(check)})
    elif not lookup.count:
        yield from _keyword_missing(lookup)
    elif len(matches) == lookup.count:
        yield from _one_owner(matches, lookup.query)


def _keyword_missing(lookup: Lookup) -> Iterator[Reason]:
    needed, one = round(ENOUGH_OF_THE_QUERY * 100), lookup.decisive
    if one is not None and one.found:
        yield Reason("keyword_missing", {"title": one.document.title, "needed": needed})
    else:
        yield Reason("keyword_would_find", {"needed": needed})


def _one_owner(matches: tuple[TracedMatch, ...], query: str) -> Iterator[Reason]:
    """The first document that would be the only one left if its keywords were nobody else's."""
    texts = [{normalise(keyword) for keyword in match.keywords} for match in matches]
    for match, own in zip(matches, texts, strict=True):
        others = [each for each in texts if each is not own]
        if all(each <= own for each in others) and may_be_precise(query, match.keywords):
            shared = set().union(*others)
            keywords = tuple(keyword for keyword in match.keywords if normalise(keyword) in shared)
            yield Reason("one_owner", {"keywords": keywords, "title": match.document.title})
            return


def _to_better_evidence(one: TracedCandidate, lookup: Lookup) -> Iterator[Reason]:
    rule, similarity = lookup.rule, one.similarity or 0.0
    if not one.found:
        # A keyword match is a Reference already.
        if not lookup.count:
            short = found_from(rule, one.coverage or 0.0) - similarity
            yield Reason("short_of_found", {"similarity": similarity, "short": short})
            if rule.covered_reference is not None and similarity >= rule.covered_reference:
                yield Reason("coverage_needed", {"title": one.document.title, **_coverage(one, lookup)})
        return
    missing = _missing_for_high(one, lookup)
    if missing:
        yield Reason("high_needs", missing)
