"""What a button of the drafts page does, and the words that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from documents import services
from documents.admin.draft_fields import LABELS, typed_value
from documents.generated import FIELDS
from documents.models import ApiDocument


class DecisionError(Exception):
    """A request that no button of the page makes, or an empty box; the text says what to do."""


@dataclass(frozen=True)
class Decision:
    """``do=verb:field,field`` of the form, what the page showed (revision, each draft's time), what was typed."""

    verb: str
    fields: tuple[str, ...]
    revision: int | None
    typed: str
    seen: dict[str, str]

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Decision:
        verb, _colon, names = str(sent.get("do", "")).partition(":")
        revision = str(sent.get("revision", ""))
        return cls(
            verb=verb,
            fields=tuple(name for name in names.split(",") if name in FIELDS),
            revision=int(revision) if revision.isdecimal() and len(revision) < 10 else None,
            typed=str(sent.get("value", "")),
            seen={name: str(sent[f"seen-{name}"]) for name in FIELDS if f"seen-{name}" in sent},
        )


@dataclass(frozen=True)
class Outcome:
    """What to say on the page, what to note in the history, and how it is taken back (``verb:fields``)."""

    words: str
    logged: str
    undo: str = ""
    fragment: str = ""


def decide(document: ApiDocument, decision: Decision, *, user: Any) -> Outcome:
    """Do it. Raises DecisionError, and what ``documents.services`` refuses."""
    step = _STEPS.get(decision.verb)
    if step is None or (not decision.fields and decision.verb != "ask"):
        raise DecisionError(_("Choose one of the buttons of the page."))
    return step(document, decision, user)


def _accept(document: ApiDocument, decision: Decision, user: Any) -> Outcome:
    services.accept_drafts(document.pk, decision.fields, revision=decision.revision, user=user, seen=decision.seen)
    return _outcome(
        decision, _("In the header now: %(names)s."), _("Accepted the model’s draft: %(names)s."), undo="undo"
    )


def _save(document: ApiDocument, decision: Decision, user: Any) -> Outcome:
    field = decision.fields[0]
    value = typed_value(field, decision.typed)
    if not value:
        raise DecisionError(_("The box is empty. Write something, or cancel and dismiss the draft."))
    services.accept_edited_draft(document.pk, field, value, revision=decision.revision, user=user)
    words = _("Saved: %(names)s. It is a person’s own now; the model will not change it.")
    return _outcome(decision, words, _("Edited and accepted the model’s draft: %(names)s."), undo="undo")


def _dismiss(document: ApiDocument, decision: Decision, user: Any) -> Outcome:
    services.reject_drafts(document.pk, decision.fields, user=user)
    return _outcome(decision, _("Dismissed: %(names)s."), _("Dismissed the model’s draft: %(names)s."), undo="restore")


def _undo(document: ApiDocument, decision: Decision, user: Any) -> Outcome:
    services.undo_acceptance(document.pk, decision.fields, revision=decision.revision, user=user)
    return _outcome(
        decision, _("A draft again: %(names)s."), _("Took the model’s draft out of the header again: %(names)s.")
    )


def _restore(document: ApiDocument, decision: Decision, user: Any) -> Outcome:
    for field in decision.fields:
        services.restore_draft(document.pk, field)
    return _outcome(decision, _("A draft again: %(names)s."), _("Brought a dismissed draft back: %(names)s."))


def _ask(document: ApiDocument, decision: Decision, user: Any) -> Outcome:
    services.regenerate_drafts([document.pk], decision.fields or None)
    if decision.fields:
        return _outcome(decision, _("The model is asked again: %(names)s."), _("Asked the model again: %(names)s."))
    return Outcome(_("The model is asked again."), _("Asked the model again."))


_STEPS: dict[str, Callable[[ApiDocument, Decision, Any], Outcome]] = {
    "accept": _accept,
    "save": _save,
    "dismiss": _dismiss,
    "undo": _undo,
    "restore": _restore,
    "ask": _ask,
}


def _outcome(decision: Decision, words: str, logged: str, undo: str = "") -> Outcome:
    names = {"names": _(", ").join(str(LABELS[field]) for field in decision.fields)}
    one = decision.fields[0] if len(decision.fields) == 1 else ""
    return Outcome(
        words=words % names,
        logged=logged % names,
        undo=f"{undo}:{','.join(decision.fields)}" if undo else "",
        fragment=f"#{one}" if one else "",
    )
