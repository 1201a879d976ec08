"""The parts that a long text is chosen from: paragraphs and blocks inside its chunks, with their terms (SPEC L1-6).

Chunks alone are too coarse: a section of 1,800 characters is one, and hardly another fits beside it into 2,000. On 48
questions over real runbooks 2,000 characters held 94 of 100 key facts by chunks and 98 by these parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from retrieval.bm25 import chunk_terms
from retrieval.chunking import TooManyChunks, chunk_body
from retrieval.headings import code_spans

LEAST = 300
"""Characters of a part; paragraphs below it stay with the next one. A code block, table or list is not cut."""
LARGEST_TEXT = 200_000
"""Characters of a text that is taken apart (some 0.1 s, once a revision); of a longer one the head is shown."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n+")


@dataclass(frozen=True)
class TextParts:
    """Parts in the order of the text: ``starts``, ``ends`` (characters) and ``chunks`` (numbers) run side by side.

    ``terms`` are the distinct term ids of one part after the other, ``owners`` the place of the part of each.
    """

    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    terms: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    owners: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def coverage(self, query: Mapping[int, float]) -> list[float]:
        """For each part the share of the question's weight whose terms it holds."""
        total = sum(query.values())
        if not total or not self.starts:
            return [0.0] * len(self.starts)
        wanted = np.array(sorted(query), dtype=np.uint32)
        weights = np.array([query[int(term)] for term in wanted]) / total
        places = np.minimum(np.searchsorted(wanted, self.terms), len(wanted) - 1)
        held = wanted[places] == self.terms
        sums = np.bincount(self.owners[held], weights=weights[places[held]], minlength=len(self.starts))
        return [float(share) for share in sums]


def take_apart(body: str) -> TextParts:
    """The parts of a body; none where it is blank, longer than ``LARGEST_TEXT``, or in too many chunks."""
    if len(body) > LARGEST_TEXT:
        return TextParts()
    try:
        chunks = chunk_body(body)
    except TooManyChunks:
        return TextParts()
    spans: list[tuple[int, int, int]] = []
    terms: list[npt.NDArray[np.uint32]] = []
    for chunk in chunks:
        for start, end in _paragraphs(body, chunk.start, chunk.end):
            spans.append((start, end, chunk.number))
            of_part = chunk_terms(body[start:end], title="", headings=chunk.heading_path)
            terms.append(np.array(sorted(set(of_part)), dtype=np.uint32))
    if not spans:
        return TextParts()
    owners = np.repeat(np.arange(len(spans), dtype=np.int32), [len(one) for one in terms])
    starts, ends, numbers = zip(*spans, strict=True)
    return TextParts(starts, ends, numbers, np.concatenate(terms), owners)


def _paragraphs(body: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Stretches of at least ``LEAST`` characters that end at a blank line outside code, the last one excepted."""
    code = list(code_spans(body, start, end))
    low = start
    for blank in _PARAGRAPH_END.finditer(body, start, end):
        if blank.start() - low >= LEAST and not any(first < blank.start() < last for first, last in code):
            yield low, blank.start()
            low = blank.end()
    if low < end:
        yield low, end
