"""What every own page draws with: icons of the sprite, the places of the bar, and level badges in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from agents.markdown import render_markdown
from agents.moments import moment

register = template.Library()
register.filter("moment", moment)


@dataclass(frozen=True)
class Place:
    """One entry of the bar."""

    label: str
    url: str
    current: bool


@dataclass(frozen=True)
class LevelLook:
    """How a level is shown: a tone, a ring and a word (never a number)."""

    tone: str
    icon: str
    label: str | Promise


LEVELS = {
    "PRECISE": LevelLook("pine", "precise", gettext_lazy("Exact")),
    "HIGHLY_RELEVANT": LevelLook("blue", "high", gettext_lazy("Highly relevant")),
    "REFERENCE": LevelLook("ochre", "reference", gettext_lazy("Reference")),
    "DEDUPED": LevelLook("plum", "deduped", gettext_lazy("Already given")),
}
MISS = LevelLook("ink", "miss", gettext_lazy("Nothing found"))


def level_look(level: str | None) -> LevelLook:
    """The look of a relevance level; null, as in a miss, has one of its own."""
    return LEVELS.get(level or "", MISS)


@register.simple_tag
def icon(name: str) -> SafeString:
    """``{% icon "search" %}``: a symbol of ``static/kbsite/icons.svg``, hidden from screen readers."""
    return format_html(
        '<svg class="k-i" aria-hidden="true" focusable="false"><use href="{}#i-{}"/></svg>',
        static("kbsite/icons.svg"),
        name,
    )


@register.simple_tag
def level(value: str | None) -> SafeString:
    """``{% level lookup.relevanceLevel %}``: ring and word together."""
    look = level_look(value)
    return format_html('<span class="k-level" data-tone="{}">{}{}</span>', look.tone, icon(look.icon), look.label)


@register.filter
def markdown(text: str) -> SafeString:
    """A document's text below a second heading, safe to put on a page."""
    return render_markdown(text)


@register.filter
def level_tone(value: str | None) -> str:
    """The tone that a level is drawn in."""
    return level_look(value).tone


@register.filter
def level_icon(value: str | None) -> str:
    """The ring's name in the sprite."""
    return level_look(value).icon


@register.simple_tag(takes_context=True)
def places(context: dict[str, Any]) -> list[Place]:
    """``{% places as bar %}``: where this person may go, the present place marked."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if request is None or user is None or not user.is_authenticated:
        return []
    path = request.path
    staff = path.startswith(("/dashboards/", "/admin/"))
    found = [Place(gettext("Ask"), "/", not staff and not path.startswith("/accounts/"))]
    if user.is_staff:
        documents = "/admin/documents/apidocument/"
        reviewing = path.startswith(documents) and "/drafts/" in path
        found.append(Place(gettext("Documents"), documents, path.startswith(documents) and not reviewing))
        if user.has_perm("documents.view_apidocument"):
            trials = "/admin/lookup-test/"
            found.append(Place(gettext("Lookup test"), trials, path.startswith(trials)))
        if user.has_perm("documents.change_apidocument"):
            found.append(Place(gettext("Drafts"), f"{documents}drafts/", reviewing))
        found.append(Place(gettext("Dashboards"), "/dashboards/", path.startswith("/dashboards/")))
    return found
