"""The OpenAPI description: who may call, and the one shape of every error, added to what the views say."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from documents.problem_details import CONTENT_TYPE

_PROBLEM = {
    "type": "object",
    "description": "RFC 9457. Clients key on `code`; `detail` is translated.",
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "code": {"type": "string"}, "detail": {"type": "string"}},
                "required": ["field", "code", "detail"],
            },
        },
        "request_id": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code", "errors", "request_id"],
}
_ERROR = {
    "description": "Any error.",
    "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "documents.access.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "Made in the admin, or by `create_api_key`."}


class BrowserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "documents.access.BrowserAuthentication"
    name = "browserSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


class OperationSchema(AutoSchema):
    """Names a whole collection's ``GET`` by ``list``, though it answers with a page and not with an array."""

    def get_operation_id(self) -> str:
        name: str = super().get_operation_id()
        if self.method == "GET" and "{" not in self.path:
            return f"{name.removesuffix('_retrieve')}_list"
        return name


class Generator(SchemaGenerator):
    """Adds the problem shape to every operation."""

    def get_schema(self, request: Any = None, public: bool = False) -> dict[str, Any]:
        schema: dict[str, Any] = super().get_schema(request=request, public=public)  # type: ignore[no-untyped-call]
        schema.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"]["default"] = _ERROR
        return schema
