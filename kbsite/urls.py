"""Where everything is. Each app brings its own urls; the route table test holds every line of them."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("documents.urls")),
    path("", include("agents.urls")),
    path("", include("observability.urls")),
]
