"""The page for staff: what the last reconciles found, what stays wrong and what to do, and a button for one now."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from documents.models import ReconcileRun
from documents.reconcile import ReconcileReport, reconcile
from documents.reconcile_findings import Finding
from documents.reconcile_report import AT_START, COMMAND, EACH_MINUTE, findings_of, still_wrong

MAY_SEE, MAY_MEND = "documents.view_apidocument", "documents.change_apidocument"
FINDINGS_SHOWN = 100
RUNS_SHOWN = 10
_PATIENCE_SECONDS = 10.0


@require_http_methods(["GET", "HEAD", "POST"])
def reconcile_page(request: HttpRequest) -> HttpResponse:
    """The state by the last passes; POST ``do=run`` makes a full one, ``do=look`` only looks and shows it at once."""
    if not (request.user.is_staff and request.user.has_perm(MAY_SEE)):
        raise PermissionDenied
    if request.method != "POST":
        return _page(request)
    step = request.POST.get("do")
    if step == "look":
        return _page(request, looked=reconcile(by=request.user.get_username(), dry_run=True))
    if step != "run":
        messages.error(request, _("Choose one of the buttons of the page."))
    elif not request.user.has_perm(MAY_MEND):
        raise PermissionDenied
    else:
        _run(request)
    return redirect("reconcile")


def _run(request: HttpRequest) -> None:
    report = reconcile(by=request.user.get_username(), patience=_PATIENCE_SECONDS)
    if report is None:
        messages.warning(request, _("Another process is reconciling. Its findings are here in a moment."))
    elif report.wrong:
        words = ngettext("%(count)d thing stays wrong.", "%(count)d things stay wrong.", report.wrong)
        messages.warning(request, words % {"count": report.wrong})
    elif report.findings:
        words = ngettext("%(count)d thing was mended.", "%(count)d things were mended.", report.mended)
        messages.success(request, words % {"count": report.mended})
    else:
        messages.success(request, _("Everything is in step."))


def _page(request: HttpRequest, looked: ReconcileReport | None = None) -> HttpResponse:
    runs = list(ReconcileRun.objects.all()[:RUNS_SHOWN])
    if looked is not None:
        findings: list[Finding] = looked.findings
    else:
        findings = still_wrong() + (_mended(runs[0]) if runs else [])
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "is_nav_sidebar_enabled": False,
        "title": _("Reconcile"),
        "looked": looked,
        "findings": findings[:FINDINGS_SHOWN],
        "more_findings": max(0, len(findings) - FINDINGS_SHOWN),
        "wrong": sum(finding.wrong for finding in findings),
        "runs": [(run, _who(run.by)) for run in runs],
        "may_mend": request.user.has_perm(MAY_MEND),
    }
    return TemplateResponse(request, "admin/reconcile.html", context)


def _mended(run: ReconcileRun) -> list[Finding]:
    return [finding for finding in findings_of(run) if not finding.wrong]


def _who(by: str) -> str:
    itself = {AT_START: _("at the start"), EACH_MINUTE: _("by itself"), COMMAND: _("by the command")}
    return itself.get(by, by)
