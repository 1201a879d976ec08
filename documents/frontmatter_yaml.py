"""YAML to plain values, with every value the text that its author typed (FM-5, FM-8). Pure.

Values are built from the events of PyYAML's C parser, not by its constructor: so ``404``, ``no``, ``0012`` and
``2026-01-01`` stay these strings, no tag is ever obeyed, and what an alias would repeat is counted before it is
repeated. The result holds only ``dict`` (with ``str`` keys), ``list``, ``str`` and ``None`` (for ``null``, ``~`` and
nothing), so it is always JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
MAX_REPEATED = 10_000
"""Values that aliases may repeat in one header; an ordinary anchor repeats a few."""

MAX_REPEATED_CHARACTERS = MAX_BYTES

_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(
    ["!"] + [_CORE + name for name in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map", "merge")]
)
_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
_HINTS = {
    "mapping values are not allowed in this context": "a value with a colon and a space in it needs quotes",
    "found character that cannot start any token": "a value that begins with @, `, % or a tab needs quotes",
    "did not find expected ',' or ']'": "a list that opens with [ needs its ]",
    "found unexpected end of stream": "a quoted value needs its closing quote",
}


class YamlProblem(Exception):  # noqa: N818 (a finding about the author's text, not a fault of ours)
    """Why the YAML is not read; ``line`` counts from 0 inside the YAML, ``code`` is stable, ``reason`` English."""

    def __init__(self, code: str, reason: str, line: int) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.line = line


@dataclass
class LoadedYaml:
    """``value`` as above; ``duplicates`` are keys given twice in one mapping, with their line (from 0)."""

    value: Any
    duplicates: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class _Anchored:
    """A finished value that aliases may repeat: how many values and characters it holds, how deep it goes."""

    value: Any
    count: int
    characters: int
    depth: int


@dataclass
class _Open:
    """A collection that is being read. For a mapping, ``key`` waits for its value."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    key: str | None = None
    key_is_merge: bool = False
    merged: dict[str, Any] = field(default_factory=dict)
    count: int = 1
    characters: int = 0
    depth: int = 1


def load(text: str) -> LoadedYaml:
    """The one document in ``text``. Raises YamlProblem; bounded in time and memory whatever the text holds."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise YamlProblem("too_large", f"it is larger than {MAX_BYTES // 1024} KiB", 0)
    reader = _Reader()
    try:
        loader = yaml.CSafeLoader(text)
        try:
            while (event := loader.get_event()) is not None:
                reader.take(event)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        # A bracket or quote without its end is noticed lines later: the line to mend is where it opens.
        opens = any(word in (error.context or "") for word in ("flow", "quoted"))
        mark = (error.context_mark if opens else None) or error.problem_mark or error.context_mark
        raise YamlProblem("yaml", _reason(error), mark.line if mark else 0) from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise YamlProblem("yaml", "it holds characters that YAML does not allow", 0) from error
    return LoadedYaml(reader.root, reader.duplicates)


@dataclass(frozen=True)
class TopLevelKey:
    """Where a key of the outermost mapping stands: offsets in characters of the YAML text.

    ``scalar_end`` is where its value ends when that is a single text or number, -1 when it is a list or a mapping.
    """

    key: str
    start: int
    column: int
    scalar_end: int


def top_level_keys(text: str) -> list[TopLevelKey] | None:
    """The keys of a YAML text that ``load`` has taken; None when the outermost mapping is not in block style."""
    keys: list[TopLevelKey] = []
    pending: ScalarEvent | None = None
    depth = 0
    loader = yaml.CSafeLoader(text)
    try:
        while (event := loader.get_event()) is not None:
            if isinstance(event, MappingStartEvent) and depth == 0 and event.flow_style:
                return None
            if depth == 1 and isinstance(event, ScalarEvent) and pending is None:
                pending = event
            elif depth == 1 and pending is not None and not isinstance(event, MappingEndEvent):
                scalar_end = event.end_mark.index if isinstance(event, ScalarEvent) and event.end_mark else -1
                if (mark := pending.start_mark) is not None:
                    keys.append(TopLevelKey(pending.value.replace("\x00", ""), mark.index, mark.column, scalar_end))
                pending = None
            elif depth == 1 and isinstance(event, AliasEvent):
                return None
            if isinstance(event, CollectionStartEvent):
                depth += 1
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                depth -= 1
    finally:
        loader.dispose()
    return keys


class _Reader:
    """Builds the value, event by event."""

    def __init__(self) -> None:
        self.root: Any = None
        self.duplicates: list[tuple[str, int]] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._documents = 0
        self._repeated = 0
        self._repeated_characters = 0

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, CollectionStartEvent):
            self._start(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._end(event)
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise YamlProblem("two_documents", "a second YAML document begins here", _line(event))

    def _scalar(self, event: ScalarEvent) -> None:
        _check_tag(event)
        text = event.value.replace("\x00", "")
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if event.anchor:
                self._anchors[event.anchor] = _Anchored(text, 1, len(text), 0)
            self._take_key(top, text, merge=text == "<<" and not event.style, event=event)
            return
        tagged_text = event.tag is not None and event.tag != _CORE + "null"
        value = None if not tagged_text and not event.style and text in _NULLS else text
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, 1, len(text), 0)
        self._add(value, _Anchored(value, 1, len(text), 0), event)

    def _take_key(self, top: _Open, key: str, *, merge: bool, event: Event) -> None:
        top.key, top.key_is_merge = key, merge
        top.count += 1
        top.characters += len(key)
        if not merge and isinstance(top.value, dict) and key in top.value:
            self.duplicates.append((key, _line(event)))

    def _start(self, event: CollectionStartEvent) -> None:
        _check_tag(event)
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            raise YamlProblem("key", "a key must be plain text (put quotes around {{ … }})", _line(event))
        if len(self._stack) >= MAX_DEPTH:
            raise YamlProblem("depth", f"it is nested deeper than {MAX_DEPTH} levels", _line(event))
        value: dict[str, Any] | list[Any] = {} if isinstance(event, MappingStartEvent) else []
        self._stack.append(_Open(value, event.anchor))

    def _end(self, event: Event) -> None:
        done = self._stack.pop()
        if isinstance(done.value, dict) and done.merged:
            done.value = {**{key: value for key, value in done.merged.items() if key not in done.value}, **done.value}
        finished = _Anchored(done.value, done.count, done.characters, done.depth)
        if done.anchor:
            self._anchors[done.anchor] = finished
        self._add(done.value, finished, event)

    def _alias(self, event: AliasEvent) -> None:
        name = event.anchor or ""
        if any(level.anchor == name for level in self._stack):
            raise YamlProblem("self_reference", f"*{name} stands inside the value that it repeats", _line(event))
        known = self._anchors.get(name)
        if known is None:
            raise YamlProblem(
                "alias", f"*{name} repeats nothing (a value that begins with * needs quotes)", _line(event)
            )
        self._repeated += known.count
        self._repeated_characters += known.characters
        if self._repeated > MAX_REPEATED or self._repeated_characters > MAX_REPEATED_CHARACTERS:
            raise YamlProblem("alias_bomb", "its aliases repeat more than is taken", _line(event))
        if len(self._stack) + known.depth > MAX_DEPTH:
            raise YamlProblem("depth", f"it is nested deeper than {MAX_DEPTH} levels", _line(event))
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if not isinstance(known.value, str):
                raise YamlProblem("key", "a key must be plain text", _line(event))
            self._take_key(top, known.value, merge=False, event=event)
            return
        self._add(known.value, known, event)

    def _add(self, value: Any, size: _Anchored, event: Event) -> None:
        """Put a finished value where it belongs."""
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        top.count += size.count
        top.characters += size.characters
        top.depth = max(top.depth, size.depth + 1)
        if isinstance(top.value, list):
            top.value.append(value)
            return
        key, merge = top.key or "", top.key_is_merge
        top.key, top.key_is_merge = None, False
        if merge:
            _merge(top, value, event)
        else:
            top.value[key] = value


def _merge(into: _Open, value: Any, event: Event) -> None:
    """``<<``: the fields of a mapping, or of several (the first that names a field wins), under the mapping's own."""
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, dict):
            raise YamlProblem("merge", "<< takes a mapping, or a list of mappings", _line(event))
        for key, item in source.items():
            into.merged.setdefault(key, item)


def _check_tag(event: ScalarEvent | CollectionStartEvent) -> None:
    tag = event.tag
    if tag is not None and tag not in _PLAIN_TAGS:
        shown = tag.replace(_CORE, "!!")[:60]
        raise YamlProblem("tag", f"the tag {shown} is not allowed", _line(event))


def _line(event: Event) -> int:
    return int(event.start_mark.line) if event.start_mark else 0


def _reason(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or "it is not YAML")
    hint = _HINTS.get(problem)
    return f"{problem} ({hint})" if hint else problem
