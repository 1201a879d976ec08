"""Retrieved text on its way into a prompt: data, fenced, unable to pass for anything else (AG-9)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from agents.citations import Passage

MAX_TITLE = 200
# Unicode tags, zero-width characters and bidirectional controls: text that a person does not see.
_INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# <|im_start|> and its kin, of any model
_CONTROL_TOKEN = re.compile(r"<\|([^|<>\n]{0,64})\|>|<\|")
_ROLE_TAG = re.compile(
    r"<(\s*/?\s*(?:system|user|assistant|developer|human|tool|tools|tool_[a-z]+|function|function_[a-z]+|passage"
    r"|passages|instructions?|im_start|im_end|s|sys|start_of_turn|end_of_turn|think)\b[^<>\n]{0,200})>",
    re.I,
)
_BRACKET_TOKEN = re.compile(r"\[(/?(?:INST|SYS|SYSTEM|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS))\]|<<(/?SYS)>>", re.I)


def new_nonce() -> str:
    """A word that no document can know: it stands in each fence of one prompt."""
    return secrets.token_hex(6)


def neutralise(text: str) -> str:
    """The text without what a model's reader could take for a delimiter or a role; people still read the same."""
    text = _INVISIBLE.sub("", text.replace("\x00", ""))
    text = _CONTROL_TOKEN.sub(lambda found: f"‹{found[1] or ''}›", text)
    text = _ROLE_TAG.sub(lambda found: f"‹{found[1]}›", text)
    return _BRACKET_TOKEN.sub(lambda found: f"({found[1] or found[2]})", text)


def quote_title(title: str) -> str:
    """A title inside a prompt: one line, in quotes, at most 200 characters."""
    line = re.sub(r"\s+", " ", neutralise(title)).strip().replace('"', "'")
    return f'"{line[:MAX_TITLE]}"'


def fence_passages(passages: Sequence[Passage], *, nonce: str) -> str:
    """The passages one below the other, each between fences with its number, level, title and section."""
    return "\n\n".join(_fenced(passage, nonce) for passage in passages)


def _fenced(passage: Passage, nonce: str) -> str:
    head = f"title={quote_title(passage.title)} section={quote_title(passage.section)} level={passage.level}"
    body = neutralise(passage.content).replace(nonce, "")
    return f"<<<passage {passage.number} {nonce} {head}\n{body}\n>>>passage {passage.number} {nonce}"
