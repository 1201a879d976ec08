"""The sentences of an explanation: one for each code of ``agents/explain_reasons.py``, in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext, gettext_lazy, ngettext_lazy

from agents.explanation import Reason, rounded_down, rounded_up
from agents.templatetags.kbsite import level_look

KEYWORDS_NAMED = 5

_WORDS: dict[str, Any] = {
    # Exact search
    "index_outdated": gettext_lazy("The keyword index could not be brought up to date: a match may be missing."),
    "no_match": gettext_lazy("No keyword of any document stands in the query."),
    "one_match": gettext_lazy("One document has a keyword in the query: “%(title)s”, by %(keywords)s."),
    "several_matches": ngettext_lazy(
        "%(count)d document has a keyword in the query: not one alone, so not Exact.",
        "%(count)d documents have a keyword in the query: not one alone, so not Exact.",
        "count",
    ),
    # The PRECISE check
    "check_off": gettext_lazy("The check of single matches is off (RETRIEVAL_PRECISE_CHECK): one match is enough."),
    "check_identifier": gettext_lazy("Check passed: %(keywords)s names one thing, as a code does."),
    "check_share": gettext_lazy(
        "Check passed: its keywords make up %(share)d%% of what the query says; %(needed)d%% is enough."
    ),
    "check_failed": gettext_lazy(
        "Check not passed: %(keywords)s is no code, and makes up %(share)d%% of what the query says; "
        "%(needed)d%% would do."
    ),
    "match_unreadable": gettext_lazy("Its text could not be read, so the next best is looked for."),
    # Semantic search
    "meaning_not_asked": gettext_lazy("Search by meaning was not asked."),
    "embedder_down": gettext_lazy("Search by meaning failed, the embedder does not answer: %(error)s"),
    "vector_store_down": gettext_lazy("Search by meaning failed, the vector store does not answer: %(error)s"),
    "nothing_ranked": gettext_lazy("Search by meaning was asked; no document has vectors yet."),
    "meaning_asked": ngettext_lazy(
        "Search by meaning was asked: %(count)d document, the nearest first.",
        "Search by meaning was asked: %(count)d documents, the nearest first.",
        "count",
    ),
    "meaning_and_words_asked": ngettext_lazy(
        "Search by meaning and by words was asked: %(count)d document, ranked by both.",
        "Search by meaning and by words was asked: %(count)d documents, ranked by both.",
        "count",
    ),
    # What is served
    "doc_retrieved": gettext_lazy("Everything found was given before in this memory: nothing is given twice."),
    "domain_retrieved": gettext_lazy("Everything found lies in domains searched before (RETRIEVAL_DOMAIN_LIMIT)."),
    "budget_exhausted": gettext_lazy("The lookups of this run are used up (LOOKUP_BUDGET): nothing was searched."),
    "unknown_section": gettext_lazy("The document found has no section “%(section)s”: its sections are named instead."),
    "nothing_readable": gettext_lazy("Documents were found, and none of their texts could be read."),
    "best_given_before": gettext_lazy(
        "The best hit, “%(title)s”, was given before: the level is that of what is left and given now."
    ),
    "best_unreadable": gettext_lazy("The text of the best hit, “%(title)s”, could not be read: the next one is given."),
    "best_without_section": gettext_lazy(
        "The best hit, “%(title)s”, has no such section, or it was given before: the next one with it is given."
    ),
    # What speaks for it
    "similar_enough": gettext_lazy(
        "“%(title)s”: similarity %(similarity).2f, not below %(bound).2f, the bound for Reference."
    ),
    "covered_enough": gettext_lazy(
        "“%(title)s”: similarity %(similarity).2f, not below %(bound).2f; that is enough for Reference where the text "
        "holds %(needed)d%% of the query’s words, and it holds %(share)d%%."
    ),
    "not_similar_enough": gettext_lazy(
        "The nearest, “%(title)s”: similarity %(similarity).2f is %(short).2f below %(bound).2f, the bound for "
        "Reference."
    ),
    "high_by_similarity": gettext_lazy("That is not below %(bound).2f either, the bound for Highly relevant."),
    "high_by_agreement": gettext_lazy(
        "It is first by meaning and by words, and not below %(bound).2f: that makes it Highly relevant."
    ),
    "high_by_support": gettext_lazy(
        "It is first by meaning and by words, not below %(bound).2f, and similarity and share of the query add up to "
        "%(support).2f (%(needed).2f is asked): that makes it Highly relevant."
    ),
    "not_supported": gettext_lazy(
        "Similarity and share of the query add up to %(support).2f: %(needed).2f is asked for Highly relevant."
    ),
    "not_high_by_similarity": gettext_lazy("It is %(short).2f below %(bound).2f, the bound for Highly relevant."),
    "match_not_near": gettext_lazy(
        "What is given is not among the nearest by meaning: its keyword alone speaks for it."
    ),
    "keyword_suffices": gettext_lazy("A match by keyword is Reference at least."),
    # What would change it
    "forget": gettext_lazy("With the memory forgotten, or without one, it is given again."),
    "second_owner": gettext_lazy("A second document with one of these keywords would end it: %(keywords)s."),
    "share_needed": gettext_lazy(
        "It would be Exact if %(keywords)s made up %(needed)d%% of the query (now %(share)d%%), or if a code that only "
        "this document has stood in the query."
    ),
    "text_needed": gettext_lazy("With its text readable it would be Exact."),
    "keyword_missing": gettext_lazy(
        "It would be Exact if “%(title)s” alone had a keyword that stands in the query: a code, or %(needed)d%% of "
        "what the query says."
    ),
    "keyword_would_find": gettext_lazy(
        "A document would be found, as Exact, if it alone had a keyword that stands in the query: a code, or "
        "%(needed)d%% of what the query says."
    ),
    "one_owner": gettext_lazy("It would be Exact if only “%(title)s” had the keyword %(keywords)s."),
    "embedder_back": gettext_lazy("With the embedder back, documents near in meaning are found too."),
    "vector_store_back": gettext_lazy("With the vector store back, documents near in meaning are found too."),
    "short_of_found": gettext_lazy("It would be found with %(short).2f more similarity: a text nearer to the query."),
    "coverage_needed": gettext_lazy(
        "It would be found if the text held %(needed)d%% of the query’s words (now %(share)d%%)."
    ),
}
_NOT_AGREED = gettext_lazy("It is not first in both lists (%(dense)s, %(lexical)s): that is asked for Highly relevant.")


def sentence(reason: Reason) -> str:
    """A reason in words. ``KeyError`` for a code that has none."""
    values = {name: _shown(name, value) for name, value in reason.values.items()}
    if reason.code == "level":
        return gettext("Together: %(level)s.") % {"level": level_look(reason.values["level"]).label}
    if reason.code == "not_agreed":
        return str(_NOT_AGREED % _places(reason.values))
    if reason.code == "high_needs":
        return gettext("It would be Highly relevant with %(needs)s.") % {"needs": _needs(reason.values)}
    return str(_WORDS[reason.code] % values)


def keyword_list(keywords: Sequence[str]) -> str:
    """“A”, “B”; the first few, and a mark that there are more."""
    named = gettext("”, “").join(keywords[:KEYWORDS_NAMED])
    return f"“{named}”" + (" …" if len(keywords) > KEYWORDS_NAMED else "")


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return keyword_list(value)
    if name in ("similarity", "support"):
        return rounded_down(value)
    return rounded_up(value) if name.startswith("short") else value


def _needs(missing: Mapping[str, Any]) -> str:
    found = []
    if "short" in missing:
        found.append(gettext("%(short).2f more similarity") % {"short": rounded_up(missing["short"])})
    if "dense" in missing:
        found.append(gettext("the first place in both lists (now %(dense)s, %(lexical)s)") % _places(missing))
    if "short_support" in missing:
        found.append(
            gettext("%(short).2f more of similarity and share of the query together")
            % {"short": rounded_up(missing["short_support"])}
        )
    return gettext(" and ").join(found)


def _places(ranks: Mapping[str, Any]) -> dict[str, str]:
    dense, lexical = int(ranks["dense"]), int(ranks["lexical"])
    return {
        "dense": gettext("%(place)d by meaning") % {"place": dense} if dense else gettext("not by meaning"),
        "lexical": gettext("%(place)d by words") % {"place": lexical} if lexical else gettext("not by words"),
    }
