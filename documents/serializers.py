"""What the REST doors of documents and domains take and give, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, ClassVar

from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

from documents.models import ApiDocument, DocumentChunk, KnowledgeDomain

MAX_PAGE_SIZE = 200
ORDERINGS = ("id", "-id", "title", "-title", "updated_at", "-updated_at", "created_at", "-created_at")


class StrictSerializer(serializers.Serializer[Any]):
    """Takes the fields that it names and refuses every other one: nothing misspelt or smuggled passes unseen."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [str(name) for name in data if name not in self.fields]
            if unknown:
                raise ValidationError(
                    {
                        name: [ErrorDetail(str(_("There is no such field here.")), code="unknown_field")]
                        for name in unknown
                    }
                )
        return super().to_internal_value(data)


class StrictCharField(serializers.CharField):
    """Text only: a number or a boolean is a mistake of the caller, not text."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictBooleanField(serializers.BooleanField):
    """``true`` or ``false`` of JSON, nothing that merely looks like it."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class MomentField(serializers.DateTimeField):
    """A date and time that exists in UTC too: the databases keep nothing else."""

    def to_internal_value(self, value: Any) -> Any:
        try:
            return super().to_internal_value(value).astimezone(UTC)
        except OverflowError:
            self.fail("overflow")


def read_query(serializer: type[serializers.Serializer[Any]], query: QueryDict) -> dict[str, Any]:
    """A validated query string. An empty value counts as absent; raises ``ValidationError``."""
    given = {name: query[name] for name in query if query[name] != ""}
    checked = serializer(data=given)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


def read_body(serializer: type[serializers.Serializer[Any]], data: Any) -> dict[str, Any]:
    """A validated body; raises ``ValidationError``."""
    checked = serializer(data=data)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


# ---- In --------------------------------------------------------------------------------------------------------------
class PageQuery(StrictSerializer):
    page = serializers.IntegerField(required=False, default=1, min_value=1, max_value=1_000_000)
    page_size = serializers.IntegerField(required=False, default=50, min_value=1, max_value=MAX_PAGE_SIZE)


class DocumentListQuery(PageQuery):
    category = StrictCharField(required=False, max_length=64)
    status = serializers.ChoiceField(required=False, choices=ApiDocument.Status.choices)
    search = StrictCharField(required=False, max_length=200, help_text=_("Part of the title or of the path."))
    enabled = serializers.BooleanField(required=False)
    updated_since = MomentField(required=False)
    ordering = serializers.ChoiceField(required=False, default="id", choices=ORDERINGS)


class WaitQuery(StrictSerializer):
    wait = serializers.BooleanField(
        required=False, default=False, help_text=_("Answer when the vectors are made, after 60 seconds at most.")
    )


class UploadForm(StrictSerializer):
    file = serializers.FileField(
        allow_empty_file=True,
        help_text=_("One Markdown file."),
        # Also where the name is in another encoding: then its part of the form cannot be read.
        error_messages={"required": _("No file arrived: send it as the part “file”, with its name in UTF-8.")},
    )
    category = StrictCharField(help_text=_("The domain: the folder that the file goes into."))


class DocumentPatch(StrictSerializer):
    enabled = StrictBooleanField(required=False)
    metadata = serializers.DictField(
        required=False, child=serializers.JSONField(allow_null=True), help_text=_("Merged by key; null removes.")
    )
    revision = serializers.IntegerField(
        required=False, min_value=0, help_text=_("The revision that the change is made for; a stale one is a 409.")
    )


class DomainPatch(StrictSerializer):
    description = StrictCharField(required=False, allow_blank=True, max_length=256)
    when_to_retrieve = StrictCharField(required=False, allow_blank=True, max_length=4000)


# ---- Out -------------------------------------------------------------------------------------------------------------
class DocumentSerializer(serializers.ModelSerializer[ApiDocument]):
    metadata = serializers.DictField(read_only=True, allow_null=True)
    generated_fields = serializers.DictField(source="generated", read_only=True)
    uploaded_by = serializers.SlugRelatedField[Any](slug_field="username", read_only=True)

    class Meta:
        model = ApiDocument
        fields: ClassVar = [
            "id",
            "file_path",
            "file_name",
            "category",
            "title",
            "metadata",
            "generated_fields",
            "status",
            "status_reason",
            "enabled",
            "revision",
            "content_hash",
            "size",
            "chunk_count",
            "uploaded_by",
            "created_at",
            "updated_at",
            "indexed_at",
        ]
        read_only_fields: ClassVar = fields


class ChunkSerializer(serializers.ModelSerializer[DocumentChunk]):
    index = serializers.IntegerField(source="number", read_only=True)
    heading_path = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = DocumentChunk
        fields: ClassVar = ["index", "heading_path", "text"]


class DomainSerializer(serializers.ModelSerializer[KnowledgeDomain]):
    # Rows come from ``domains.with_counts``: the kept count may be some seconds behind.
    document_count = serializers.IntegerField(source="counted", read_only=True)

    class Meta:
        model = KnowledgeDomain
        fields: ClassVar = [
            "domain_id",
            "description",
            "description_source",
            "when_to_retrieve",
            "when_to_retrieve_source",
            "document_count",
            "created_at",
            "updated_at",
        ]
        read_only_fields: ClassVar = fields
