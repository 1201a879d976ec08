"""The five fields of a header as the drafts page shows them: who wrote each, what differs, what can be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from documents.generated import IN_USE, LISTS
from documents.services import Draft

LABELS: dict[str, str | Promise] = {
    "title": _("Title"),
    "summary": _("Summary"),
    "keywords": _("Keywords"),
    "covers": _("What it covers"),
    "when_to_retrieve": _("When to retrieve"),
}
HELPS: dict[str, str | Promise] = {
    "title": _("One line, as it stands in lists and answers."),
    "summary": _("One or two sentences."),
    "keywords": _("One a line: error codes, names, set terms. A question that holds one finds this document exactly."),
    "covers": _("One situation a line: what somebody wants to do who needs this document."),
    "when_to_retrieve": _("One sentence. It tells the planner when to look here."),
}
_CHIPS: dict[str, tuple[str, str, str | Promise]] = {
    "locked": ("", "lock", _("Author’s own")),
    "draft": ("blue", "draft", _("Draft by model")),
    "accepted": ("pine", "check", _("Accepted")),
    "edited": ("ochre", "edit", _("Edited by a person")),
    "rejected": ("ink", "off", _("Dismissed")),
    "empty": ("ink", "off", _("Empty")),
}
_WORD = re.compile(r"\s+|[A-Za-z0-9_]+|.", re.DOTALL)


@dataclass(frozen=True)
class FieldView:
    """One field: its chip, its value, and the editor where it is open."""

    name: str
    label: str | Promise
    help: str | Promise
    state: str
    tone: str
    icon: str
    chip: str | Promise
    value: Any
    parts: list[tuple[str, str]]
    clashes: list[Clash]
    made_at: str
    editing: bool
    typed: str
    error: str

    @property
    def is_list(self) -> bool:
        return self.name in LISTS

    @property
    def in_use(self) -> bool:
        return self.state == "draft" and self.name in IN_USE

    @property
    def buttons(self) -> bool:
        """Whether there is anything to do about it here: the author's own and the empty ones are left alone."""
        return self.state not in ("locked", "empty")

    @property
    def clashing(self) -> list[str]:
        return [clash.keyword for clash in self.clashes]

    @property
    def rows(self) -> int:
        return max(2, self.typed.count("\n") + 2) if self.is_list else 3


@dataclass(frozen=True)
class Clash:
    """A keyword with the other documents that have it too."""

    keyword: str
    documents: Sequence[Any]


@dataclass(frozen=True)
class Editor:
    """Which field is open, what stands in its box, and why it was not taken."""

    field: str = ""
    typed: str | None = None
    without: str = ""
    error: str = ""


def field_views(drafts: Sequence[Draft], editor: Editor) -> list[FieldView]:
    """The fields in the header's order."""
    return [_view(draft, editor) for draft in drafts]


def state_of(draft: Draft) -> str:
    """The draft's own state; without one, whether the author wrote the field or nobody did."""
    return draft.state or ("locked" if draft.author_value else "empty")


def typed_value(field: str, typed: str) -> str | list[str]:
    """What a person typed into the box, as the field takes it."""
    lines = [line.strip() for line in typed.splitlines()]
    if field in LISTS:
        return [line for line in lines if line]
    return " ".join(line for line in lines if line)


def as_text(value: Any) -> str:
    """A value as it stands in the box: a list one entry a line."""
    return "\n".join(str(each) for each in value) if isinstance(value, list | tuple) else str(value or "")


def _view(draft: Draft, editor: Editor) -> FieldView:
    state = state_of(draft)
    tone, icon, chip = _CHIPS[state]
    shown = draft.author_value if state in ("locked", "accepted", "edited") and draft.author_value else draft.value
    editing = editor.field == draft.field and state == "draft"
    return FieldView(
        name=draft.field,
        label=LABELS[draft.field],
        help=HELPS[draft.field],
        state=state,
        tone=tone,
        icon=icon,
        chip=chip,
        value=shown,
        parts=_differences(as_text(draft.value), as_text(draft.author_value)) if state == "edited" else [],
        clashes=[Clash(keyword, others) for keyword, others in draft.clashes.items()],
        made_at=draft.made_at,
        editing=editing,
        typed=_typed(draft, editor) if editing else "",
        error=editor.error if editing else "",
    )


def _typed(draft: Draft, editor: Editor) -> str:
    if editor.typed is not None:
        return editor.typed
    if isinstance(draft.value, list | tuple):
        return as_text([each for each in draft.value if each != editor.without])
    return as_text(draft.value)


def _differences(before: str, after: str) -> list[tuple[str, str]]:
    """What a person changed of the model's words: runs that are kept, taken out and put in."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    parts: list[tuple[str, str]] = []
    gone = come = ""
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        out, into = "".join(old[a:b]), "".join(new[c:d])
        if kind == "equal" and (out.strip() or not (gone or come)):
            parts += [("del", gone), ("ins", come), ("", out)]
            gone = come = ""
        else:  # a blank between two changes belongs to both: one change reads better than two
            gone, come = gone + out, come + into
    parts += [("del", gone), ("ins", come)]
    return [part for part in parts if part[1]]
