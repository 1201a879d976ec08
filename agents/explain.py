"""One lookup explained for staff: matches, check, ranking, thresholds, level, and what would change it (SPEC LK-5).

Pure: it reads the trace that the lookup itself left and asks nothing a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.explain_reasons import Lookup, changes_of, reasons_of
from agents.explanation import Explanation, Hit, KeywordOwners, Origin, PreciseCheck, Threshold
from clients.interfaces import LevelFit
from retrieval.lookup_types import LookupOutcome, LookupTrace, RetrievalSettings, TracedMatch
from retrieval.normalise import normalise
from retrieval.precise import ENOUGH_OF_THE_QUERY, covered_share, may_be_precise
from retrieval.relevance import NEARLY_ALL, LevelRule, found_from, rule_for

# A query of no words: the check then passes by an identifier alone.
_NO_WORDS = "\ue000"


def explain(
    query: str,
    outcome: LookupOutcome,
    *,
    section_title: str = "",
    settings: RetrievalSettings,
    fit: LevelFit,
    calibrated: bool = False,
) -> Explanation:
    """Why this lookup came out as it did.

    ``query``, ``section_title``, ``settings`` and ``fit`` are those that it was made with; ``calibrated``: the fit is
    the site's own, not the embedder's shipped one.
    """
    trace = outcome.trace or LookupTrace()
    rule = rule_for(settings, fit)
    check = check_match(query, trace.matches, outcome.l0_match_count, settings)
    lookup = Lookup(query, section_title, outcome, trace, rule, check)
    return Explanation(
        level=outcome.result.relevance_level,
        check=check,
        asked_meaning=lookup.asked_meaning,
        has_lexical=trace.has_lexical,
        reasons=tuple(reasons_of(lookup)),
        changes=tuple(changes_of(lookup)),
        thresholds=tuple(_thresholds(rule, settings, "calibration" if calibrated else "embedder", lookup)),
        hits=tuple(_hits(outcome, trace)),
        keywords=tuple(_owners(trace.matches)),
        ranked=trace.ranked,
        fitted_on=fit.fitted_on,
        fitted_at=fit.date,
    )


def check_match(
    query: str, matches: Sequence[TracedMatch], count: int, settings: RetrievalSettings
) -> PreciseCheck | None:
    """What the PRECISE check says of the one match; None where there is none, or several."""
    if count != 1 or not matches:
        return None
    keywords = matches[0].keywords
    codes = tuple(keyword for keyword in keywords if may_be_precise(_NO_WORDS, [keyword]))
    share = covered_share(query, [keyword for keyword in keywords if normalise(keyword)])
    if not settings.precise_check:
        return PreciseCheck(True, "off", codes, share, ENOUGH_OF_THE_QUERY)
    if codes:
        return PreciseCheck(True, "identifier", codes, share, ENOUGH_OF_THE_QUERY)
    passed = may_be_precise(query, keywords)
    return PreciseCheck(passed, "share" if passed else "failed", (), share, ENOUGH_OF_THE_QUERY)


def _thresholds(rule: LevelRule, settings: RetrievalSettings, shipped: Origin, lookup: Lookup) -> list[Threshold]:
    """The bounds that decide here: with agreement asked for and a list of words to agree with, that one."""
    high_set = settings.highly_relevant_threshold is not None
    low_set = settings.reference_threshold is not None
    high_origin: Origin = "environment" if high_set else shipped
    high_setting, low_setting = "RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD", "RETRIEVAL_REFERENCE_THRESHOLD"
    by_agreement = lookup.agreement
    found = [
        Threshold("highly_relevant", rule.highly_relevant, high_origin, high_setting)
        if by_agreement is None
        else Threshold("agreement", by_agreement, high_origin, high_setting, agreed=True, support=rule.min_support),
        Threshold("reference", rule.reference, "environment" if low_set else shipped, low_setting),
    ]
    if rule.covered_reference is not None:
        found.append(
            Threshold("covered_reference", rule.covered_reference, shipped, low_setting, coverage=rule.min_coverage)
        )
        nearly_all = found_from(rule, NEARLY_ALL)
        found.append(Threshold("nearly_all", nearly_all, shipped, low_setting, coverage=NEARLY_ALL))
    return found


def _hits(outcome: LookupOutcome, trace: LookupTrace) -> list[Hit]:
    """Exact matches in their order, then what only the ranking holds, in its order."""
    served = {one.document_id: one for one in outcome.served}
    ranked = {one.document.document_id: one for one in trace.candidates}
    keywords = {match.document.document_id: match.keywords for match in trace.matches}
    documents = [match.document for match in trace.matches] + [one.document for one in trace.candidates]
    hits = []
    for document_id, document in {document.document_id: document for document in documents}.items():
        given = served.get(document_id)
        hits.append(
            Hit(
                document=document,
                role=given.role if given is not None else "",
                section=given.section if given is not None else "",
                keywords=keywords.get(document_id, ()),
                candidate=ranked.get(document_id),
            )
        )
    return hits


def _owners(matches: Sequence[TracedMatch]) -> list[KeywordOwners]:
    """Each matched keyword with its documents, shared ones first; spellings that read the same are one keyword."""
    owners: dict[str, KeywordOwners] = {}
    for match in matches:
        for text, keyword in {normalise(keyword): keyword for keyword in match.keywords}.items():
            known = owners.get(text, KeywordOwners(keyword, ()))
            owners[text] = KeywordOwners(known.keyword, (*known.documents, match.document))
    return sorted(owners.values(), key=lambda one: -len(one.documents))
