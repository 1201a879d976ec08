"""One question put to the loaded site: its level, what was served, whether that is right, the key facts in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from observability.evaluation.data import Fact, Question
from observability.evaluation.site import EvaluationSite
from retrieval.lookup_types import LookupOutcome
from retrieval.relevance import RelevanceLevel

_MARKUP = re.compile(r"[`*\\]")


@dataclass(frozen=True)
class Facts:
    """Key facts of a question: how many there are, how many the text of one lookup holds word for word.

    ``by_meaning``: not held, but the document served is a twin in another language of one that has them; whether a
    translation stands there only a reader can tell.
    """

    all: int = 0
    held: int = 0
    by_meaning: int = 0


@dataclass(frozen=True)
class Asked:
    """What one lookup gave. ``level`` is None for a miss.

    ``passage_right`` and ``document_right`` are of the first document served (the exact match, where there is one),
    ``any_document_right`` of both. ``literal_right``: with the PRECISE check off, PRECISE was given, and rightly or
    not; None where it was not given.
    """

    question: Question
    level: RelevanceLevel | None
    passage_right: bool
    document_right: bool
    any_document_right: bool
    literal_right: bool | None
    facts: Facts

    @property
    def found(self) -> bool:
        """Was anything served?"""
        return self.level is not None

    @property
    def is_precise(self) -> bool:
        """Did the lookup tell an agent to stop?"""
        return self.level is RelevanceLevel.PRECISE


def ask(site: EvaluationSite, question: Question, group_of: Mapping[str, str]) -> Asked:
    """Look the question up with its documents hidden."""
    with site.hide(question.hidden):
        outcome = site.look_up(question.text)
        literal = site.look_up(question.text, literal_precise=True) if outcome.l0_match_count == 1 else outcome
    served = [site.name_of(one.document_id) for one in outcome.served]
    documents = [is_right_document(question, name, group_of) for name in served]
    level = outcome.result.relevance_level if outcome.result.found else None
    return Asked(
        question=question,
        level=RelevanceLevel(level) if level is not None else None,
        passage_right=bool(served) and served[0] in question.right,
        document_right=bool(documents) and documents[0],
        any_document_right=any(documents),
        literal_right=_precise_right(site, literal, question, group_of),
        facts=_facts(question.facts, text_of(outcome), served),
    )


def is_right_document(question: Question, name: str, group_of: Mapping[str, str]) -> bool:
    """Is it one of the right documents, or another passage of one?"""
    return group_of[name] in {group_of[one] for one in question.right}


def text_of(outcome: LookupOutcome) -> str:
    """All text that one lookup returned."""
    parts = (outcome.result.primary, outcome.result.supplement)
    return "\n".join(part.content for part in parts if part is not None)


def folded(text: str) -> str:
    """A text without backticks, asterisks and backslashes, white space as one space, without upper case."""
    return " ".join(_MARKUP.sub("", text).split()).casefold()


def _precise_right(
    site: EvaluationSite, outcome: LookupOutcome, question: Question, group_of: Mapping[str, str]
) -> bool | None:
    if outcome.result.relevance_level != RelevanceLevel.PRECISE or not outcome.served:
        return None
    return is_right_document(question, site.name_of(outcome.served[0].document_id), group_of)


def _facts(facts: tuple[Fact, ...], text: str, served: list[str]) -> Facts:
    body = folded(text)
    missing = [fact for fact in facts if folded(fact.text) not in body]
    by_meaning = [fact for fact in missing if fact.twins & set(served) and not fact.documents & set(served)]
    return Facts(all=len(facts), held=len(facts) - len(missing), by_meaning=len(by_meaning))
