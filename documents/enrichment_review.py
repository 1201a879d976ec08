"""What people do with a model's drafts: accept, edit, reject, take back, ask again. And how far the model has come.

Accepting is an edit of the file's header like any other; the transaction that takes the new content in settles the
states (``generated.settle``). None of these may be called inside a transaction. They raise :class:`DocumentError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.translation import gettext as _

from clients.registry import get_llm
from documents import generated as drafts
from documents.domains import mark_dirty
from documents.enrichment_overview import Draft, EnrichmentProgress, drafts_of, pending_ids, progress
from documents.errors import DocumentError
from documents.frontmatter import clean_line
from documents.generated import ACCEPTED, DRAFT, EDITED, FIELDS, LISTS, REJECTED, RENEW, state_of
from documents.llm_jobs import ask_again
from documents.llm_pause import pause
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from documents.publishing import locked
from documents.transactions import repeated_on_deadlock
from documents.uploads import edit_metadata, not_found, require
from documents.wakeup import wake_llm_worker

__all__ = [
    "Draft",
    "EnrichmentProgress",
    "accept",
    "accept_edited",
    "drafts_of",
    "pending_ids",
    "progress",
    "regenerate",
    "reject",
    "restore",
    "retry_failed",
    "undo",
]
log = logging.getLogger("documents.enrichment")
_ATTEMPTS = 3


def accept(
    document_id: int,
    fields: Sequence[str] | None,
    *,
    revision: int | None,
    user: AbstractBaseUser | None,
    seen: Mapping[str, str] | None = None,
) -> ApiDocument:
    """Write drafts into the file's header: a new revision. ``fields`` None: every draft.

    ``seen`` says of which ``made_at`` the accepted drafts were when the person looked: another one is ``stale_draft``.
    Raises ``no_draft`` and ``stale_draft`` (409), and what ``edit_metadata`` raises: ``frontmatter_malformed``,
    ``stale_revision``, ``not_found``, … Then every draft stays as it was.
    """
    for attempt in range(_ATTEMPTS):
        document = require(document_id)
        values = _acceptable(document, fields, seen or {})
        changes = {drafts.header_field(field): value for field, value in values.items()}
        # Always by revision: a header that its author has filled meanwhile is read again, never written over.
        expected = document.revision if revision is None else revision
        try:
            return edit_metadata(document_id=document_id, changes=changes, revision=expected, user=user)
        except DocumentError as fault:
            if fault.code != "stale_revision" or revision is not None or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


def accept_edited(
    document_id: int, field: str, value: str | list[str], *, revision: int | None, user: AbstractBaseUser | None
) -> ApiDocument:
    """Write a person's own wording of a draft into the header. ``value``: a list for keywords and covers, else a text.

    Raises ``empty_value`` and ``invalid_value`` (400), ``no_draft`` (409), and what ``edit_metadata`` raises.
    """
    cleaned = _persons_value(field, value)
    document = require(document_id)
    if not state_of(document.generated, field):
        raise _no_draft()
    expected = document.revision if revision is None else revision
    changes = {drafts.header_field(field): cleaned}
    return edit_metadata(document_id=document_id, changes=changes, revision=expected, user=user)


def reject(document_id: int, fields: Sequence[str] | None, *, user: AbstractBaseUser | None) -> ApiDocument:
    """Put drafts aside: they are neither used nor made anew by themselves. Raises ``no_draft`` (409), ``not_found``."""
    document = _decide(document_id, fields, {DRAFT: REJECTED})
    log.info("%s: drafts rejected by %s", document.file_path, user.get_username() if user else "the site")
    return document


def restore(document_id: int, field: str) -> ApiDocument:
    """Take a rejection back. Raises ``no_draft`` (409), ``not_found`` (404)."""
    return _decide(document_id, [field], {REJECTED: DRAFT})


def undo(
    document_id: int, fields: Sequence[str], *, user: AbstractBaseUser | None, revision: int | None = None
) -> ApiDocument:
    """Take accepted or edited texts out of the header again, in one revision: they are drafts as before.

    Raises ``no_draft`` (409) where nothing was accepted, and what ``edit_metadata`` raises.
    """
    document = require(document_id)
    chosen = [field for field in _known(fields) if state_of(document.generated, field) in (ACCEPTED, EDITED)]
    if not chosen:
        raise _no_draft()
    expected = document.revision if revision is None else revision
    changes = dict.fromkeys(map(drafts.header_field, chosen))
    return edit_metadata(document_id=document_id, changes=changes, revision=expected, user=user)


def regenerate(document_ids: Iterable[int], fields: Sequence[str] | None = None) -> int:
    """Have drafts and rejected texts of these fields (None: all) made anew; how many documents that are.

    Drafts stay until the new ones are there; what a person accepted or wrote is never touched. Raises
    ``llm_not_configured`` (409), ``unknown_field`` (400).
    """
    _require_llm()
    names = _known(fields)
    asked = sum(_renew(document_id, names) for document_id in document_ids)
    _go_on()
    return asked


def retry_failed() -> int:
    """Ask again for every document of which the model's answer was no use; how many. Raises ``llm_not_configured``."""
    _require_llm()
    asked = ask_again(DocumentEnrichment.objects.filter(state=LlmJob.State.FAILED))
    _go_on()
    return asked


def _acceptable(document: ApiDocument, fields: Sequence[str] | None, seen: Mapping[str, str]) -> dict[str, Any]:
    waiting = drafts.drafts_in(document.generated)
    chosen = [field for field in _known(fields) if field in waiting]
    chosen = [field for field in chosen if not drafts.author_value(document.metadata, field)]
    if not chosen:
        raise _no_draft()
    entries = {field: document.generated[field] for field in chosen}
    if any(field in seen and entry.get("made_at") != seen[field] for field, entry in entries.items()):
        detail = _("The model has written another draft meanwhile. Look at it, then decide.")
        raise DocumentError(detail, code="stale_draft", status=409)
    return {field: entry["value"] for field, entry in entries.items()}


def _persons_value(field: str, value: object) -> str | list[str]:
    _known([field])
    if field in LISTS:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise DocumentError(_("This field takes a list of texts."), code="invalid_value", field=field)
        cleaned: str | list[str] = [line for line in map(clean_line, value) if line]
    elif isinstance(value, str):
        cleaned = value.strip() if field == "summary" else clean_line(value)
    else:
        raise DocumentError(_("This field takes a text."), code="invalid_value", field=field)
    if not cleaned:
        detail = _("There is nothing in it. Write something, or dismiss the draft.")
        raise DocumentError(detail, code="empty_value", field=field)
    return cleaned


def _decide(document_id: int, fields: Sequence[str] | None, states: Mapping[str, str]) -> ApiDocument:
    """Put the named fields that are in one of ``states`` into the state behind it."""
    names = _known(fields)

    def change(generated: dict[str, Any]) -> list[str]:
        moved = [field for field in names if state_of(generated, field) in states]
        for field in moved:
            entry = generated[field]
            generated[field] = {**entry, "state": states[entry["state"]]}
        return moved

    document, moved = _change(document_id, change)
    if not moved:
        raise _no_draft()
    return document


def _renew(document_id: int, names: Sequence[str]) -> bool:
    def change(generated: dict[str, Any]) -> list[str]:
        rejected = [field for field in names if state_of(generated, field) == REJECTED]
        waiting = [field for field in names if state_of(generated, field) == DRAFT]
        for field in rejected:
            del generated[field]
        for field in waiting:
            generated[field] = {**generated[field], RENEW: True}
        row = DocumentEnrichment.objects.get_or_create(pk=document_id)[0]
        ask_again(DocumentEnrichment.objects.filter(pk=row.pk))
        return rejected + waiting

    try:
        _change(document_id, change)
    except DocumentError:  # gone meanwhile: nothing is to be made of it
        return False
    return True


@repeated_on_deadlock
def _change(document_id: int, change: Callable[[dict[str, Any]], list[str]]) -> tuple[ApiDocument, list[str]]:
    """Change the states under the row's lock; ``change`` says which fields it touched."""
    with transaction.atomic(durable=True):
        document = locked(document_id)
        if document is None or document.status == ApiDocument.Status.DELETING:
            raise not_found()
        before = drafts.in_use(document.metadata, document.generated)
        generated = dict(document.generated)
        touched = change(generated)
        if touched:
            document.generated = generated
            document.save(update_fields=["generated"])
        if drafts.in_use(document.metadata, document.generated) != before:
            mark_dirty(document.category)
    return document, touched


def _known(fields: Sequence[str] | None) -> list[str]:
    names = list(FIELDS if fields is None else fields)
    unknown = next((name for name in names if name not in FIELDS), None)
    if unknown is not None:
        detail = _("There is no field “%(name)s” that a model writes.") % {"name": str(unknown)[:60]}
        raise DocumentError(detail, code="unknown_field", field="fields")
    return names


def _no_draft() -> DocumentError:
    detail = _("There is no such draft (any more): somebody has decided on it, or the field has been filled.")
    return DocumentError(detail, code="no_draft", status=409)


def _require_llm() -> None:
    if not get_llm().configured:
        detail = _("No language model is configured: nothing can be asked.")
        raise DocumentError(detail, code="llm_not_configured", status=409)


def _go_on() -> None:
    """A person has asked: a rest after a fault ends."""
    pause.wish()
    wake_llm_worker()
