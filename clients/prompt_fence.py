"""Text on its way into a prompt: data that can neither end its fence nor pass for a role (AG-9)."""

from __future__ import annotations

import re
import secrets

MAX_TITLE = 200
# Unicode tags, zero-width characters and bidirectional controls: text that a person does not see.
_INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# <|im_start|> and its kin, of any model
_CONTROL_TOKEN = re.compile(r"<\|([^|<>\n]{0,64})\|>|<\|")
_ROLE_TAG = re.compile(
    r"<(\s*(?:/\s*)?(?:system|user|assistant|developer|human|tool|tools|tool_[a-z]+|function|function_[a-z]+|passage"
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


def one_line(text: str) -> str:
    """The same in one line: what a list or a map of a prompt takes."""
    return re.sub(r"\s+", " ", neutralise(text)).strip()


def quote_title(title: str) -> str:
    """A title inside a prompt: one line, in quotes, at most 200 characters."""
    line = one_line(title).replace('"', "'")
    return f'"{line[:MAX_TITLE]}"'


def fence(text: str, *, name: str, nonce: str, head: str = "") -> str:
    """The text between two lines that only this prompt knows; ``name`` says what it is, ``head`` stands beside it."""
    first = f"<<<{name} {nonce} {head}".rstrip()
    return f"{first}\n{neutralise(text).replace(nonce, '')}\n>>>{name} {nonce}"
