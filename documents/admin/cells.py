"""What the document list shows in its cells: a status as icon and words, never a colour alone."""

from __future__ import annotations

from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from documents.models import ApiDocument

Status = ApiDocument.Status


def _icon(name: str) -> SafeString:
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
    tone, icon, word, reason = _look(document)
    return format_html(
        '<span class="k"><span class="k-status" data-tone="{}">{}{}</span>{}</span>',
        tone,
        _icon(icon),
        word,
        format_html('<p class="k-quiet">{}</p>', reason) if reason else "",
    )


def title_cell(document: ApiDocument) -> SafeString:
    """The title with its path in the folder under it."""
    path = document.file_path.removeprefix("knowledge_base/")
    return format_html('{}<span class="k"><p class="k-quiet">{}</p></span>', document.title, path)


def size_text(size: int) -> str:
    """Bytes as people read them."""
    if size < 1024:
        return ngettext("%(count)d byte", "%(count)d bytes", size) % {"count": size}
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"
