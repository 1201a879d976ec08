"""What the document list shows in its cells: a status as icon and words, never a colour alone."""

from __future__ import annotations

from datetime import datetime

from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from documents.admin.draft_fields import LABELS
from documents.admin.model_state import model_line
from documents.generated import drafts_in
from documents.models import ApiDocument

Status = ApiDocument.Status


def icon(name: str) -> SafeString:
    """A symbol of the sprite, hidden from screen readers."""
    return format_html(
        '<svg class="k-i" aria-hidden="true" focusable="false"><use href="{}#i-{}"/></svg>',
        static("kbsite/icons.svg"),
        name,
    )


def _look(document: ApiDocument) -> tuple[str, str, str, str]:
    """Tone, icon, word, and the sentence below it."""
    findable = _("Found by keyword already.") if document.published_revision else ""
    if document.status == Status.DELETING:
        return "plum", "clock", _("Being deleted"), _("No lookup returns it any more; its vectors are still to go.")
    if document.missing_since is not None:
        return "red", "cross", _("File missing"), _("Hidden until the file is back in the folder.")
    if not document.enabled:
        return "ink", "off", _("Disabled"), _("No lookup returns it. It can be enabled at any time.")
    if document.status == Status.FAILED:
        return "red", "cross", _("Failed"), document.status_reason
    if document.status == Status.PENDING:
        return "plum", "clock", _("Waiting"), document.status_reason or findable
    if document.status == Status.INDEXING:
        return "blue", "clock", _("Being indexed"), document.status_reason or findable
    if document.frontmatter_problem:
        return "ochre", "alert", _("Indexed, no keywords"), document.frontmatter_problem
    return "pine", "ok", _("Indexed"), ""


def status_cell(document: ApiDocument) -> SafeString:
    """Where a document stands, and why."""
    tone, name, word, reason = _look(document)
    return format_html(
        '<span class="k"><span class="k-status" data-tone="{}">{}{}</span>{}{}</span>',
        tone,
        icon(name),
        word,
        format_html('<p class="k-quiet">{}</p>', reason) if reason else "",
        draft_mark(document),
    )


def draft_mark(document: ApiDocument) -> SafeString | str:
    """A link to the drafts that wait, or to the reason why the model wrote none; nothing where all is well."""
    if document.status == Status.DELETING:
        return ""
    address = reverse("admin:documents_document_drafts", args=[document.pk])
    count = len(drafts_in(document.generated))
    if count:
        words = ngettext("%(count)d draft to decide", "%(count)d drafts to decide", count) % {"count": count}
        return format_html('<p><a class="k-link" href="{}">{}{}</a></p>', address, icon("draft"), words)
    line = model_line(getattr(document, "enrichment", None), configured=True)
    if line is not None and line.failed:
        return format_html(
            '<p><a class="k-link k-status" data-tone="{}" href="{}">{}{}</a></p>',
            line.tone,
            address,
            icon(line.icon),
            line.words,
        )
    return ""


def drafts_cell(document: ApiDocument) -> SafeString:
    """The drafts in short, for the page of one document: which wait, and where they are decided."""
    waiting = drafts_in(document.generated)
    names = _(", ").join(str(LABELS[field]) for field in waiting)
    return format_html(
        '<span class="k">{} <a class="k-link" href="{}">{}{}</a></span>',
        _("To decide: %(names)s.") % {"names": names} if waiting else _("None waits."),
        reverse("admin:documents_document_drafts", args=[document.pk]),
        icon("draft"),
        _("Review drafts"),
    )


def title_cell(document: ApiDocument) -> SafeString:
    """The title with its path in the folder under it."""
    path = document.file_path.removeprefix("knowledge_base/")
    return format_html('{}<span class="k"><p class="k-quiet">{}</p></span>', document.title, path)


def moment_cell(when: datetime) -> SafeString:
    """Day and time, one below the other: a list has many columns."""
    local = timezone.localtime(when)
    day, time = date_format(local, "DATE_FORMAT"), date_format(local, "TIME_FORMAT")
    return format_html('{}<span class="k"><p class="k-quiet">{}</p></span>', day, time)


def size_text(size: int) -> str:
    """Bytes as people read them."""
    if size < 1024:
        return ngettext("%(count)d byte", "%(count)d bytes", size) % {"count": size}
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"
