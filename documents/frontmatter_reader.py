"""The header of a text as fields: our fences and our YAML, behind python-frontmatter's handler interface. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import frontmatter
from frontmatter.default_handlers import BaseHandler

from documents.frontmatter_block import Block, find_block
from documents.frontmatter_yaml import MAX_BYTES, LoadedYaml, YamlProblem, load


class HeaderProblem(Exception):  # noqa: N818 (a finding about the author's text, not a fault of ours)
    """Why a header is not read: a stable ``code``, an English ``reason``, the ``line`` of the file (from 1)."""

    def __init__(self, code: str, reason: str, line: int) -> None:
        super().__init__(f"Line {line}: {reason}.")
        self.code = code
        self.reason = reason
        self.line = line


@dataclass(frozen=True)
class Header:
    """A header that was read. ``duplicates`` are keys given twice (the last one counts) with the line of the file."""

    fields: dict[str, Any]
    block: Block
    duplicates: tuple[tuple[str, int], ...]


class TextHandler(BaseHandler):
    """python-frontmatter's handler for one text: values stay text, nothing is guessed. ``loaded`` is what it read."""

    FM_BOUNDARY = re.compile(r"^---[ \t]*$", re.MULTILINE)
    START_DELIMITER = "---"
    END_DELIMITER = "---"

    def __init__(self) -> None:
        super().__init__()
        self.loaded = LoadedYaml(None)

    def detect(self, text: str) -> bool:
        return find_block(text) is not None

    def split(self, text: str) -> tuple[str, str]:
        """The YAML and the body; ValueError (which python-frontmatter takes for "none") without a closed header."""
        block = find_block(text)
        if block is None or not block.closed:
            raise ValueError("no closed header")
        return block.inner, text[block.end :]

    def load(self, fm: str) -> dict[str, Any]:
        """The fields ({} for an empty header). Raises YamlProblem."""
        self.loaded = load(fm)
        if self.loaded.value is None:
            return {}
        if not isinstance(self.loaded.value, dict):
            raise YamlProblem("not_a_mapping", "the header holds no “key: value” lines", 0)
        return self.loaded.value


def read_header(text: str) -> Header | None:
    """The header of a text with normalised newlines; None where it has none. Raises HeaderProblem."""
    block = find_block(text)
    if block is None:
        return None
    if not block.closed:
        raise HeaderProblem("no_end", "the header that begins with --- has no closing ---", block.first_line - 1)
    if len(block.inner) > MAX_BYTES:
        raise HeaderProblem("too_large", f"the header is larger than {MAX_BYTES // 1024} KiB", block.first_line - 1)
    handler = TextHandler()
    try:
        # Only the header goes in: python-frontmatter trims what it is given, and the body must stay whole.
        fields, _ = frontmatter.parse(text[: block.end], handler=handler)
    except YamlProblem as problem:
        raise HeaderProblem(problem.code, problem.reason, block.first_line + problem.line) from problem
    duplicates = tuple((key, block.first_line + line) for key, line in handler.loaded.duplicates)
    return Header(fields=dict(fields), block=block, duplicates=duplicates)
