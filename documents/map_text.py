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
_TEXT_STEPS = (
    *((when, 256) for when in (4000, 2000, 1000, 600, 400, 250, 150, 80)),
    *((80, description) for description in (120, 60)),
    # Its bare name still tells the Planner of a domain; one that is left out it cannot choose.
    *((40, 60), (0, 60), (0, 30), (0, 0)),
)
"""Lengths of ``when_to_retrieve`` and ``description``."""
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
    # Each step is shorter than the one before: the first that fits is searched by halves.
    bare = [replace(domain, documents=()) for domain in domains]
    if not _fits(bare, limit):
        return _without_documents(bare, limit)
    step = _first_that_fits(len(_COVER_STEPS), lambda step: _fits(_with_covers(domains, _COVER_STEPS[step]), limit))
    found = _with_covers(domains, _COVER_STEPS[-1 if step is None else step])
    if step is not None:
        return _written(found)
    longest = max(len(domain.documents) for domain in found)
    fewer = _first_that_fits(longest + 1, lambda fewer: _fits(_first(found, longest - fewer), limit))
    return _written(_filled(found, 0 if fewer is None else longest - fewer, limit))


def smallest_document() -> int:
    """Characters of the shortest entry that a document can have in the map."""
    return len(_dumped([{"title": "x", "covers": []}])) + 2 * 2


def _without_documents(domains: list[DomainEntry], limit: int) -> str:
    # More domains than could ever fit: all texts would go in any case.
    crowded = len(domains) * _length(_SMALLEST) > limit * len(_SMALLEST)
    step = None
    if not crowded:
        step = _first_that_fits(len(_TEXT_STEPS), lambda step: _fits(_with_texts(domains, *_TEXT_STEPS[step]), limit))
    found = _with_texts(domains, *_TEXT_STEPS[-1 if step is None else step])
    if step is not None:
        return _written(found)
    # The domains with most documents stay, in their order.
    ranked = sorted(range(len(found)), key=lambda place: (-found[place].document_count, place))

    def without(number: int) -> list[DomainEntry]:
        return [found[place] for place in sorted(ranked[: len(found) - number])]

    left_out = _first_that_fits(len(found) + 1, lambda number: _length(without(number), number) <= limit)
    return _written(without(left_out or 0), left_out or 0)


def _first_that_fits(steps: int, fits: Callable[[int], bool]) -> int | None:
    """The first of so many steps that fits, each later one fitting too; None where not even the last does."""
    if not fits(steps - 1):
        return None
    low, high = 0, steps - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return high


def _with_covers(domains: Sequence[DomainEntry], most: int) -> list[DomainEntry]:
    return [
        replace(domain, documents=tuple((title, covers[:most]) for title, covers in domain.documents))
        for domain in domains
    ]


def _with_texts(domains: Sequence[DomainEntry], when: int, description: int) -> list[DomainEntry]:
    return [
        replace(
            domain,
            when_to_retrieve=_cut(domain.when_to_retrieve, when),
            description=_cut(domain.description, description),
        )
        for domain in domains
    ]


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
