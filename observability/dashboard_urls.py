"""Dashboards, under /dashboards/."""

from __future__ import annotations

from django.urls import path

from observability import views

urlpatterns = [
    path("dashboards/", views.dashboard, name="dashboard"),
    path("dashboards/panels/<slug:name>.json", views.panel_json, name="panel-json"),
    path("dashboards/panels/<slug:name>.csv", views.panel_csv, name="panel-csv"),
]
