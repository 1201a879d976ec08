"""The part of a passage that is nearest to some words: what a citation shows and a page marks. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[a-z0-9][a-z0-9_.\-]*[a-z0-9]|[a-z0-9]|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
# Words that every second sentence has: sharing them means nothing.
_COMMON = """
    a an and are as at be by can could do does for from has have how i if in into is it its me my no not of on or our
    should that the their then there this to was we what when where which who why will with would you your about
"""
_STOP = frozenset(_COMMON.split())
_FENCE = re.compile(r"^\s*(?:```|~~~)")


@dataclass(frozen=True)
class Block:
    """Lines of Markdown that belong together; ``start`` and ``end`` are offsets, ``heading`` marks a lone heading."""

    start: int
    end: int
    heading: bool


def focus(text: str, near: str, *, limit: int) -> str:
    """A run of whole blocks of ``text``, at most ``limit`` characters where a block is not longer itself.

    It is a substring of ``text``, so that it can be found again in its document. Chosen is the block that shares most
    with ``near`` (words, and pairs of CJK characters), then its neighbours while they fit.
    """
    blocks = split_blocks(text)
    if not blocks:
        return text.strip()[:limit]
    wanted = terms(near)
    scores = _scores(text, blocks, wanted)
    best = max(range(len(blocks)), key=lambda place: (scores[place], not blocks[place].heading, -place))
    first, last = _grow(blocks, best, limit)
    while first < last and blocks[last].heading:
        last -= 1
    chosen = text[blocks[first].start : blocks[last].end]
    return chosen if len(chosen) <= limit else _cut(chosen, wanted, limit)


def terms(text: str) -> frozenset[str]:
    """What two texts can have in common: words but the commonest, and pairs of CJK characters."""
    found: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if word in _STOP:
            continue
        if word.isascii():
            found.add(word)
        else:
            found.update(word[place : place + 2] for place in range(max(1, len(word) - 1)))
    return frozenset(found)


def split_blocks(text: str) -> list[Block]:
    """Blocks of Markdown: separated by blank lines, a fence being one block, a heading its own, list items too."""
    blocks: list[Block] = []
    start: int | None = None
    in_fence = False
    offset = 0

    def close(end: int) -> None:
        nonlocal start
        if start is not None and text[start:end].strip():
            body = text[start:end].rstrip()
            blocks.append(Block(start, start + len(body), body.startswith("#") and "\n" not in body))
        start = None

    for line in text.splitlines(keepends=True):
        fence = bool(_FENCE.match(line))
        if not in_fence and (not line.strip() or line.startswith("#") or fence or _begins_item(line)):
            close(offset)
        if line.strip() and start is None:
            start = offset
        offset += len(line)
        if (fence and in_fence) or (not in_fence and line.startswith("#")):
            close(offset)
        in_fence = in_fence != fence
    close(offset)
    return blocks


def _begins_item(line: str) -> bool:
    return bool(re.match(r"(?:[-*+]|\d{1,3}[.)])\s", line))


def _scores(text: str, blocks: list[Block], wanted: frozenset[str]) -> list[float]:
    """A heading counts for what stands under it, not for itself: alone it says nothing."""
    scores: list[float] = []
    heading = 0.0
    for block in blocks:
        score = _score(text[block.start : block.end], wanted)
        if block.heading:
            heading = score
        scores.append(0.0 if block.heading else score + heading)
    return scores


def _score(block: str, wanted: frozenset[str]) -> float:
    """Shared terms, a little dearer in a short block than in a long one; a code is worth several words."""
    own = terms(block)
    shared = sum(4 if _is_code(term) else 1 for term in own & wanted)
    return float(shared / (1 + len(own)) ** 0.25)


def _is_code(term: str) -> bool:
    return term.isascii() and any(sign.isdigit() or sign == "_" for sign in term)


def _grow(blocks: list[Block], best: int, limit: int) -> tuple[int, int]:
    """Neighbours join while all fits: what follows first, then what stands before."""
    first = last = best
    while True:
        if (
            last + 1 < len(blocks)
            and blocks[last + 1].end - blocks[first].start <= limit
            and not blocks[last + 1].heading
        ):
            last += 1
        elif first > 0 and blocks[last].end - blocks[first - 1].start <= limit and not blocks[first].heading:
            first -= 1
        else:
            return first, last


def _cut(block: str, wanted: frozenset[str], limit: int) -> str:
    """A window of a block that is too long itself: whole lines (or sentences) from the best one on."""
    block = block.strip()
    pieces = [piece for piece in re.split(r"(?<=\n)|(?<=[。！？])|(?<=[.!?])(?=\s)", block) if piece]
    best = max(range(len(pieces)), key=lambda place: (_score(pieces[place], wanted), -place))
    start = len("".join(pieces[:best]))
    end = start
    for piece in pieces[best:]:
        if end - start + len(piece) > limit:
            break
        end += len(piece)
    return block[start:end].strip() or block[start:].lstrip()[:limit].rstrip()
