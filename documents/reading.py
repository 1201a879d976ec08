"""What the bytes of one file say: its text, title and metadata. Refuses what is no document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.utils.translation import gettext as _

from documents.encoding import UnreadableText, decode
from documents.errors import DocumentError
from documents.frontmatter import parse_document, title_of
from documents.frontmatter_block import normalise_newlines
from documents.frontmatter_reader import HeaderProblem, read_header

_TITLE_LIMIT = 500
_PROBLEM_LIMIT = 500
_LEADING_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


@dataclass(frozen=True)
class Reading:
    """``metadata`` is the author's frontmatter, None where there is none; ``problem`` says why it was not read."""

    title: str
    metadata: dict[str, Any] | None
    problem: str
    body: str

    @property
    def malformed(self) -> bool:
        """A header is there and cannot be read (another problem is only a remark)."""
        return self.metadata is None and bool(self.problem)


def read_document_bytes(data: bytes, *, file_path: str) -> Reading:
    """Read a file. Raises :class:`DocumentError` with ``unreadable_text`` or ``empty_file``."""
    text = text_of(data)
    if not text.strip():
        raise DocumentError(_("The file is empty: there is nothing to find in it."), code="empty_file", field="file")
    parsed = parse_document(text, file=file_path)
    found = parsed.frontmatter
    return Reading(
        title=title_of(parsed, PurePosixPath(file_path).name)[:_TITLE_LIMIT],
        metadata=None if found is None else dict(found.fields),
        problem=parsed.problem[:_PROBLEM_LIMIT],
        body=parsed.body,
    )


def text_of(data: bytes) -> str:
    """The file's text. Raises :class:`DocumentError` with ``unreadable_text``."""
    try:
        return decode(data).text
    except UnreadableText as fault:
        detail = _("The file is not readable text: %(reason)s") % {"reason": fault.reason}
        raise DocumentError(detail, code="unreadable_text", field="file") from fault


def body_of(data: bytes) -> str:
    """The body alone, as ``parse_document`` gives it, but silently: what is wrong was reported at the upload."""
    text = normalise_newlines(text_of(data))
    try:
        header = read_header(text)
    except HeaderProblem:
        return text
    return _LEADING_BLANK_LINES.sub("", text[header.block.end :], count=1) if header is not None else text
