"""What a language model proposed for a header, beside what its author wrote: states, and the merge of both (DOC-2).

``ApiDocument.generated`` is ``{field: {"value": …, "state": …, "model": …, "made_at": ISO}}``. ``value`` is always the
model's own text: a person's stands in the file. No database here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings

from documents.frontmatter import covers_from, keywords_from, text_from, when_to_retrieve_from
from retrieval.normalise import normalise

FIELDS = ("title", "summary", "keywords", "covers", "when_to_retrieve")
IN_USE = ("covers", "when_to_retrieve")
"""Used from the moment that they are written; the others wait for a person."""
PROPOSED = ("title", "summary", "keywords")
LISTS = ("keywords", "covers")
DRAFT, ACCEPTED, EDITED, REJECTED = "draft", "accepted", "edited", "rejected"
RENEW = "renew"
"""Set in a draft's entry: a person asked for another text in its place; until then it stays."""

Generated = dict[str, dict[str, Any]]


def author_value(metadata: Mapping[str, Any] | None, field: str) -> str | list[str]:
    """What the header itself says: a list for ``LISTS``, else a text; empty where it says nothing.

    Keywords are those of all fields that ``KEYWORD_FIELDS`` names: whoever has tags enough lacks no keywords.
    """
    if field == "keywords":
        return list(keywords_from(metadata, settings.KEYWORD_FIELDS))
    if field == "covers":
        return list(covers_from(metadata))
    return when_to_retrieve_from(metadata) if field == "when_to_retrieve" else text_from(metadata, field)


def header_field(field: str) -> str:
    """The header's key that an accepted text is written under: keywords go where they are read from."""
    names = tuple(settings.KEYWORD_FIELDS)
    return names[0] if field == "keywords" and names and field not in names else field


def in_use(metadata: Mapping[str, Any] | None, generated: Mapping[str, Any]) -> tuple[list[str], str]:
    """``covers`` and ``when_to_retrieve`` as readers use them: the author's, else the model's while it is a draft."""
    covers = author_value(metadata, "covers") or _draft_value(generated, "covers")
    when = author_value(metadata, "when_to_retrieve") or _draft_value(generated, "when_to_retrieve")
    return [str(one) for one in covers] if isinstance(covers, list) else [], when if isinstance(when, str) else ""


def state_of(generated: Mapping[str, Any], field: str) -> str:
    """The state of a field's entry, "" where there is none (or it is none of ours)."""
    entry = generated.get(field)
    state = entry.get("state") if isinstance(entry, dict) else ""
    return state if state in (DRAFT, ACCEPTED, EDITED, REJECTED) else ""


def drafts_in(generated: Mapping[str, Any]) -> list[str]:
    """The fields whose text waits for a person, in order."""
    return [field for field in FIELDS if state_of(generated, field) == DRAFT]


def wanted_fields(metadata: Mapping[str, Any] | None, generated: Mapping[str, Any]) -> list[str]:
    """The fields that a model may write: empty in the header, and no person has decided on a draft."""
    return [
        field
        for field in FIELDS
        if state_of(generated, field) in ("", DRAFT) and not author_value(metadata, field)
    ]  # fmt: skip


def lacking_fields(metadata: Mapping[str, Any] | None, generated: Mapping[str, Any]) -> list[str]:
    """Those of them that have no draft yet, or for which a person asked for another one."""
    return [
        field
        for field in wanted_fields(metadata, generated)
        if not state_of(generated, field) or generated[field].get(RENEW)
    ]  # fmt: skip


def settle(generated: Mapping[str, Any], metadata: Mapping[str, Any] | None, *, malformed: bool = False) -> Generated:
    """The states as a new header decides them; called in the transaction that takes new content in.

    A field that the header fills is ``accepted`` where it says what the model said, else ``edited``. An accepted or
    edited one that the header has lost (a removal, an older file uploaded again) is a draft as before: no person's text
    stands for it any more. A malformed header decides nothing.
    """
    settled: Generated = {field: dict(entry) for field, entry in generated.items() if isinstance(entry, dict)}
    if malformed:
        return settled
    for field, entry in settled.items():
        if field not in FIELDS:
            continue
        theirs = author_value(metadata, field)
        if theirs:
            entry["state"] = ACCEPTED if _same(field, theirs, entry.get("value")) else EDITED
            entry.pop(RENEW, None)
        elif entry.get("state") in (ACCEPTED, EDITED):
            entry["state"] = DRAFT
    return settled


def with_drafts(
    generated: Mapping[str, Any], values: Mapping[str, Any], allowed: Collection[str], *, model: str, made_at: str
) -> Generated:
    """``generated`` with a draft for each of ``values`` whose field is still allowed."""
    fresh = {
        field: {"value": value, "state": DRAFT, "model": model, "made_at": made_at}
        for field, value in values.items()
        if field in allowed
    }
    return {**{field: dict(entry) for field, entry in generated.items() if isinstance(entry, dict)}, **fresh}


def _draft_value(generated: Mapping[str, Any], field: str) -> Any:
    return generated[field].get("value") if state_of(generated, field) == DRAFT else None


def _same(field: str, theirs: str | list[str], ours: object) -> bool:
    if isinstance(theirs, list):
        return isinstance(ours, list) and _as_set(theirs) == _as_set(ours)
    return isinstance(ours, str) and " ".join(theirs.split()) == " ".join(ours.split())


def _as_set(texts: list[Any]) -> set[str]:
    """Order aside, spelling normalised."""
    return {normalise(str(text)) for text in texts}
