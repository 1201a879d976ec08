"""The knowledge map as the Planner gets it: to read, to copy, to take away."""

from __future__ import annotations

from typing import Any

import yaml
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from documents.knowledge_map import knowledge_map
from documents.models import KnowledgeDomain


class MapPages(admin.ModelAdmin[KnowledgeDomain]):
    """The map's pages, for the admin of domains."""

    def map_urls(self) -> list[Any]:
        own = [("map/", self.map_view, "documents_map"), ("map/download/", self.map_file_view, "documents_map_file")]
        return [path(route, self.admin_site.admin_view(view), name=name) for route, view, name in own]

    def map_view(self, request: HttpRequest) -> HttpResponse:
        """The map with its length and its bound."""
        self._admit(request)
        text = knowledge_map()
        context = {
            **self.admin_site.each_context(request),
            "is_nav_sidebar_enabled": False,
            "opts": self.opts,
            "title": _("Knowledge map"),
            "map": text,
            "length": len(text),
            "limit": settings.KNOWLEDGE_MAP_MAX_CHARS,
            **_counts(text),
        }
        return TemplateResponse(request, "admin/documents/knowledgedomain/map.html", context)

    def map_file_view(self, request: HttpRequest) -> HttpResponse:
        """The same text as a file."""
        self._admit(request)
        headers = {"Content-Disposition": 'attachment; filename="knowledge-map.yaml"'}
        return HttpResponse(knowledge_map(), content_type="application/yaml; charset=utf-8", headers=headers)

    def _admit(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied


def _counts(text: str) -> dict[str, Any]:
    """What the map tells of and what it leaves out, as it says itself."""
    told = yaml.safe_load(text) or {}
    domains = told.get("available_knowledge_domains") or []
    documents_out = sum(int(domain.get("documents_left_out", 0)) for domain in domains)
    domains_out = int(told.get("domains_left_out", 0))
    left_out = []
    if domains_out:
        words = ngettext("%(count)d domain is left out.", "%(count)d domains are left out.", domains_out)
        left_out.append(words % {"count": domains_out})
    if documents_out:
        words = ngettext("%(count)d document is left out.", "%(count)d documents are left out.", documents_out)
        left_out.append(words % {"count": documents_out})
    return {"domains": len(domains) + domains_out, "left_out": left_out}
