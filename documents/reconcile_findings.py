"""What a reconcile can find, in words for people, and what its steps share: whether to mend, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from documents.reconcile_lease import Turn


class Words(NamedTuple):
    """What was found, and what to do where it could not be mended. Both may name the finding's details."""

    what: str | Promise
    remedy: str | Promise


_AGAIN = _("Run reconcile again; the log says why it could not be done.")
_DISK = _("Look whether the knowledge base folder can be written, then run reconcile again.")
_STORE = _("Look at the vector store in /readyz, then run reconcile again.")
WORDS: dict[str, Words] = {
    "unpublished": Words(_("saved, and not yet in its place in the folder"), _DISK),
    "staged_leftover": Words(_("a staged file that no document waits for"), _DISK),
    "temporary_file": Words(_("a file of a write that was cut off"), _DISK),
    "deleting": Words(
        _("deleted, and not everything of it is removed: %(reason)s"),
        _("Mend what it names; the deletion goes on by itself."),
    ),
    "lease_expired": Words(_("a worker began to index it and was gone before the end"), _AGAIN),
    "llm_lease_expired": Words(_("a language model was being asked for it when the process ended"), _AGAIN),
    "domain_without_row": Words(_("a folder with documents and without a domain"), _AGAIN),
    "domain_count": Words(_("the domain counts %(there)s documents and has %(wanted)s"), _AGAIN),
    "counter_behind": Words(_("the change counter stands at %(there)s, below a row’s %(wanted)s"), _AGAIN),
    "file_new": Words(_("a file without a document"), _AGAIN),
    "file_changed": Words(_("the file was changed by others"), _AGAIN),
    "file_back": Words(_("the file that was missing is there again"), _AGAIN),
    "file_missing": Words(_("the file is gone"), _AGAIN),
    "file_refused": Words(_("in the folder, and no document: %(reason)s"), _("Change the file, or take it away.")),
    "files_vanished": Words(
        _("%(count)s files vanished at once, or the folder did; nothing was hidden"),
        _("Mount or restore the folder, or confirm with: manage.py scan --prune --yes"),
    ),
    "history_without_row": Words(_("kept bytes of an earlier revision that no row knows"), _AGAIN),
    "history_without_file": Words(
        _("the kept bytes of revision %(revision)s of %(path)s are gone"),
        _("Restore .history/ from a backup; without one this revision cannot be brought back."),
    ),
    "vectors_wrong": Words(_("%(there)s vectors are there and %(wanted)s should be; they are made again"), _STORE),
    "vectors_orphaned": Words(_("%(there)s vectors of a revision that no document has"), _STORE),
    "vectors_unseen": Words(_("the vectors could not be compared: %(reason)s"), _STORE),
    "chunks_wrong": Words(_("%(there)s chunks are stored and %(wanted)s should be; they are made again"), _AGAIN),
    "chunks_stray": Words(_("%(there)s stored chunks of a revision that does not answer"), _AGAIN),
    "chunk_count": Words(_("%(wanted)s chunks are noted; there are %(there)s, and as many vectors"), _AGAIN),
    "terms_miscounted": Words(_("%(count)s terms were counted wrongly for the lexical search"), _AGAIN),
    "keyword_index": Words(_("this process’ keyword index said something else than the row"), _AGAIN),
    "check_failed": Words(_("this check was cut off by a fault: %(reason)s"), _AGAIN),
}
LIGHT = frozenset({
    "unpublished", "staged_leftover", "temporary_file", "deleting", "lease_expired", "llm_lease_expired",
    "domain_without_row", "domain_count", "counter_behind", "file_new", "file_changed", "file_back", "file_missing",
    "files_vanished",
})  # fmt: skip
"""What the pass of each minute looks for as well: its word on these is newer than the last full pass'."""
_NOTES = frozenset({"file_refused"})
"""Said, and not wrong: the site is as it should be, and a person may want to know."""


@dataclass(frozen=True)
class Finding:
    """One thing out of step. ``details`` fill the words of its kind; ``mended``: put right, or queued to be made."""

    kind: str
    subject: str
    mended: bool
    details: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """What is out of step, in the reader's language."""
        return str(WORDS[self.kind].what) % dict(self.details)

    @property
    def remedy(self) -> str:
        """What to do; '' where there is nothing to do any more."""
        return "" if self.mended else str(WORDS[self.kind].remedy) % dict(self.details)

    @property
    def wrong(self) -> bool:
        """Whether something stays wrong."""
        return not self.mended and self.kind not in _NOTES

    def as_dict(self) -> dict[str, Any]:
        """For people and programs: in words."""
        told = {"kind": self.kind, "subject": self.subject, "what": self.what}
        return {**told, "mended": self.mended, "wrong": self.wrong, "remedy": self.remedy}

    def stored(self) -> dict[str, Any]:
        """For the row: without words, which are made when it is read."""
        return {"kind": self.kind, "subject": self.subject, "mended": self.mended, "details": dict(self.details)}


def restored(stored: Mapping[str, Any]) -> Finding | None:
    """The finding that :meth:`Finding.stored` gave; None for a kind that this version does not know."""
    if stored["kind"] not in WORDS:
        return None
    return Finding(stored["kind"], stored["subject"], bool(stored["mended"]), stored["details"])


@dataclass
class Look:
    """One pass on its way. ``mend`` is off where nothing may change, ``full`` takes the checks that cost much,
    ``asked`` is for a person who waits: no back-off is kept, and folders that are not watched are looked at."""

    mend: bool
    full: bool
    asked: bool
    turn: Turn | None = None
    findings: list[Finding] = field(default_factory=list)

    def note(self, kind: str, subject: object, *, mended: bool, **details: str | int) -> None:
        """Add a finding; of a pass that only looks none is mended."""
        self.findings.append(Finding(kind, str(subject), mended and self.mend, details))

    def keep_turn(self) -> None:
        """For long loops. Raises ``TurnLostError``."""
        if self.turn is not None:
            self.turn.keep()
