"""Where everything is. Each app brings its own urls; tests/flows/test_routes.py has a line for every one of them."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

handler400 = "kbsite.problems.bad_request"
handler403 = "kbsite.problems.permission_denied"
handler404 = "kbsite.problems.page_not_found"
handler500 = "kbsite.problems.server_error"

urlpatterns = [
    path("", include("agents.admin_urls")),  # our own pages below /admin/, before Django's
    path("admin/", admin.site.urls),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    # The split view serves its script apart: the content security policy allows no inline one.
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    path("", include("documents.urls")),
    path("", include("agents.urls")),
    path("", include("observability.urls")),
]
