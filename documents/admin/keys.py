"""API keys: made, limited to scopes, revoked. The key itself is shown once."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from rest_framework_api_key.admin import APIKeyModelAdmin

from documents.models import ApiKey

SCOPES = [
    ("read", _("read: documents, domains, lookup, session memory")),
    ("chat", _("chat: ask questions, own sessions")),
    ("write", _("write: upload, replace, delete (includes read)")),
    ("ops", _("ops: recorded calls and dashboards")),
]


class ApiKeyForm(forms.ModelForm[ApiKey]):
    """Scopes as boxes to tick instead of a line to type."""

    scopes = forms.MultipleChoiceField(choices=SCOPES, widget=forms.CheckboxSelectMultiple, label=_("scopes"))

    class Meta:
        model = ApiKey
        fields = ["name", "scopes", "user", "expiry_date", "revoked"]
        labels: ClassVar = {"name": _("name"), "expiry_date": _("expires"), "revoked": _("revoked")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["scopes"] = (self.instance.scopes or "read").split()
        parts = getattr(self.fields.get("expiry_date"), "widget", None)
        for part, name in zip(getattr(parts, "widgets", []), (_("Date"), _("Time")), strict=False):
            part.attrs["aria-label"] = name  # the admin's two boxes have no label of their own

    def clean_scopes(self) -> str:
        return " ".join(self.cleaned_data["scopes"])


def _column(field: str, label: Any, *, boolean: bool = False) -> Any:
    """A column of the list under a name of ours: the library's fields have none that could be translated."""

    @admin.display(description=label, ordering=field, boolean=boolean)
    def column(row: ApiKey) -> Any:
        return getattr(row, field)

    return column


class ApiKeyAdmin(APIKeyModelAdmin):
    """The library's page with our form."""

    model = ApiKey
    form = ApiKeyForm
    # The library types its lists by their own lengths.
    list_display = (  # type: ignore[assignment]
        _column("name", _("name")),
        _column("prefix", _("prefix")),
        "scopes",
        "user",
        _column("created", _("created")),
        _column("expiry_date", _("expires")),
        _column("revoked", _("revoked"), boolean=True),
    )
    list_filter = ("revoked", "created")  # type: ignore[assignment]
    search_fields = ("name", "prefix", "user__username")  # type: ignore[assignment]
    list_select_related = ("user",)
    autocomplete_fields = ("user",)

    def save_model(self, request: HttpRequest, obj: Any, form: Any = None, change: bool = False) -> None:
        """A new key is shown once, in the words of the reader's language."""
        if obj.pk:
            obj.save()
            return
        key = ApiKey.objects.assign_key(obj)
        obj.save()
        shown = _("The key “%(name)s” is %(key)s – keep it now: it is not shown again.") % {
            "name": obj.name,
            "key": key,
        }
        messages.add_message(request, messages.WARNING, shown)
