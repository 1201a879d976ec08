"""What the pages of domains show in their cells: a text with who wrote it, and how the model's work stands."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from documents.admin.cells import icon
from documents.domain_texts import DomainStatus
from documents.models import KnowledgeDomain, LlmJob

Source = KnowledgeDomain.TextSource
State = LlmJob.State
SHOWN = 140
_SOURCES: dict[str, tuple[str, str, str | Promise]] = {
    Source.CURATOR: ("", "lock", _("a curator")),
    Source.MODEL: ("blue", "draft", _("the model")),
    Source.PLAIN: ("", "doc", _("plain summary")),
}


def text_cell(text: str, source: str) -> SafeString:
    """A text in short, and a chip that says whose it is."""
    tone, name, words = _SOURCES[source]
    return format_html(
        '<span class="k">{}<span class="k-chip"{}>{}{}</span></span>',
        format_html("<p>{}</p>", Truncator(text).chars(SHOWN)) if text else "",
        format_html(' data-tone="{}"', tone) if tone else "",
        icon(name),
        words,
    )


def documents_link(domain: KnowledgeDomain) -> SafeString:
    """How many documents, as a link to their list."""
    count = domain.document_count
    return format_html(
        '<a href="{}?{}">{}</a>',
        reverse("admin:documents_apidocument_changelist"),
        urlencode({"category": domain.domain_id}),
        ngettext("%(count)s document", "%(count)s documents", count) % {"count": count},
    )


def model_cell(status: DomainStatus, *, configured: bool, long: bool = False) -> SafeString:
    """Where the model's work on a domain stands; ``long`` with the reason in full and when it was written."""
    tone, name, words = _look(status, configured=configured)
    reason = status.reason if long else Truncator(status.reason).chars(SHOWN)
    made = date_format(timezone.localtime(status.made_at), "DATETIME_FORMAT") if long and status.made_at else ""
    return format_html(
        '<span class="k"><span class="k-status" data-tone="{}">{}<span>{}{}</span></span>{}</span>',
        tone,
        icon(name),
        words,
        f" · {made}" if made else "",
        format_html('<p class="k-quiet">{}</p>', reason) if reason else "",
    )


def _look(status: DomainStatus, *, configured: bool) -> tuple[str, str, str | Promise]:
    if status.state == State.FAILED:
        return "red", "cross", _("The model failed")
    if status.state == State.RUNNING:
        return "blue", "clock", _("The model is writing")
    if not configured and status.state != State.DONE:
        return "ink", "off", _("No model is set up")
    if status.waiting or status.state == State.WAITING:
        return "plum", "clock", _("Waits for the model")
    if status.made_at is None:
        return "ink", "ok", _("Nothing to write")
    return "pine", "ok", _("Written by %(model)s") % {"model": status.model}
