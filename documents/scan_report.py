"""What a scan found, and whether it held something back (DOC-7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from clients.interfaces import PartHealth
from documents.counters import put, read

_HELD_BACK = "scan_held_back"
_FOLDER_MISSING = -1


@dataclass
class ScanReport:
    """Counts of documents. ``skipped`` are files that are no documents, as (path on disk, reason)."""

    files: int = 0
    new: int = 0
    changed: int = 0
    moved: int = 0
    vanished: int = 0
    reappeared: int = 0
    pruned: int = 0
    held_back: int = 0
    folder_missing: bool = False
    dry_run: bool = False
    seconds: float = 0.0
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        """One line for people."""
        counts = _(
            "%(files)d files: %(new)d new, %(changed)d changed, %(moved)d moved, %(reappeared)d back, "
            "%(vanished)d missing, %(pruned)d removed, %(skipped)d skipped, in %(seconds).1f s"
        )
        text = counts % {**self.__dict__, "skipped": len(self.skipped)}
        return f"{text}. {self.warning}" if self.warning else text

    @property
    def found_something(self) -> bool:
        """Whether anything differed from what is known."""
        counts = (self.new, self.changed, self.moved, self.vanished, self.reappeared, self.pruned)
        return any(counts) or bool(self.warning or self.skipped)

    @property
    def warning(self) -> str:
        """Why nothing was hidden although files are missing; '' when all is well."""
        return warning_for(_FOLDER_MISSING if self.folder_missing else self.held_back)

    def remember(self) -> None:
        """Keep for /readyz, in every process and after a restart, what was held back."""
        put(_HELD_BACK, _FOLDER_MISSING if self.folder_missing else self.held_back)


def warning_for(held_back: int) -> str:
    """A sentence for people; '' for 0."""
    if not held_back:
        return ""
    if held_back == _FOLDER_MISSING:
        what = _("The knowledge base folder is missing while there are documents.")
    else:
        what = _("%(count)d files vanished at once.") % {"count": held_back}
    remedy = _("Nothing was hidden: mount or restore the folder, or confirm with: manage.py scan --prune --yes")
    return f"{what} {remedy}"


def scan_state() -> PartHealth:
    """Degraded while the last scan held back a mass disappearance (DOC-7)."""
    warning = warning_for(read(_HELD_BACK))
    return PartHealth("degraded", warning) if warning else PartHealth("ok")
