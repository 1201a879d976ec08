"""Frontmatter against the development data: 451 odd files from the wild, and the shared cases of bad inputs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from documents.encoding import UnreadableText, decode
from documents.frontmatter import (
    Frontmatter,
    ParsedDocument,
    clean_line,
    parse_document,
    title_of,
)
from documents.frontmatter_block import normalise_newlines
from retrieval.chunking import chunk_body
from retrieval.normalise import normalise


def _wild(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data / "wild" / "index.jsonl").read_text(encoding="utf-8").splitlines()]


def _normalised(keywords: Any) -> list[str]:
    return list(dict.fromkeys(normalise(clean_line(keyword)) for keyword in keywords))


def test_the_wild_files_are_read_as_a_careful_reader_would(shared_data: Path) -> None:
    figures: Counter[str] = Counter()
    for row in _wild(shared_data):
        data = (shared_data / "wild" / row["file"]).read_bytes()
        expected = row["reader_expects"]
        try:
            text = decode(data).text
        except UnreadableText:
            figures["unreadable"] += 1
            continue
        parsed = parse_document(text, file=row["file"])
        assert normalise_newlines(text).endswith(parsed.body)
        assert title_of(parsed, row["file"])
        json.dumps(parsed.frontmatter.fields if parsed.frontmatter else None, allow_nan=False)
        assert all(chunk.text in parsed.body for chunk in chunk_body(parsed.body))
        if expected["has_frontmatter"] == "malformed":
            assert parsed.malformed, row["file"]
            assert parsed.body == normalise_newlines(text)
            figures["malformed"] += 1
        elif expected["has_frontmatter"] is False:
            assert (parsed.frontmatter, parsed.problem) == (None, ""), row["file"]
        elif expected["has_frontmatter"] is True:
            found = parsed.frontmatter
            figures["headers"] += 1
            figures["titles"] += (found.title if found else "") == clean_line(expected["title"] or "")
            figures["keywords"] += _normalised(found.keywords if found else ()) == _normalised(expected["keywords"])
    assert figures["malformed"] == 27
    # The one file in ISO-8859-1: no encoding that is read, and refused rather than guessed.
    assert figures["unreadable"] == 1
    assert figures["headers"] == 401
    assert figures["titles"] >= 0.98 * figures["headers"], figures
    assert figures["keywords"] >= 0.95 * figures["headers"], figures


def _malformed(parsed: ParsedDocument) -> bool:
    return parsed.malformed


def _read(**fields: Any) -> Any:
    def check(parsed: ParsedDocument) -> bool:
        found = parsed.frontmatter
        return found is not None and all(found.fields.get(name) == value for name, value in fields.items())

    return check


def _keywords(*keywords: str) -> Any:
    def check(parsed: ParsedDocument) -> bool:
        return isinstance(parsed.frontmatter, Frontmatter) and parsed.frontmatter.keywords == keywords

    return check


def _plain_body(parsed: ParsedDocument) -> bool:
    return parsed.frontmatter is None and not parsed.problem


# What each shared case means for this product. "merge key" and the bounds of keywords follow the specification where
# the case expects something else; stop words and short keywords are the keyword index's matter, not the reader's.
EXPECTED = {
    "missing end": _malformed,
    "missing end + later hr": _malformed,
    "list": _malformed,
    "number": _malformed,
    "empty": _read(),
    "thematic break first": _plain_body,
    "date value": _read(title="a", date="2024-01-01"),
    "yes/no/octal": _keywords("yes", "no", "on", "0x1F", "1:30", "1_000"),
    "nan/inf": _read(x=".nan", y=".inf"),
    "python object": _malformed,
    "custom tag": _malformed,
    "self reference": _malformed,
    "merge key": _read(a={"k": "1"}, b={"k": "1"}),
    "non-string keys": _read(**{"1": "a", "true": "b"}),
    "reserved key content": _read(title="t", content="x"),
    "duplicate keys": _read(title="b"),
    "keywords as string": _keywords("abc"),
    "keywords comma string": _keywords("a", "b"),
    "keyword empty": _keywords(),
    "keyword one char": _keywords("a"),
    "keyword stuffing": _keywords("the", "is", "how", "怎么", "什么"),
    "title NUL escape": _read(title="ab"),
    "title CSV formula": _read(title='=HYPERLINK("http://x")'),
    "JSON frontmatter": _plain_body,
    "TOML": _plain_body,
    "dots end": _read(title="a"),
    "multi-doc": _read(a="1"),
}


def test_every_literal_case_of_frontmatter_is_read_or_refused_as_expected(shared_data: Path) -> None:
    cases = json.loads((shared_data / "bad_inputs.json").read_text(encoding="utf-8"))["cases"]
    literal = [case for case in cases if case["surface"] == "upload.frontmatter" and case["input_kind"] == "literal"]
    assert {case["name"] for case in literal} == set(EXPECTED)
    for case in literal:
        parsed = parse_document(case["input"])
        assert EXPECTED[case["name"]](parsed), (case["id"], parsed)
        assert case["input"].endswith(parsed.body)
        if parsed.frontmatter is None:
            assert parsed.body == case["input"]


@pytest.mark.parametrize("text", ["", " \n\t", "---\ntitle: a\n---\n", "---\ntitle: a\n---\n \n"])
def test_a_text_with_no_body_has_no_chunk(text: str) -> None:
    assert chunk_body(parse_document(text).body) == []
