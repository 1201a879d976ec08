"""REST routes of documents and domains, under /api/v1/; a door for a command."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from documents.api import DocumentChunks, DocumentContent, DocumentDetail, DocumentList, DocumentReindex
from documents.domains_api import DomainDetail, DomainList
from documents.history_api import DocumentHistoryList, HistoryContent, HistoryList, HistoryRestore
from documents.map_api import KnowledgeMap
from documents.reconcile_door import reconcile_for_command

_DOCUMENT = "api/v1/documents/<int:document_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/documents/", DocumentList.as_view(), name="document-list"),
    path(_DOCUMENT, DocumentDetail.as_view(), name="document-detail"),
    path(f"{_DOCUMENT}content/", DocumentContent.as_view(), name="document-content"),
    path(f"{_DOCUMENT}chunks/", DocumentChunks.as_view(), name="document-chunks"),
    path(f"{_DOCUMENT}reindex/", DocumentReindex.as_view(), name="document-reindex"),
    path(f"{_DOCUMENT}history/", DocumentHistoryList.as_view(), name="document-history"),
    path("api/v1/history/", HistoryList.as_view(), name="history-list"),
    path("api/v1/history/<int:history_id>/content/", HistoryContent.as_view(), name="history-content"),
    path("api/v1/history/<int:history_id>/restore/", HistoryRestore.as_view(), name="history-restore"),
    path("api/v1/domains/", DomainList.as_view(), name="domain-list"),
    path("api/v1/domains/<str:domain_id>/", DomainDetail.as_view(), name="domain-detail"),
    path("api/v1/knowledge-map/", KnowledgeMap.as_view(), name="knowledge-map"),
    path("internal/reconcile/", reconcile_for_command, name="internal-reconcile"),
]
