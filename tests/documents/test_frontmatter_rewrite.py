"""Changing fields of a header in the file (PATCH metadata): the body to the byte, the rest to the line."""

from __future__ import annotations

import codecs
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.encoding import decode
from documents.errors import DocumentError
from documents.frontmatter import FrontmatterMalformed, parse_document, rewrite

HEADER = """\
# curated by ops
title: 旧标题   # keep me
# words to find it by
keywords:
  - a
  - b # inner

# display
weight: 10
summary: |
  one
  # not a comment

owner: {team: ops}
# end
"""
TEXT = f"---\n{HEADER}---\n\n# Body\n\ntext  \n"


def _after(data: bytes) -> Any:
    found = parse_document(decode(data).text).frontmatter
    assert found is not None
    return found.fields


def test_only_the_lines_of_changed_fields_change() -> None:
    changed = rewrite(
        TEXT.encode(), {"title": "新: 标题", "keywords": ["404", "x, y"], "extra": {"n": 1}, "weight": None}
    )
    assert changed.decode() == (
        "---\n"
        "# curated by ops\n"
        "title: '新: 标题'   # keep me\n"
        "# words to find it by\n"
        "keywords: ['404', 'x, y']\n"
        "\n"
        "# display\n"
        "summary: |\n  one\n  # not a comment\n\n"
        "owner: {team: ops}\n"
        "# end\n"
        "extra: {n: 1}\n"
        "---\n\n# Body\n\ntext  \n"
    )


def test_a_change_to_what_is_there_already_leaves_the_file_alone() -> None:
    assert (
        rewrite(TEXT.encode(), {"title": "旧标题", "keywords": ["a", "b"], "weight": 10, "none": None}) == TEXT.encode()
    )
    assert rewrite(TEXT.encode(), {}) == TEXT.encode()


def test_several_lines_of_text_become_a_literal_block() -> None:
    changed = rewrite(b"---\ntitle: a\n---\nb", {"summary": "one\ntwo\n\n---\nthree"})
    assert changed == b"---\ntitle: a\nsummary: |-\n  one\n  two\n\n  ---\n  three\n---\nb"


def test_a_file_without_a_header_gets_one_and_keeps_every_byte() -> None:
    assert rewrite(b"# T\r\ntext", {"title": "x"}) == b"---\r\ntitle: x\r\n---\r\n\r\n# T\r\ntext"
    assert rewrite(b"", {"title": "x"}) == b"---\ntitle: x\n---\n\n"
    rules = b"---\n\nprose\n\n---\nmore"
    changed = rewrite(rules, {"title": "x"})
    assert changed.endswith(rules)
    assert parse_document(changed.decode()).body == rules.decode()
    assert rewrite(rules, {"title": None}) == rules


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (b"", "utf-16-be"),
        (b"", "gb18030"),
    ],
)
def test_encoding_mark_and_newlines_are_kept(mark: bytes, encoding: str, newline: str) -> None:
    body = newline.join(["", "# 支付超时的处理", "", "当支付网关返回超时的时候，请检查下列各项。", ""])
    head = newline.join(["---", "title: 支付", "---"]) + newline
    changed = rewrite(mark + (head + body).encode(encoding), {"summary": "怎么处理"})
    expected = newline.join(["---", "title: 支付", "summary: 怎么处理", "---"]) + newline
    assert changed == mark + (expected + body).encode(encoding)


def test_the_last_of_doubled_keys_is_changed_and_the_others_go() -> None:
    changed = rewrite(b"---\ntitle: a\nx: 1\ntitle: b\n---\nz", {"title": "b"})
    assert changed == b"---\nx: 1\ntitle: b\n---\nz"


def test_a_known_field_is_changed_as_the_file_spells_it() -> None:
    assert rewrite(b"---\nTitle: a\n---\nz", {"title": "b"}) == b"---\nTitle: b\n---\nz"


@pytest.mark.parametrize(
    ("before", "changes", "fields"),
    [
        ("{title: a, b: c}\n", {"title": "x"}, {"title": "x", "b": "c"}),
        ("a: &x 1\nb: *x\n", {"a": "2"}, {"a": "2", "b": "1"}),
        ("a: &x {k: 1}\n<<: *x\n", {"k": None}, {"a": {"k": "1"}}),
        ("  title: a\n  b:\n    c: d\n", {"title": "x", "e": "f"}, {"title": "x", "b": {"c": "d"}, "e": "f"}),
        ("# only\ntitle: a\n", {"title": None}, {}),
        ("title: a\n", {"title": None}, {}),
        ("title: 'a\n\n  b'\nx: y\n", {"title": "z"}, {"title": "z", "x": "y"}),
    ],
)
def test_headers_that_lines_cannot_follow_still_get_the_right_values(
    before: str, changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    changed = rewrite(f"---\n{before}---\nbody".encode(), changes)
    assert _after(changed) == fields
    assert changed.endswith(b"---\nbody")


@pytest.mark.parametrize("text", ["---\ntitle: a: b\n---\nx", "---\ntitle: a\nno end", "---\n- a\n---\nx"])
def test_a_broken_header_is_never_touched(text: str) -> None:
    with pytest.raises(FrontmatterMalformed) as refused:
        rewrite(text.encode(), {"title": "x"})
    assert (refused.value.code, refused.value.status) == ("frontmatter_malformed", 409)
    assert str(refused.value) in refused.value.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"k": "x" * 70_000},
        {"k": object()},
        {"k": "\ud800"},
        {"": "x"},
        {"k": [[[[[[[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]]]]]]},
    ],
)
def test_what_no_header_can_hold_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as refused:
        rewrite(b"---\ntitle: a\n---\nx", changes)
    assert (refused.value.code, refused.value.status) == ("invalid_metadata", 400)


def test_numbers_and_booleans_are_written_as_they_are_and_read_as_text() -> None:
    changed = rewrite(b"---\na: b\n---\nx", {"n": 3, "t": True, "f": 1.5, "s": "3", "z": [None, False]})
    assert changed == b"---\na: b\nn: 3\nt: true\nf: 1.5\ns: '3'\nz: [null, false]\n---\nx"
    assert _after(changed) == {"a": "b", "n": "3", "t": "true", "f": "1.5", "s": "3", "z": [None, "false"]}


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
ODD = st.text(alphabet=st.sampled_from(list("---#:a' \"\n\r\t|>[]{}&*!%@`,0支\u2028\x85\ufeff😀")), max_size=15)
VALUES = st.recursive(
    TEXTS | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | ODD, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["title", "keywords", "summary", "a", "b-c", "中文", "no", "12:30", "x y", "null"])


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES | st.none(), max_size=4), ODD, st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_the_body_keeps_its_bytes_and_the_fields_are_the_merged_ones(
    changes: dict[str, Any], body: str, newline: str, data: st.DataObject
) -> None:
    header = data.draw(st.sampled_from([HEADER, "title: a\n", "title: a\nb-c:\n- 1\n- 2\n", "{a: b}\n", ""]))
    head = f"---\n{header}---\n".replace("\n", newline)
    before = codecs.BOM_UTF8 + (head + body).encode()
    old = parse_document(decode(before).text)
    assert old.frontmatter is not None
    after = rewrite(before, changes)
    assert after.startswith(codecs.BOM_UTF8)
    assert after.endswith(body.encode())
    new = parse_document(decode(after).text)
    assert new.frontmatter is not None
    merged = {**old.frontmatter.fields, **changes}
    assert new.frontmatter.fields == {key: value for key, value in merged.items() if value is not None}
    assert new.body == old.body
    assert rewrite(after, changes) == after


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.text(alphabet="ab \n\r-支", max_size=20))
def test_a_new_header_stands_before_an_untouched_text(changes: dict[str, Any], text: str) -> None:
    if parse_document(text).malformed or parse_document(text).frontmatter is not None:
        return
    after = rewrite(text.encode(), changes)
    assert after.endswith(text.encode())
    assert _after(after) == changes
