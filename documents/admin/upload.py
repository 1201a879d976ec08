"""The upload page: many files at once, and a result for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from documents import services
from documents.admin.cells import size_text
from documents.errors import DocumentError
from documents.models import KnowledgeDomain


class ManyFilesInput(forms.ClearableFileInput):
    """A file input that takes several files."""

    allow_multiple_selected = True


class ManyFilesField(forms.FileField):
    """Cleans to a list of files, at least one. Empty files are for the service to judge, with its own words."""

    widget = ManyFilesInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile[Any]]:
        files = [file for file in (data if isinstance(data, list | tuple) else [data]) if file]
        if not files:
            raise forms.ValidationError(self.error_messages["required"], code="required")
        return files


class UploadForm(forms.Form):
    """Files and the domain that they go to."""

    category = forms.CharField(
        label=gettext_lazy("Domain"),
        max_length=64,
        help_text=gettext_lazy("The folder that the files go to. A new name makes a new domain."),
        widget=forms.TextInput(attrs={"list": "domains", "class": "k-input", "autocomplete": "off"}),
    )
    uploads = ManyFilesField(
        label=gettext_lazy("Files"),
        widget=ManyFilesInput(attrs={"accept": ".md", "class": "k-input"}),
        error_messages={"required": gettext_lazy("Choose at least one .md file.")},
    )


@dataclass(frozen=True)
class UploadResult:
    """What became of one file, as the page shows it."""

    name: str
    size: str
    tone: str
    icon: str
    sentence: str
    document_id: int | None = None


def known_domains() -> list[str]:
    """Domains to choose from."""
    return list(KnowledgeDomain.objects.values_list("domain_id", flat=True))


def limit_text() -> str:
    """The size limit in words."""
    return size_text(settings.UPLOAD_MAX_BYTES)


def upload_files(*, files: Sequence[UploadedFile[Any]], category: str, user: Any) -> list[UploadResult]:
    """Upload each file by itself: one that is refused does not hold up the others."""
    return [_upload_one(file=file, category=category, user=user) for file in files]


def _upload_one(*, file: UploadedFile[Any], category: str, user: Any) -> UploadResult:
    name = file.name or ""
    size = size_text(file.size or 0)
    try:
        outcome = services.upload_document(file=cast(BinaryIO, file.file), file_name=name, category=category, user=user)
    except DocumentError as refusal:
        return UploadResult(name, size, "red", "cross", _("Not taken: %(reason)s") % {"reason": refusal.detail})
    document = outcome.document
    if outcome.unchanged:
        return UploadResult(name, size, "ink", "off", _("Nothing changed; nothing to do"), document.pk)
    if document.frontmatter_problem:
        return UploadResult(name, size, "ochre", "alert", document.frontmatter_problem, document.pk)
    if outcome.created:
        sentence = _("Saved, found by keyword; vectors are on their way")
    else:
        sentence = _("Replaced: revision %(revision)d, found by keyword; vectors are on their way") % {
            "revision": document.revision
        }
    return UploadResult(name, size, "pine", "ok", sentence, document.pk)
