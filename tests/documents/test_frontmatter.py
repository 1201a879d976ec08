"""Reading frontmatter (FM-1 … FM-8): what is a header, what is body, and that neither is ever lost."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.frontmatter import (
    has_frontmatter,
    keywords_from,
    parse,
    parse_document,
    title_of,
)


def _fields(header: str) -> dict[str, Any]:
    found = parse(f"---\n{header}\n---\nbody\n")
    assert found is not None
    return found.fields


def test_a_header_gives_the_fields_and_keeps_the_authors_others_untouched() -> None:
    parsed = parse_document(
        "---\n"
        "title: 支付超时\n"
        "keywords: [PAY_TIMEOUT, 支付超时]\n"
        "summary: 怎么处理\n"
        "covers:\n  - 网关超时, 重试\n  - 对账\n"
        "when_to_retrieve: 支付失败时\n"
        "category: ../../etc\n"
        "owner: {team: ops, since: 2026-01-01}\n"
        "---\n\n# 标题\n\n正文\n"
    )
    found = parsed.frontmatter
    assert found is not None
    assert found.title == "支付超时"
    assert found.keywords == ("PAY_TIMEOUT", "支付超时")
    assert found.summary == "怎么处理"
    assert found.covers == ("网关超时, 重试", "对账")
    assert found.when_to_retrieve == "支付失败时"
    assert found.fields["category"] == "../../etc"
    assert found.fields["owner"] == {"team": "ops", "since": "2026-01-01"}
    assert list(found.fields) == ["title", "keywords", "summary", "covers", "when_to_retrieve", "category", "owner"]
    assert parsed.body == "# 标题\n\n正文\n"
    assert (parsed.problem, parsed.malformed) == ("", False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# Title\n\nBody\n",
        "Body with --- inside\n---\nmore",
        "-----\ntitle: a\n-----\nb",
        "--- layout: docs title: x ---\nb",
        "---\nsome prose: yes\n\n---\nmore",
        "---\n\nProse between two rules.\n\n---\n\nmore",
        "---\n\n# Heading\n\nNote: see [this\n\n---\nmore",
        "---\nNote: only a remark\n\n---\nmore",
        "---\n\nPlain prose, and no second rule.\n",
        "---\n# Heading under a rule\n---\nmore",
        "---",
        "---\n12:30 lunch\n",
        "---\nhttp://example.org/\n",
        '{\n"title": "a"\n}\n\nbody',
        '+++\ntitle = "a"\n+++\nb',
        "    ---\n    code: sample\n\nmore",
    ],
)
def test_a_text_without_a_header_is_body_to_the_last_letter_and_nothing_is_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        parsed = parse_document(text, file="x.md")
    assert parsed.frontmatter is None
    assert parsed.body == text
    assert parsed.problem == ""
    assert has_frontmatter(text) is False
    assert caplog.records == []


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("---\ntitle: a\nkeywords: [ERR\n# body", "no_end", 1),
        ("---\n\ntitle: a\n\nbody without an end\n", "no_end", 1),
        ("---\ntitle: a\nkeywords: [ERR\n# body\n---\nmore", "yaml", 3),
        ("---\ntitle: a: b\n---\nb", "yaml", 2),
        ("---\ntitle: a\nx: @b\n---\nb", "yaml", 3),
        ("---\ntitle: {{ page.title }}\n---\nb", "key", 2),
        ("---\n- a\n---\nb", "not_a_mapping", 2),
        ("---\n42\n---\nb", "not_a_mapping", 2),
        ("---\ntitle：全角冒号\nkeywords：【a，b】\n---\nb", "not_a_mapping", 2),
        ("---\ntitle:forgotten space\n---\nb", "not_a_mapping", 2),
        ("---\nok: 1\ntitle: !!python/object/apply:os.system [echo]\n---\nb", "tag", 3),
        ("---\nt: !Foo bar\n---\nb", "tag", 2),
        ("---\nt: !!binary aGk=\n---\nb", "tag", 2),
        ("---\na: &a [*a]\n---\nb", "self_reference", 2),
        ("---\ntitle: *bold* text\n---\nb", "yaml", 2),
        ("---\ntitle: *bold\n---\nb", "alias", 2),
        ("---\n\ttitle: a\n---\nb", "yaml", 2),
        ("---\ntitle: a\x01b\n---\nb", "yaml", 2),
        ("---\ntitle: a\n--- second\nb: c\n---\nb", "two_documents", 3),
        ("---\n? [a, b]\n: c\n---\nb", "key", 2),
    ],
)
def test_a_broken_header_is_one_warning_with_line_and_reason_and_its_text_stays_in_the_body(
    text: str, code: str, line: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        parsed = parse_document(text, file="api/broken.md")
    assert parsed.frontmatter is None
    assert parsed.malformed
    assert parsed.body == text
    assert has_frontmatter(text)
    assert (parsed.problem_code, parsed.problem_line) == (code, line)
    assert parsed.problem.startswith(f"Line {line}: ")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "api/broken.md" in caplog.text
    assert f"line {line}" in caplog.text


@pytest.mark.parametrize("fence", ["---", "---  ", "---\t"])
@pytest.mark.parametrize("closer", ["---", "...", "--- \t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n", "\ufeff  \n"])
def test_fences_newlines_and_marks_of_every_kind_are_read(fence: str, closer: str, newline: str, before: str) -> None:
    text = before + newline.join([fence, "title: 标题", "keywords: [a]", closer, "", "# Body", "text"])
    parsed = parse_document(text)
    assert parsed.frontmatter is not None
    assert (parsed.frontmatter.title, parsed.frontmatter.keywords) == ("标题", ("a",))
    assert parsed.body == "# Body\ntext"


def test_an_empty_header_is_a_header_without_fields() -> None:
    parsed = parse_document("---\n---\nb")
    assert parsed.frontmatter is not None
    assert parsed.frontmatter.fields == {}
    assert parsed.body == "b"


def test_only_the_first_header_counts_and_the_second_is_body() -> None:
    parsed = parse_document("---\na: 1\n---\n---\nb: 2\n---\nx")
    assert parsed.frontmatter is not None
    assert parsed.frontmatter.fields == {"a": "1"}
    assert parsed.body == "---\nb: 2\n---\nx"


def test_only_blank_lines_are_dropped_between_header_and_body() -> None:
    parsed = parse_document("---\ntitle: a\n---\n\n  \n    indented code\n\nend \n")
    assert parsed.body == "    indented code\n\nend \n"


def test_a_header_with_a_blank_line_before_its_end_needs_a_usual_field() -> None:
    assert parse("---\ntitle: a\n\n---\nb") is not None
    assert parse("---\nweight: 10\n\n---\nb") is not None
    assert parse("---\nNote: a\n\n---\nb") is None


@pytest.mark.parametrize(
    "typed", ["404", "no", "yes", "on", "12:30", "0012", "0x1F", "1_000", "2026-01-01", "1e3", "1.10", ".nan", "true"]
)
def test_a_value_stays_the_text_that_was_typed_wherever_it_stands(typed: str) -> None:
    fields = _fields(f"title: {typed}\nkeywords: [{typed}]\nx: {{y: [{typed}]}}")
    assert fields == {"title": typed, "keywords": [typed], "x": {"y": [typed]}}
    found = parse(f"---\ntitle: {typed}\nkeywords: [{typed}]\n---\n")
    assert found is not None
    assert (found.title, found.keywords) == (typed, (typed,))


def test_null_and_nothing_are_none_unless_quoted() -> None:
    assert _fields("a: null\nb: ~\nc:\nd: 'null'\ne: ''\nf: !!str null") == {
        "a": None,
        "b": None,
        "c": None,
        "d": "null",
        "e": "",
        "f": "null",
    }


def test_keys_are_text_too() -> None:
    assert _fields("1: a\ntrue: b\n2026-01-01: c\n~: d") == {"1": "a", "true": "b", "2026-01-01": "c", "~": "d"}


@pytest.mark.parametrize(
    ("typed", "keywords"),
    [
        ("abc", ("abc",)),
        ("a, b", ("a", "b")),
        ("限流，网关、ERR；503; x", ("限流", "网关", "ERR", "503", "x")),
        ("［限流，网关］", ("限流", "网关")),
        ("|\n  限流\n  网关", ("限流", "网关")),
        ("[a b, 'c, d']", ("a b", "c, d")),
        ("['', ' ', '\u3000', null, a]", ("a",)),
        ("[API, api, ＡＰＩ, ' Api ']", ("API",)),
        ("[[x], {y: z}, a]", ("a",)),
        ("{a: b}", ()),
        ("404", ("404",)),
        ("", ()),
        ('["ERR\\u200b_TIMEOUT", "\\U000E0041x"]', ("ERR_TIMEOUT", "x")),
        ('["a\\0b"]', ("ab",)),
    ],
)
def test_keywords_are_a_list_or_one_split_string(typed: str, keywords: tuple[str, ...]) -> None:
    found = parse(f"---\nkeywords: {typed}\n---\nb")
    assert found is not None
    assert found.keywords == keywords


def test_keywords_are_bounded_and_what_is_left_out_is_said() -> None:
    many = parse_document("---\nkeywords: [" + ", ".join(f"k{number}" for number in range(5000)) + "]\n---\nb")
    assert many.frontmatter is not None
    assert many.frontmatter.keywords == tuple(f"k{number}" for number in range(200))
    assert "4800 of the keywords" in many.problem
    long = parse_document("---\nkeywords: [" + "x" * 201 + ", " + "y" * 200 + "]\n---\nb")
    assert long.frontmatter is not None
    assert long.frontmatter.keywords == ("y" * 200,)
    assert "1 of the keywords" in long.problem
    assert not long.malformed


def test_other_fields_become_keywords_only_where_the_setting_names_them() -> None:
    metadata = {"keywords": ["a"], "tags": "b, A", "Aliases": ["c"], "title": "d", "order": 7}
    assert keywords_from(metadata, ("keywords",)) == ("a",)
    assert keywords_from(metadata, ("title", "keywords", "tags", "aliases", "order", "none")) == (
        "d",
        "a",
        "b",
        "c",
        "7",
    )
    assert keywords_from(None, ("keywords",)) == ()


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("A  B", "A B"),
        ('"a\\0b"', "ab"),
        ('"a\\u200bb\\u202ec"', "abc"),
        ('"a\\nb"', "a b"),
        ("[a, b]", ""),
        ("{a: b}", ""),
        ("null", ""),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("x" * 900, "x" * 500),
    ],
)
def test_a_title_is_one_clean_line(typed: str, title: str) -> None:
    found = parse(f"---\ntitle: {typed}\n---\nb")
    assert found is not None
    assert found.title == title


def test_field_names_are_read_in_any_case_but_the_exact_one_wins() -> None:
    found = parse("---\nTitle: a\nKEYWORDS: [k]\n---\nb")
    assert found is not None
    assert (found.title, found.keywords) == ("a", ("k",))
    both = parse("---\nTitle: a\ntitle: b\n---\nb")
    assert both is not None
    assert both.title == "b"


def test_a_key_given_twice_counts_with_its_last_value_and_the_curator_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parsed = parse_document("---\ntitle: a\nkeywords: [x]\ntitle: b\n---\nbody", file="d.md")
    assert parsed.frontmatter is not None
    assert parsed.frontmatter.title == "b"
    assert (parsed.problem_code, parsed.problem_line, parsed.malformed) == ("duplicate_key", 4, False)
    assert "title" in parsed.problem
    assert len(caplog.records) == 1


def test_an_ordinary_anchor_and_a_merge_key_are_read() -> None:
    fields = _fields("title: &t 标题\nsummary: *t\nbase: &b {owner: ops, x: 1}\nextra:\n  <<: *b\n  x: 2")
    assert fields == {
        "title": "标题",
        "summary": "标题",
        "base": {"owner": "ops", "x": "1"},
        "extra": {"owner": "ops", "x": "2"},
    }


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "header",
    [
        _bomb(10),
        "a: &a " + "y" * 30_000 + "\nb: [*a, *a, *a]",
        "a: " + "[" * 3000 + "]" * 3000,
        "a: " + "{a: " * 3000 + "1" + "}" * 3000,
        "a: " + "[" * 60_000,
        "\n".join(f"{' ' * n}k:" for n in range(60)),
        "k: " + "x" * 70_000,
        "k: " + "支" * 30_000,
        "a: &a [x]\n" + "\n".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}]" for n in range(30)),
    ],
    ids=["bomb", "long alias", "deep list", "deep mapping", "open list", "deep block", "large", "large utf-8", "chain"],
)
def test_a_header_beyond_the_bounds_is_malformed(header: str) -> None:
    parsed = parse_document(f"---\n{header}\n---\nbody\n")
    assert parsed.malformed
    assert parsed.body.endswith("---\nbody\n")
    assert len(parsed.problem) <= 500


def test_a_header_just_within_the_bounds_is_read() -> None:
    assert parse("---\nk: " + "x" * 65_000 + "\n---\nb") is not None
    assert parse("---\na: " + "[" * 19 + "]" * 19 + "\n---\nb") is not None
    assert parse("---\na: " + "[" * 20 + "]" * 20 + "\n---\nb") is None


def test_the_title_falls_back_to_the_first_heading_then_to_the_file_name() -> None:
    assert title_of(parse_document("---\ntitle: T\n---\n# H\n"), "a.md") == "T"
    assert title_of(parse_document("---\ntitle: [x]\n---\ntext\n\n## **H** `x`\n"), "a.md") == "H x"
    assert title_of(parse_document("text only"), "api/my-notes.v2.md") == "my-notes.v2"
    assert title_of(parse_document("---\ntitle: a: b\nkeywords: [x]\n---\n\n# Real\n"), "a.md") == "Real"


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from(list("---...:ab \n\r\t#[]{}&*!'\"%@`,0支，\u2028\x85\ufeff")), max_size=80))
def test_no_text_breaks_the_parser_and_none_of_its_body_is_lost(text: str) -> None:
    parsed = parse_document(text)
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    assert whole.endswith(parsed.body)
    if parsed.frontmatter is None:
        assert parsed.body == whole
    else:
        json.dumps(parsed.frontmatter.fields, allow_nan=False)
        assert has_frontmatter(text)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=60))
def test_any_characters_at_all_in_a_header_are_survived(value: str) -> None:
    parsed = parse_document(f"---\ntitle: {value}\nk: v\n---\nbody")
    assert parsed.body.endswith("body")
    if parsed.frontmatter is not None:
        assert "\x00" not in json.dumps(parsed.frontmatter.fields, ensure_ascii=False)
