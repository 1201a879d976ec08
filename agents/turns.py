"""What a page draws of a run: the question, what was searched, the answer, its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from agents.answer import GAPS
from agents.markdown import render_markdown
from agents.models import ChatSession, Message, Run
from agents.notices import Notice, notice_of


@dataclass(frozen=True)
class Step:
    """One lookup of the trace: the query, its level, one line on what it found."""

    query: str
    level: str | None
    line: str
    keywords: Sequence[str]


@dataclass(frozen=True)
class Source:
    """One card in the margin."""

    index: int
    title: str
    section: str
    level: str | None
    url: str


@dataclass(frozen=True)
class Turn:
    """A question with all that came of it. ``unanswered`` says why there is no answer, "" where there is one."""

    run_id: str
    session_id: str
    question: str
    asked_at: datetime
    html: SafeString | str
    gap: SafeString | str
    notice: Notice | None
    steps: Sequence[Step]
    summary: str
    ending: str
    sources: Sequence[Source]
    unanswered: str


def turns_of(session: ChatSession) -> list[Turn]:
    """Every turn of a conversation, oldest first."""
    answers = {
        message.run_id: message for message in Message.objects.filter(session=session, role=Message.Role.ASSISTANT)
    }
    runs = Run.objects.filter(session=session).order_by("started_at", "id")
    return [turn_of(run, answers.get(run.pk)) for run in runs]


def turn_of(run: Run, answer: Message | None) -> Turn:
    """One turn, its words in the language in force."""
    body, gap = _parts(answer)
    addresses = _addresses(answer)
    lookups = answer.lookups if answer else []
    return Turn(
        run_id=str(run.pk),
        session_id=str(run.session_id),
        question=run.question,
        asked_at=run.started_at,
        html=render_markdown(body, citations=addresses) if body else "",
        gap=render_markdown(gap, citations=addresses) if gap else "",
        notice=notice_of(run, answer) if answer else None,
        steps=[_step(lookup) for lookup in lookups],
        summary=_summary(lookups),
        ending=_ending(lookups),
        sources=_sources(answer, addresses),
        unanswered="" if answer else _unanswered(run),
    )


def spoken(turn: Turn) -> str:
    """What the status line says when an answer has arrived."""
    if not turn.sources:
        return gettext("Nothing found.")
    count = len(turn.sources)
    return ngettext("Answer ready, %(count)s source.", "Answer ready, %(count)s sources.", count) % {"count": count}


def _parts(answer: Message | None) -> tuple[str, str]:
    """The answer's body, and what the knowledge base does not hold (shown apart, at the end)."""
    if answer is None:
        return "", ""
    if not answer.citations:
        return "", answer.text
    body, _blank, last = answer.text.rpartition("\n\n")
    return (body, last) if last.lstrip("*> ").startswith(tuple(GAPS.values())) else (answer.text, "")


def _addresses(answer: Message | None) -> dict[int, str]:
    if answer is None:
        return {}
    return {
        int(citation["index"]): reverse("source", args=[answer.pk, citation["index"]]) for citation in answer.citations
    }


def _sources(answer: Message | None, addresses: Mapping[int, str]) -> list[Source]:
    return [
        Source(
            index=int(citation["index"]),
            title=citation["title"],
            section=citation["section"] if citation["section"] != citation["title"] else "",
            level=citation.get("level"),
            url=addresses[int(citation["index"])],
        )
        for citation in (answer.citations if answer else [])
    ]


def _step(lookup: Mapping[str, Any]) -> Step:
    return Step(
        query=_one_line(lookup["query"]),
        level=lookup["relevanceLevel"],
        line=_found_line(lookup),
        keywords=lookup.get("keywords", []),
    )


def _found_line(lookup: Mapping[str, Any]) -> str:
    titles = gettext(", ").join(lookup.get("titles", []))
    matches = lookup.get("matches", 0)
    if lookup["relevanceLevel"] == "DEDUPED":
        return gettext("Given already in this run; not searched again.")
    if not lookup["found"]:
        return gettext("Neither a keyword nor the meaning led to a document.")
    if not matches:
        return gettext("Found by meaning: %(titles)s") % {"titles": titles}
    if matches == 1:
        return gettext("A keyword of this document only: %(titles)s") % {"titles": titles}
    return gettext("A keyword of %(count)s documents; given: %(titles)s") % {"count": matches, "titles": titles}


def _summary(lookups: Sequence[Mapping[str, Any]]) -> str:
    if not lookups:
        return ""
    times = ngettext("Looked up %(count)s time", "Looked up %(count)s times", len(lookups)) % {"count": len(lookups)}
    documents = len({source for lookup in lookups for source in lookup["sources"]})
    if not documents:
        return gettext("%(times)s, nothing found") % {"times": times}
    used = ngettext("used %(count)s document", "used %(count)s documents", documents) % {"count": documents}
    if lookups[-1]["relevanceLevel"] == "PRECISE":
        return gettext("%(times)s, %(used)s, stopped at an exact match") % {"times": times, "used": used}
    return gettext("%(times)s, %(used)s") % {"times": times, "used": used}


def _ending(lookups: Sequence[Mapping[str, Any]]) -> str:
    """Why it stopped: the line behind the full stop."""
    level = lookups[-1]["relevanceLevel"] if lookups else None
    if level == "PRECISE":
        return gettext("Nothing in the knowledge base is closer.")
    if level == "HIGHLY_RELEVANT":
        return gettext("Searching on would hardly find anything closer.")
    if level == "REFERENCE":
        return gettext("This is near, not exact; a more precise question may find more.")
    return gettext("There is nothing to go on with.")


def _unanswered(run: Run) -> str:
    if run.status == Run.Status.RUNNING:
        return gettext("Still at work on this. Load the page again in a moment.")
    return gettext("Something failed on our side before an answer was written. Ask again; the failure has been logged.")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"
