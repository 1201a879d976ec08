"""Passages in a prompt, each between fences with its number, level, title and section (AG-9)."""

from __future__ import annotations

from collections.abc import Sequence

from agents.citations import Passage
from clients.prompt_fence import fence, quote_title


def fence_passages(passages: Sequence[Passage], *, nonce: str) -> str:
    """The passages one below the other."""
    return "\n\n".join(_fenced(passage, nonce) for passage in passages)


def _fenced(passage: Passage, nonce: str) -> str:
    head = f"title={quote_title(passage.title)} section={quote_title(passage.section)} level={passage.level}"
    return fence(passage.content, name=f"passage {passage.number}", nonce=nonce, head=head)
