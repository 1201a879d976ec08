"""The form of one document: its switch and its whole text."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from documents import services
from documents.encoding import UnreadableText, decode
from documents.errors import DocumentError
from documents.models import ApiDocument


class DocumentForm(forms.ModelForm[ApiDocument]):
    """The whole text in one box; saving it is a replacement, with all its checks."""

    text = forms.CharField(
        label=gettext_lazy("Text"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 28, "class": "k-mono vLargeTextField", "spellcheck": "false"}),
        help_text=gettext_lazy("The file as it is, header included. Saving a change makes a new revision."),
    )
    seen_revision = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = ApiDocument
        fields = ["enabled"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["text"] = self.original_text = current_text(self.instance)
        self.initial["seen_revision"] = self.instance.revision

    def new_bytes(self) -> bytes | None:
        """The edited file, or None where nothing was changed. Browsers send CRLF: the file's own line ends are kept."""
        typed = str(self.cleaned_data.get("text", "")).replace("\r\n", "\n")
        if typed == self.original_text.replace("\r\n", "\n"):
            return None
        newline = "\r\n" if "\r\n" in self.original_text else "\n"
        return typed.replace("\n", newline).encode("utf-8")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("seen_revision") not in (None, self.instance.revision):
            raise forms.ValidationError(
                _(
                    "Somebody else changed this document meanwhile (it is at revision %(revision)d). "
                    "Copy your text, open it again."
                ),
                params={"revision": self.instance.revision},
            )
        return cleaned


def current_text(document: ApiDocument) -> str:
    """The file's text, empty where it cannot be read."""
    try:
        return decode(services.read_content(document_id=document.pk)).text
    except (DocumentError, UnreadableText):
        return ""
