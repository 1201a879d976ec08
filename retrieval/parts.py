"""Parts: what the action memory marks of a text that was shown (AM-3, AM-6).

Three kinds of marks, all of one revision's content hash, so that an edited document is new:

- a *part* ``(path, hash, section)``: this section was given, at least the passage of it that was asked for; section ""
  is the opening;
- a *whole section*: all of this section's own text was shown;
- a *whole document*: the whole body was shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Neither a hash nor a path can hold a tab (file names with control characters are refused); a section stands last.
_SEPARATOR = "\t"
_PART, _WHOLE_SECTION, _WHOLE_DOCUMENT = "p", "w", "d"


@dataclass(frozen=True)
class Revision:
    """One text of one document: the identity that is remembered."""

    path: str
    content_hash: str

    def part(self, section: str) -> str:
        return _SEPARATOR.join((_PART, self.content_hash, self.path, section))

    def whole_section(self, section: str) -> str:
        return _SEPARATOR.join((_WHOLE_SECTION, self.content_hash, self.path, section))

    def whole_document(self) -> str:
        return _SEPARATOR.join((_WHOLE_DOCUMENT, self.content_hash, self.path, ""))

    def parts(self, sections: Iterable[str]) -> frozenset[str]:
        return frozenset(self.part(section) for section in sections)

    def whole_sections(self, sections: Iterable[str]) -> frozenset[str]:
        return frozenset(self.whole_section(section) for section in sections)


class Marks:
    """A snapshot of what a scope holds, read once a lookup."""

    def __init__(self, marks: frozenset[str]) -> None:
        self.all = marks
        self._given: set[Revision] = set()
        for mark in marks:
            kind, content_hash, path, _section = mark.split(_SEPARATOR, 3)
            if kind == _PART:
                self._given.add(Revision(path=path, content_hash=content_hash))

    def given(self, revision: Revision) -> bool:
        """Was any part of this revision given?"""
        return revision in self._given

    def has_one_of(self, sets: Iterable[frozenset[str]]) -> bool:
        """Is one of these sets wholly marked? (The question that a claim asks again, atomically.)"""
        return any(wanted and wanted <= self.all for wanted in sets)
