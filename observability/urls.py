"""Dashboards, invocations, health."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from observability.api import InvocationList
from observability.calibration.asking import calibrate_for_command
from observability.doctor import doctor_for_command
from observability.health import healthz, readyz

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("api/v1/invocations/", InvocationList.as_view(), name="invocation-list"),
    path("", include("observability.dashboard_urls")),
    path("internal/calibrate/", calibrate_for_command, name="internal-calibrate"),
    path("internal/doctor/", doctor_for_command, name="internal-doctor"),
]
