"""The dashboard page, and each panel as JSON and CSV."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from documents.access import require_scope
from documents.models import KnowledgeDomain, ToolInvocation
from documents.problem_details import problem
from observability.charts import bar_chart, histogram
from observability.csv_text import csv_text
from observability.filters import REAL_CHANNELS, BadFilter, Filters, read_filters
from observability.panels import BINS, PANELS, Panel

RECENT = 20
LEVEL_TONES = {"PRECISE": "pine", "HIGHLY_RELEVANT": "blue", "REFERENCE": "ochre", "DEDUPED": "plum"}


def _panel(request: HttpRequest, name: str) -> Panel | HttpResponseBase:
    if name not in PANELS:
        raise Http404(_("There is no such panel."))
    try:
        return PANELS[name](read_filters(request.GET))
    except BadFilter as refusal:
        error = {"field": refusal.field, "code": "invalid", "detail": refusal.detail}
        return problem(status=400, code="invalid_filter", detail=refusal.detail, errors=[error])


@require_scope("ops")
@require_GET
def panel_json(request: HttpRequest, name: str) -> HttpResponseBase:
    """``GET /dashboards/panels/{panel}.json``."""
    panel = _panel(request, name)
    if not isinstance(panel, Panel):
        return panel
    return JsonResponse(panel.as_json(), json_dumps_params={"ensure_ascii": False})


@require_scope("ops")
@require_GET
def panel_csv(request: HttpRequest, name: str) -> HttpResponseBase:
    """``GET /dashboards/panels/{panel}.csv``: the same rows; null is an empty cell."""
    panel = _panel(request, name)
    if not isinstance(panel, Panel):
        return panel
    text = csv_text(panel.columns, ([row[column] for column in panel.columns] for row in panel.rows))
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{panel.name}.csv"'
    return response


@require_scope("ops")
@require_GET
def dashboard(request: HttpRequest) -> HttpResponseBase:
    """``GET /dashboards/``: tiles, the three distributions as chart and table, the latest lookups."""
    query = request.GET.copy()
    if not query.get("channel"):
        query.setlist("channel", list(REAL_CHANNELS))
    elif query.get("channel") == "all":
        query.pop("channel")
    for name in [name for name, value in query.items() if not value]:
        query.pop(name)
    problem_text = ""
    try:
        filters = read_filters(query)
    except BadFilter as refusal:
        filters, problem_text = Filters(channels=REAL_CHANNELS), f"{refusal.field}: {refusal.detail}"
        query = QueryDict(mutable=True)
    return render(request, "observability/dashboard.html", _context(request, filters, query, problem_text))


def _context(request: HttpRequest, filters: Filters, query: QueryDict, problem_text: str) -> dict[str, Any]:
    panels = {name.replace("-", "_"): panel(filters) for name, panel in PANELS.items()}
    lookups = sum(row["count"] for row in panels["relevance_levels"].rows)
    return {
        "filters": filters,
        "chosen_channel": request.GET.get("channel", ""),
        "query_string": query.urlencode(),
        "problem": problem_text,
        "panels": panels,
        "tiles": _tiles(panels, lookups, filters),
        "lookups": lookups,
        "charts": _charts(panels),
        "recent": filters.apply().order_by("-pk")[:RECENT],
        "domains": KnowledgeDomain.objects.values_list("domain_id", flat=True),
        "channels": ToolInvocation.Channel.choices,
    }


def _tiles(panels: dict[str, Panel], lookups: int, filters: Filters) -> dict[str, Any]:
    levels = {row["relevance_level"]: row["count"] for row in panels["relevance_levels"].rows}
    runs = filters.apply().exclude(run_id="").values("run_id").distinct().count()
    in_runs = filters.apply().exclude(run_id="").count()

    def share(level: str | None) -> str:
        return f"{levels.get(level, 0) / lookups:.1%}".rstrip("%") if lookups else "–"

    return {
        "lookups": lookups,
        "runs": runs,
        "per_run": f"{in_runs / runs:.1f}" if runs else "–",
        "precise": share("PRECISE"),
        "misses": share(None),
        "miss_count": levels.get(None, 0),
        "deduped": share("DEDUPED"),
        "deduped_count": levels.get("DEDUPED", 0),
    }


def _charts(panels: dict[str, Panel]) -> dict[str, Any]:
    names = {
        "PRECISE": _("Exact"),
        "HIGHLY_RELEVANT": _("Highly relevant"),
        "REFERENCE": _("Reference"),
        "DEDUPED": _("Already given"),
        None: _("Nothing found"),
    }
    levels = {row["relevance_level"]: row["count"] for row in panels["relevance_levels"].rows}
    reasons = {
        "doc_retrieved": _("Document already given"),
        "domain_retrieved": _("Domain already searched"),
        "budget_exhausted": _("Budget used up"),
        None: _("Not repeated"),
    }
    found = panels["similarity"]
    histogram_rows = [(row["bin"], row["count"]) for row in found.rows if row["bin"] is not None]
    limits = found.extra["thresholds"]
    return {
        "levels": bar_chart(
            [(str(label), LEVEL_TONES.get(level or "", "none"), levels.get(level, 0)) for level, label in names.items()]
        ),
        "reasons": [
            {"label": reasons.get(row["dedup_reason"], row["dedup_reason"]), "count": row["count"]}
            for row in panels["dedup_reasons"].rows
        ],
        "similarity": histogram(histogram_rows, BINS, sorted(limits.items(), key=lambda item: item[1])),
        "has_similarity": bool(histogram_rows),
        "without_similarity": sum(row["count"] for row in found.rows if row["bin"] is None),
        "most_reasons": max((row["count"] for row in panels["dedup_reasons"].rows), default=1),
    }
