"""The lookup test page (SPEC LK-5): on the left what the model gets, on the right, for staff, why it got this level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from agents.explain_words import sentence
from agents.explanation import Hit
from agents.json_markup import json_markup
from agents.lookup_api import MAX_QUERY, MAX_SECTION
from agents.scale import scale_of
from agents.trials import (
    Trial,
    TrialRefusedError,
    earlier_trial,
    forget,
    has_memory,
    recent_trials,
    run_trial,
    trial_scope,
)
from clients.interfaces import ClientError
from documents.access import principal_of
from documents.models import ToolInvocation

PERMISSION = "documents.view_apidocument"
KEYWORDS_SHOWN = HITS_SHOWN = 12
_NUMBER_DIGITS = 18


class LookupTestForm(forms.Form):
    """What is looked up, and whether this trial remembers."""

    query = forms.CharField(
        label=gettext_lazy("Query"),
        max_length=MAX_QUERY,
        error_messages={
            "required": gettext_lazy("Type what to look up: an exact code or term, or a question in your own words."),
            "max_length": gettext_lazy(
                "The query has %(show_value)d characters; %(limit_value)d are the limit. Shorten it, or ask for one "
                "thing."
            ),
        },
    )
    section = forms.CharField(
        label=gettext_lazy("Section (optional)"),
        max_length=MAX_SECTION,
        required=False,
        error_messages={
            "max_length": gettext_lazy(
                "The section title has %(show_value)d characters; %(limit_value)d are the limit. Shorten it."
            ),
        },
    )
    memory = forms.ChoiceField(
        label=gettext_lazy("Memory"),
        required=False,
        choices=[
            ("", gettext_lazy("None: each lookup is the first")),
            ("on", gettext_lazy("Remembered from trial to trial")),
        ],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            # A browser that cuts a pasted text at maxlength says nothing: the page says how long it is.
            field.widget.attrs.pop("maxlength", None)
            field.widget.attrs |= {"class": "k-input", "autocomplete": "off"}
            if self.is_bound and name in self.errors:
                field.widget.attrs |= {"aria-invalid": "true", "aria-describedby": f"{name}-error"}
        self.fields["query"].widget.attrs["autofocus"] = not self.is_bound or "query" in self.errors


@require_http_methods(["GET", "HEAD", "POST"])
def lookup_page(request: HttpRequest) -> HttpResponse:
    """An empty form, or one lookup and its explanation."""
    _admit(request)
    if request.method != "POST":
        initial = {
            "query": request.GET.get("query", "")[:MAX_QUERY],
            "section": request.GET.get("section", "")[:MAX_SECTION],
        }
        return _page(request, LookupTestForm(initial=initial))
    form = LookupTestForm(_sent(request))
    if not form.is_valid():
        return _page(request, form, status=400)
    scope = trial_scope(request.session) if form.cleaned_data["memory"] else None
    try:
        trial = run_trial(
            query=form.cleaned_data["query"],
            section_title=form.cleaned_data["section"],
            principal=principal_of(request).id,
            scope=scope,
        )
    except TrialRefusedError as refusal:
        form.add_error("query", str(refusal))
        return _page(request, form, status=400)
    return _page(request, form, trial)


@require_POST
def forget_trials(request: HttpRequest) -> HttpResponse:
    """Forget what the trials were given, so that the next one is the first."""
    _admit(request)
    try:
        forget(request.session, principal=principal_of(request).id)
    except ClientError as fault:
        text = gettext("The memory does not answer (%(reason)s). The next trial starts with an empty one all the same.")
        messages.warning(request, text % {"reason": fault})
    else:
        messages.success(request, gettext("Forgotten: the next trial that remembers starts anew."))
    return redirect("lookup-test")


def _admit(request: HttpRequest) -> None:
    """Staff who may see documents. Who is not signed in was sent to the sign-in before."""
    if not (request.user.is_staff and request.user.has_perm(PERMISSION)):
        raise PermissionDenied


def _sent(request: HttpRequest) -> dict[str, str]:
    """What the form sent; ``again`` stands for all that one of this person's earlier trials was made with."""
    number = request.POST.get("again", "")
    if number.isdecimal() and len(number) <= _NUMBER_DIGITS:
        row = earlier_trial(principal=principal_of(request).id, invocation_id=int(number))
        if row is not None:
            return _as_before(row)
    return {name: request.POST.get(name, "") for name in ("query", "section", "memory")}


def _as_before(row: ToolInvocation) -> dict[str, str]:
    section = str(row.arguments.get("section_title") or "")
    return {"query": row.query, "section": section, "memory": "on" if row.session_id else ""}


def _page(request: HttpRequest, form: LookupTestForm, trial: Trial | None = None, *, status: int = 200) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        # What is compared needs the width; the bar leads everywhere.
        "is_nav_sidebar_enabled": False,
        "title": gettext("Lookup test"),
        "form": form,
        "recent": recent_trials(principal=principal_of(request).id),
        "has_memory": has_memory(request.session),
        "may_change": request.user.has_perm("documents.change_apidocument"),
        "may_see_calls": request.user.has_perm("documents.view_toolinvocation"),
        **(_shown(trial) if trial is not None else {}),
    }
    return TemplateResponse(request, "admin/lookup_test.html", context, status=status)


def _shown(trial: Trial) -> dict[str, Any]:
    explanation = trial.explanation
    return {
        "trial": trial,
        "explanation": explanation,
        "markup": json_markup(trial.text),
        "reasons": [sentence(reason) for reason in explanation.reasons],
        "changes": [sentence(reason) for reason in explanation.changes],
        "scale": scale_of(explanation.hits, explanation.thresholds),
        "hits": shown_hits(explanation.hits),
        "more_hits": len(explanation.hits) - len(shown_hits(explanation.hits)),
        "keywords": explanation.keywords[:KEYWORDS_SHOWN],
        "more_keywords": max(0, len(explanation.keywords) - KEYWORDS_SHOWN),
        "faults": _faults(trial),
    }


def shown_hits(hits: Sequence[Hit]) -> list[Hit]:
    """The first, in their order; what was served or looked at by meaning is among them, however many keywords match."""
    telling = [hit for hit in hits if hit.role or (hit.candidate is not None and hit.candidate.similarity is not None)]
    rest = [hit for hit in hits if hit not in telling][: max(0, HITS_SHOWN - len(telling))]
    return [hit for hit in hits if hit in telling or hit in rest]


def _faults(trial: Trial) -> list[str]:
    """What was degraded in this lookup, and what that means for what is shown."""
    words = {
        "keyword_index": gettext("The keyword index cannot be read: exact matches may be missing."),
        "embedder": gettext("The embedder does not answer. Keyword lookups work; search by meaning is left out."),
        "vector_store": gettext("The vector store is down. Keyword lookups work; search by meaning is left out."),
        "memory": gettext("The memory does not answer: what was given before may be given again."),
        "document_text": gettext("A document’s text cannot be read. Is the knowledge base folder there?"),
    }
    found = [words[part] for part in trial.outcome.degraded.split(",") if part in words]
    if trial.lexical_embedder:
        found.append(gettext("This embedder (%(name)s) knows letters, not meaning.") % {"name": trial.embedder})
    if trial.explanation.ranked and not trial.explanation.has_lexical:
        found.append(gettext("The vector store keeps no words: documents are ranked by meaning alone."))
    if trial.invocation_id is None:
        found.append(gettext("This lookup could not be recorded; its answer is right all the same."))
    return found
