"""Change fields of a header and leave the rest as it was: the body to the byte, other fields to the line.

Only the lines of the changed fields are written anew; comments, order and spelling of the others stay. The result is
read back before it is returned. Where an edit by lines would say something else than was asked (a header in ``{ }``, an
anchor that another field repeats), the header is written anew as a whole: the values hold, its comments are lost. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from documents.encoding import Decoded, UnreadableText, decode
from documents.errors import DocumentError
from documents.frontmatter_block import KNOWN_FIELDS, normalise_newlines
from documents.frontmatter_reader import Header, HeaderProblem, read_header
from documents.frontmatter_yaml import TopLevelKey, YamlProblem, load, top_level_keys

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_NEWLINE = re.compile(r"\r\n|\r|\n")
_COMMENT_BEHIND = re.compile(r"[ \t]+#[^\n]*")
_NO_LIMIT = 2**31


class FrontmatterMalformed(DocumentError):  # noqa: N818 (named in the API)
    """The header cannot be read, so it cannot be changed without losing what its author wrote (409)."""

    def __init__(self, problem: HeaderProblem) -> None:
        detail = _(
            "The file's header cannot be read (line %(line)d: %(reason)s). Correct it in the file, then upload it."
        )
        super().__init__(
            detail % {"line": problem.line, "reason": problem.reason},
            code="frontmatter_malformed",
            field="metadata",
            status=409,
        )
        self.line = problem.line
        self.reason = problem.reason

    def __str__(self) -> str:
        """The short form, to be put into another sentence."""
        return f"line {self.line}: {self.reason}"


def rewrite(data: bytes, changes: Mapping[str, object]) -> bytes:
    """The file with ``changes`` merged into its header by key; None removes a key. Values are JSON.

    Bytes of the body, encoding, byte-order mark and newline style are kept; a file without a header gets one. Numbers
    and booleans are written as they are and, like everything, read back as text. Raises FrontmatterMalformed for a
    header that cannot be read, UnreadableText for bytes that are no text, DocumentError (``invalid_metadata``) for
    changes that no header can hold.
    """
    decoded = decode(data)
    text = normalise_newlines(decoded.text)
    try:
        header = read_header(text)
    except HeaderProblem as problem:
        raise FrontmatterMalformed(problem) from problem
    edit = _Edit.of(header, changes)
    if not edit.written and not edit.removed:
        return data
    raw_lines = _head_lines(decoded.text, header)
    newline = _newline_of(decoded.text)
    for lines in _candidates(raw_lines, header, edit, newline):
        new_head = "".join(lines)
        if _says(new_head, text, header, edit.merged):
            return _joined(data, decoded, "".join(raw_lines), new_head)
    raise _invalid(_("The header would be larger or more deeply nested than is read back."))


@dataclass(frozen=True)
class _Edit:
    """What is to change: ``written`` keys with their YAML entry, ``removed`` keys, and ``merged``: all fields after."""

    written: dict[str, str]
    removed: frozenset[str]
    merged: dict[str, Any]

    @classmethod
    def of(cls, header: Header | None, changes: Mapping[str, object]) -> _Edit:
        fields = dict(header.fields) if header else {}
        doubled = {key for key, _line in header.duplicates} if header else set()
        written: dict[str, str] = {}
        removed: set[str] = set()
        for name, value in changes.items():
            key = _spelled(name, fields)
            if value is None:
                if fields.pop(key, _MISSING) is not _MISSING:
                    removed.add(key)
                continue
            entry, typed = _entry(key, value)
            if key not in fields or fields[key] != typed or key in doubled:
                written[key] = entry
                fields[key] = typed
        return cls(written, frozenset(removed), fields)


_MISSING = object()


def _spelled(name: str, fields: Mapping[str, Any]) -> str:
    """The key as the file spells it: ``Title`` for ``title``, but only for the fields that are read in any case."""
    if name in fields or name not in KNOWN_FIELDS:
        return name
    return next((key for key in fields if key.casefold() == name), name)


def _entry(key: str, value: object) -> tuple[str, Any]:
    """``key: value`` as YAML lines, and the value as it will be read. Raises DocumentError."""
    if not isinstance(key, str) or not key.strip():
        raise _invalid(_("A field needs a name."))
    cleaned = _cleaned(value)
    for style in (None, '"'):
        entry = _dump({key: cleaned}, style)
        try:
            read = load(entry).value
        except YamlProblem as problem:
            reason = problem.reason
            continue
        if list(read) == [key] and _same(read[key], cleaned):
            return entry, read[key]
        reason = _("the value does not survive YAML")
    raise _invalid(_("The field “%(key)s” cannot be written: %(reason)s.") % {"key": key[:60], "reason": reason})


def _cleaned(value: object) -> Any:
    """JSON values with NUL removed from texts. Raises DocumentError for anything else."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _invalid(_("A text holds half a character (a lone surrogate).")) from error
        return value.replace("\x00", "")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    if isinstance(value, Mapping):
        return {_cleaned(str(key)): _cleaned(item) for key, item in value.items()}
    raise _invalid(_("Metadata takes texts, numbers, lists and objects."))


def _same(read: Any, asked: Any) -> bool:
    """Whether what was read is what was asked for, numbers and booleans being text once written."""
    if isinstance(asked, dict):
        return (
            isinstance(read, dict) and list(read) == list(asked) and all(_same(read[key], asked[key]) for key in asked)
        )
    if isinstance(asked, list):
        return isinstance(read, list) and len(read) == len(asked) and all(map(_same, read, asked))
    if asked is None or isinstance(asked, str):
        return bool(read == asked)
    return isinstance(read, str)


class _Representer(yaml.representer.SafeRepresenter):
    """Several lines of text as a literal block; the same value twice is written twice, without an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Blank ends of a literal block depend on signs that few people can read; such a text is quoted.
        literal = not self.default_style and "\n" in data and data.strip() == data.removesuffix("\n")
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if literal else None)


_Representer.add_representer(str, _Representer.represent_str)


def _dump(fields: Mapping[str, Any], style: str | None) -> str:
    """Block style outside, ``[a, b]`` inside. ``style`` '"': everything in double quotes, on one line, escaped."""
    # None: flow style for collections of plain values only (the type stubs know nothing of it).
    representer = _Representer(default_style=style, default_flow_style=None, sort_keys=False)  # type: ignore[arg-type]
    node = representer.represent_dict(fields)
    node.flow_style = False
    return str(yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=style is None, width=_NO_LIMIT))


def _candidates(raw_lines: list[str], header: Header | None, edit: _Edit, newline: str) -> list[list[str]]:
    """New heads to try, the gentlest first: lines with their newlines, fences included."""
    wholes = ["".join(_dump({key: value}, style) for key, value in edit.merged.items()) for style in (None, '"')]
    if header is None:
        gentle = "".join(edit.written.values())
        return [[f"---{newline}", *_with_newline(new, newline), f"---{newline}", newline] for new in (gentle, *wholes)]
    opener = raw_lines[: header.block.first_line - 1]
    count = header.block.inner.count("\n")
    inner = raw_lines[len(opener) : len(opener) + count]
    closer = raw_lines[len(opener) + count :]
    heads = []
    keys = top_level_keys(header.block.inner)
    if keys is not None:
        heads.append([*opener, *_edited(inner, header.block.inner, keys, edit, newline), *closer])
    return heads + [[*opener, *_with_newline(whole, newline), *closer] for whole in wholes]


@dataclass(frozen=True)
class _Span:
    """Lines ``first`` to ``end`` (exclusive) of a field; ``comment`` stands behind its value on the one line."""

    key: str
    first: int
    end: int
    comment: str


def _edited(raw: list[str], inner: str, keys: list[TopLevelKey], edit: _Edit, newline: str) -> list[str]:
    """The lines between the fences, with only the lines of the changed fields replaced."""
    spans = _spans(inner, keys)
    indent = " " * keys[0].column if keys else ""
    last = {span.key: number for number, span in enumerate(spans)}
    lines: list[str] = []
    position = 0
    for number, span in enumerate(spans):
        lines += raw[position : span.first]
        position = span.end
        if span.key in edit.removed or (span.key in edit.written and number != last[span.key]):
            continue
        if span.key in edit.written:
            lines += _with_newline(edit.written[span.key], newline, indent, span.comment)
        else:
            lines += raw[span.first : span.end]
    lines += raw[position:]
    for key, entry in edit.written.items():
        if key not in last:
            lines += _with_newline(entry, newline, indent)
    if edit.merged:
        return lines
    # Comments alone are no header (FM-4): an empty mapping behind them keeps them one.
    comments = [line for line in lines if line.strip()]
    return [*comments, f"{{}}{newline}"] if comments else []


def _spans(inner: str, keys: list[TopLevelKey]) -> list[_Span]:
    lines = inner.split("\n")[:-1]
    firsts = [inner.count("\n", 0, key.start) for key in keys]
    spans = []
    for key, first, following in zip(keys, firsts, [*firsts[1:], len(lines)], strict=False):
        end = following
        while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
            end -= 1
        comment = _COMMENT_BEHIND.match(inner, key.scalar_end) if key.scalar_end >= 0 and end == first + 1 else None
        spans.append(_Span(key.key, first, end, comment[0] if comment else ""))
    return spans


def _with_newline(yaml_lines: str, newline: str, indent: str = "", comment: str = "") -> list[str]:
    """YAML lines in the file's newline style; a comment goes behind the first when it is the only one."""
    lines = yaml_lines.split("\n")[:-1]
    behind = comment if len(lines) == 1 else ""
    return [f"{indent if line else ''}{line}{behind}{newline}" for line in lines]


def _head_lines(text: str, header: Header | None) -> list[str]:
    """The lines of the head as they stand, with their own newlines; none without a header."""
    if header is None:
        return []
    count = header.block.first_line - 1 + header.block.inner.count("\n") + 1
    lines = []
    for match in _LINE.finditer(text):
        lines.append(match[0])
        if len(lines) == count:
            break
    return lines


def _newline_of(text: str) -> str:
    found = _NEWLINE.search(text)
    return found[0] if found else "\n"


def _says(new_head: str, old_text: str, header: Header | None, merged: Mapping[str, Any]) -> bool:
    """Whether the new head in front of the old body is read as the merged fields and that same body."""
    body = old_text[header.block.end :] if header else old_text
    try:
        read = read_header(normalise_newlines(new_head) + body)
    except HeaderProblem:
        return False
    if read is None or read.fields != merged:
        return False
    # Behind the closing fence stands the old body, after one blank line where the header is new.
    return len(normalise_newlines(new_head)) - read.block.end == (0 if header else 1)


def _joined(data: bytes, decoded: Decoded, old_head: str, new_head: str) -> bytes:
    """Old bytes with the new head; the body's bytes are copied, never decoded and encoded again."""
    start = len(decoded.bom)
    end = start + len(old_head.encode(decoded.encoding))
    joined = decoded.bom + new_head.encode(decoded.encoding) + data[end:]
    try:
        if decode(joined).text == new_head + decoded.text[len(old_head) :]:
            return joined
    except UnreadableText:
        pass
    raise _invalid(_("The file's encoding cannot hold this change safely. Save the file as UTF-8, then change it."))


def _invalid(detail: str) -> DocumentError:
    return DocumentError(detail, code="invalid_metadata", field="metadata")
