"""The shape of what the language model writes about a domain, and the check of each field: it is text, not trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clients.prompt_fence import one_line
from clients.structured import Checked, Shape
from documents.domain_plain import DESCRIPTION_LIMIT, WHEN_LIMIT
from documents.domain_steer import Language, shortened, with_steer, without_steer
from documents.enrichment_orders import is_order
from documents.frontmatter import clean_line
from retrieval.lexical import is_cjk_text

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"when_to_retrieve": {"type": "string"}, "description": {"type": "string"}},
    "required": ["when_to_retrieve", "description"],
    "additionalProperties": False,
}
_LIMITS = {"when_to_retrieve": WHEN_LIMIT, "description": DESCRIPTION_LIMIT}
_MUCH_TOO_LONG = 4
_LINK = re.compile(r"[a-z][a-z0-9+.-]{1,20}://|\bwww\.|\]\(|\bmailto:|\bjavascript:", re.I)
_HTML = re.compile(r"</?[a-z!][^>]*>|&#?\w{2,10};", re.I)


def shape_for(language: Language) -> Shape:
    """What is asked of the model; its ``check`` gives clean values, ``when_to_retrieve`` ending in the steer."""

    def check(found: Mapping[str, Any]) -> Checked:
        values: dict[str, str] = {}
        problems: list[str] = []
        for name, limit in _LIMITS.items():
            text, problem = _checked(found.get(name), limit, language)
            if problem:
                problems.append(f"{name}: {problem}")
            else:
                values[name] = text if name == "description" else with_steer(text, language, limit)
        return Checked(values, tuple(problems))

    return Shape("domain", SCHEMA, check)


def _checked(value: object, limit: int, language: Language) -> tuple[str, str]:
    """The text in one clean line, and what is wrong with it in an English sentence, "" where nothing is."""
    if not isinstance(value, str):
        return "", "it must be a text."
    if len(value) > limit * _MUCH_TOO_LONG:
        return "", f"it has {len(value)} characters; at most {limit} are wanted."
    text = without_steer(clean_line(one_line(value)))
    if not any(character.isalnum() for character in text):
        return "", "it is empty."
    if _LINK.search(text) or _HTML.search(text):
        return "", "it holds a link or markup; plain text is wanted."
    if is_order(text):
        return "", "it gives orders; only a description of the documents is wanted."
    if is_cjk_text(text) != (language == "zh"):
        return "", f"it must be in {'Simplified Chinese' if language == 'zh' else 'English'}."
    return shortened(text, limit), ""
