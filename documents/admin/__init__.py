"""The curators' pages: documents, domains, earlier revisions, recorded tool calls, API keys."""

from __future__ import annotations

from django.contrib import admin
from rest_framework_api_key.models import APIKey

from documents.admin.documents import ApiDocumentAdmin
from documents.admin.domains import KnowledgeDomainAdmin
from documents.admin.history import DocumentHistoryAdmin
from documents.admin.keys import ApiKeyAdmin
from documents.admin.records import ToolInvocationAdmin
from documents.models import ApiDocument, ApiKey, DocumentHistory, KnowledgeDomain, ToolInvocation

admin.site.unregister(APIKey)  # the library's own model; ours has scopes and a user
admin.site.register(ApiDocument, ApiDocumentAdmin)
admin.site.register(KnowledgeDomain, KnowledgeDomainAdmin)
admin.site.register(DocumentHistory, DocumentHistoryAdmin)
admin.site.register(ToolInvocation, ToolInvocationAdmin)
admin.site.register(ApiKey, ApiKeyAdmin)
