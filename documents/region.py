"""A part of the knowledge base folder: what a scan looks at when it is known what others touched. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


class Region:
    """Paths relative to the base folder, each with all that lies below it.

    Names are compared as documents' paths are, whatever their case and Unicode form: a file and its twin, or the two
    ends of a rename that changes only case, are always looked at together.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(_folded(path) for path in paths)
        self._leading = frozenset(above for path in self._paths for above in _above(path))

    def holds(self, relative: str) -> bool:
        """Whether this path is one of the region's, or lies below one."""
        folded = _folded(relative)
        return folded in self._paths or any(above in self._paths for above in _above(folded))

    def leads_to(self, relative: str) -> bool:
        """Whether a folder has to be entered: it is in the region, or a part of the region lies below it."""
        return _folded(relative) in self._leading or self.holds(relative)


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _folded(path: str) -> str:
    return path.casefold() if path.isascii() else _nfc(_nfc(path).casefold())


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
