"""Fitting the knowledge map into a number of characters: what goes first, and how it is written. Pure.

In this order, until it fits: fewer covers of each document, fewer documents (of the longest lists first), a shorter
``when_to_retrieve`` and a shorter description, and last the domains with the fewest documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

TOP = "available_knowledge_domains"
_COVER_STEPS = (12, 6, 4, 3, 2, 1, 0)
_WHEN, _DESCRIPTION = "when_to_retrieve", "description"
_TEXT_STEPS = (
    *((_WHEN, length) for length in (2000, 1000, 600, 400, 250, 150, 80)),
    *((_DESCRIPTION, length) for length in (120, 60)),
    *((_WHEN, length) for length in (40, 0)),
    # Its bare name still tells the Planner of a domain; one that is left out it cannot choose.
    *((_DESCRIPTION, length) for length in (30, 0)),
)
# Wider than any line: nothing is folded, so that a text is one line and its length is its own.
_WIDTH = 1_000_000


@dataclass(frozen=True)
class DomainEntry:
    """One domain of the map, its texts already clean lines. ``documents`` are (title, covers), the first of
    ``document_count`` in all."""

    domain_id: str
    description: str
    when_to_retrieve: str
    documents: tuple[tuple[str, tuple[str, ...]], ...]
    document_count: int


_SMALLEST = [DomainEntry("x", "", "", (), 1)] * 100


def map_of(domains: Sequence[DomainEntry], limit: int) -> str:
    """The map as YAML of at most ``limit`` characters (from 100 on)."""
    for covers in _COVER_STEPS:
        found = [_with_covers(domain, covers) for domain in domains]
        if _fits(found, limit):
            return _written(found)
    most = _largest(
        max((len(domain.documents) for domain in found), default=0), lambda n: _fits(_first(found, n), limit)
    )
    if most is not None:
        return _written(_filled(found, most, limit))
    return _without_documents([replace(domain, documents=()) for domain in found], limit)


def smallest_document() -> int:
    """Characters of the shortest entry that a document can have in the map."""
    return len(_dumped([{"title": "x", "covers": []}])) + 2 * 2


def _without_documents(domains: list[DomainEntry], limit: int) -> str:
    # More domains than could ever fit: all texts would go in any case.
    crowded = len(domains) * _length(_SMALLEST) > limit * len(_SMALLEST)
    for name, length in _TEXT_STEPS if not crowded else ((_WHEN, 0), (_DESCRIPTION, 0)):
        domains = [_with_text(each, name, length) for each in domains]
        if not crowded and _fits(domains, limit):
            return _written(domains)
    # The domains with most documents stay, in their order.
    ranked = sorted(range(len(domains)), key=lambda place: (-domains[place].document_count, place))

    def of(number: int) -> list[DomainEntry]:
        return [domains[place] for place in sorted(ranked[:number])]

    kept = _largest(len(domains), lambda number: _length(of(number), len(domains) - number) <= limit) or 0
    return _written(of(kept), len(domains) - kept)


def _with_covers(domain: DomainEntry, most: int) -> DomainEntry:
    return replace(domain, documents=tuple((title, covers[:most]) for title, covers in domain.documents))


def _with_text(domain: DomainEntry, name: str, length: int) -> DomainEntry:
    changes: dict[str, Any] = {name: _cut(getattr(domain, name), length)}
    return replace(domain, **changes)


def _first(domains: Sequence[DomainEntry], most: int) -> list[DomainEntry]:
    return [replace(domain, documents=domain.documents[:most]) for domain in domains]


def _filled(domains: Sequence[DomainEntry], most: int, limit: int) -> list[DomainEntry]:
    """The first ``most`` of each list, and one more of as many, from the first on, as there is room for."""
    found = _first(domains, most)
    room = limit - _length(found)
    for place, whole in enumerate(domains):
        more = replace(whole, documents=whole.documents[: most + 1])
        costs = _size(more) - _size(found[place])
        if len(more.documents) > most and costs <= room:
            found[place], room = more, room - costs
    return found


def _largest(highest: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number up to ``highest`` that fits; None where not even 0 does. What is smaller fits too."""
    if not fits(0):
        return None
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[: length - 1].rstrip()}…" if length else ""


# ---- Writing and measuring -------------------------------------------------------------------------------------------
def _fits(domains: Sequence[DomainEntry], limit: int) -> bool:
    return _length(domains) <= limit


def _length(domains: Sequence[DomainEntry], left_out: int = 0) -> int:
    """Characters of the whole map: each entry is lines of its own, so that their lengths add up."""
    if not domains:
        return len(_written([], left_out))
    return len(f"{TOP}:\n") + sum(map(_size, domains)) + (len(f"domains_left_out: {left_out}\n") if left_out else 0)


def _size(domain: DomainEntry) -> int:
    return len(_dumped([_as_data(domain)]))


def _written(domains: Sequence[DomainEntry], left_out: int = 0) -> str:
    data: dict[str, Any] = {TOP: [_as_data(domain) for domain in domains]}
    if left_out:
        data["domains_left_out"] = left_out
    return _dumped(data)


def _as_data(domain: DomainEntry) -> dict[str, Any]:
    data: dict[str, Any] = {
        "domain_id": domain.domain_id,
        "description": domain.description,
        "when_to_retrieve": domain.when_to_retrieve,
        "documents": [{"title": title, "covers": list(covers)} for title, covers in domain.documents],
    }
    left_out = domain.document_count - len(domain.documents)
    if left_out > 0:
        data["documents_left_out"] = left_out
    return data


def _dumped(data: object) -> str:
    """Innermost lists in one line, as ``[a, b]``; no aliases: each text stands where it belongs."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=_WIDTH, default_flow_style=None
    )
    return text


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
