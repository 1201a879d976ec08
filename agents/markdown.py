"""Markdown to safe HTML, on the server: for answers, for cited sections and for documents that are read.

No raw HTML passes, nothing is loaded (no image, no frame), headings stay below the page's own, links name their host.
Two fences, one behind the other: markdown-it without HTML, then nh3 with a list of what may stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

MAX_CHARS = 64_000
"""More is cut: a table of 220 KB took seconds."""
# A NUL is shown as what it is, a hole in the text (CommonMark); no other control character reaches a page.
_CONTROLS: dict[int, str | None] = {
    **dict.fromkeys((*range(1, 9), *range(14, 32), *range(127, 160))),
    **{0: "\ufffd", 11: " ", 12: " ", 0x85: " "},
}
_CITATION = re.compile(r"\[(\d{1,2})\](?![(:])")
_TAGS = {
    "a", "b", "blockquote", "br", "code", "del", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "mark", "ol", "p",
    "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title", "class", "aria-label", "data-cite"}, "ol": {"start"}, "span": {"class"}}
_CLASSES = {"k-cite", "k-host"}


def render_markdown(
    text: str,
    *,
    citations: Mapping[int, str] | None = None,
    marked_lines: tuple[int, int] | None = None,
    highest: int = 3,
) -> SafeString:
    """HTML of ``text``, safe to put on a page.

    ``citations`` maps a number to the address of its source: ``[1]`` becomes a link there; other numbers stay text.
    ``highest`` is the level that the text's highest heading gets: one below the heading that it stands under.
    ``marked_lines`` (first line, line after the last; counted from 0) is set in ``<mark>``.
    """
    env: dict[str, Any] = {"citations": citations or {}}
    tokens = _parser.parse(_bounded(text), env)
    _lower_headings(tokens, highest)
    _unlink_relative(tokens)
    if marked_lines:
        _mark(tokens, *marked_lines)
    html = _parser.renderer.render(tokens, _parser.options, env)
    return mark_safe(_clean(html))  # noqa: S308 (the line's other half is the cleaning)


def _bounded(text: str) -> str:
    text = text.translate(_CONTROLS)
    if len(text) <= MAX_CHARS:
        return text
    return text[:MAX_CHARS] + "\n\n" + gettext("(Cut here: the rest is too long to show on a page.)")


def _clean(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_only_known_classes,
        url_schemes={"http", "https", "mailto"},
        # What may scroll sideways can be reached by keyboard.
        set_tag_attribute_values={"table": {"tabindex": "0"}},
        link_rel="noopener noreferrer nofollow",
    )


def _only_known_classes(_tag: str, attribute: str, value: str) -> str | None:
    return value if attribute != "class" or value in _CLASSES else None


def _lower_headings(tokens: Sequence[Token], highest: int) -> None:
    """The page has its own h1 and h2: the text's highest heading takes its place below them, the others follow."""
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    shift = highest - min(levels, default=1)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + shift)}"


def _unlink_relative(tokens: Sequence[Token]) -> None:
    """A link without a host leads from the document's folder, not from this page: its words stay, the link goes."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open" and not _host_or_mail(str(child.attrGet("href") or "")):
                child.attrs.pop("href", None)


def _mark(tokens: Sequence[Token], first: int, after: int) -> None:
    for token in tokens:
        if token.map is None or not (first <= token.map[0] < after):
            continue
        if token.type == "inline" and token.children:
            token.children = [Token("mark_open", "mark", 1), *token.children, Token("mark_close", "mark", -1)]
        elif token.type in {"fence", "code_block"}:
            token.meta = {"marked": True}


def _citation_rule(state: StateInline, silent: bool) -> bool:
    found = _CITATION.match(state.src, state.pos)
    if found is None or int(found[1]) not in state.env["citations"]:
        return False
    if not silent:
        token = state.push("citation", "a", 0)
        token.meta = {"number": int(found[1])}
    state.pos = found.end()
    return True


def _render_citation(
    _self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, env: EnvType
) -> str:
    number = tokens[index].meta["number"]
    label = escape(gettext("Source %(number)s") % {"number": number})
    address = escape(env["citations"][number])
    return f'<a class="k-cite" href="{address}" data-cite="{number}" aria-label="{label}">{number}</a>'


def _render_image(
    _self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType
) -> str:
    """Never an image: its words stay."""
    return escape(tokens[index].content)


def _render_code(_self: RendererHTML, tokens: Sequence[Token], index: int, *_: object) -> str:
    token = tokens[index]
    code = escape(token.content)
    return f"<pre><code>{f'<mark>{code}</mark>' if token.meta.get('marked') else code}</code></pre>\n"


def _render_link_close(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    """Behind a link's text stands the host that it leads to, unless the text says so itself."""
    start = index
    while tokens[start].type != "link_open":
        start -= 1
    host = _host(str(tokens[start].attrGet("href") or ""))
    text = "".join(token.content for token in tokens[start:index])
    close = self.renderToken(tokens, index, options, env)
    return close if not host or host in text else f'{close} <span class="k-host">({escape(host)})</span>'


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _host_or_mail(address: str) -> bool:
    return bool(_host(address)) or address.lower().startswith("mailto:")


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("link", "citation", _citation_rule)
    rules: dict[str, Callable[..., str]] = {
        "citation": _render_citation,
        "image": _render_image,
        "fence": _render_code,
        "code_block": _render_code,
        "link_close": _render_link_close,
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


_parser = _make_parser()
