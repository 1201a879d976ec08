"""An upload's body as it streams in: bounded, and with the file name that the client really sent.

Django cleans file names silently (``../a.md`` becomes ``a.md``); here the name reaches ``documents.names`` as it was,
so that a bad one is refused and not reinterpreted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, cast

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import StopUpload, TemporaryFileUploadHandler
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import DataAndFiles
from rest_framework.parsers import MultiPartParser as RestMultiPartParser

from documents.errors import DocumentError
from documents.storage import too_large


class BoundedUploadHandler(TemporaryFileUploadHandler):
    """Writes to a temporary file and stops as soon as the request's files pass ``UPLOAD_MAX_BYTES``."""

    def __init__(self, request: HttpRequest | None = None) -> None:
        super().__init__(request)
        self.limit = int(settings.UPLOAD_MAX_BYTES)
        self.received = 0
        self.raw_name = ""
        self._opened: list[TemporaryUploadedFile] = []

    @property
    def exceeded(self) -> bool:
        return self.received > self.limit

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._opened.append(self.file)

    def close(self) -> None:
        """Drop the temporary files of a form that is refused."""
        for file in self._opened:
            file.close()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.received += len(raw_data)
        if self.exceeded:
            raise StopUpload(connection_reset=True)  # the rest is not read
        super().receive_data_chunk(raw_data, start)

    def file_complete(self, file_size: int) -> UploadedFile[Any] | None:
        file = cast("TemporaryUploadedFile | None", super().file_complete(file_size))
        if file is not None:
            file.raw_name = self.raw_name  # type: ignore[attr-defined]
        return file


class _RawNameParser(MultiPartParser):
    def sanitize_file_name(self, file_name: str) -> str:
        for handler in self._upload_handlers:  # type: ignore[attr-defined]
            handler.raw_name = file_name
        return "upload"  # never used as a path


def bound_upload(request: HttpRequest) -> None:
    """Have this request's files go through :class:`BoundedUploadHandler`; before its body is read."""
    request.upload_handlers = [BoundedUploadHandler(request)]


def raw_name(file: UploadedFile[Any]) -> str:
    """The file name as the client sent it."""
    return str(getattr(file, "raw_name", file.name or ""))


class DocumentParser(RestMultiPartParser):
    """``multipart/form-data`` of a request that :func:`bound_upload` prepared."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> DataAndFiles[Any, Any]:
        request: Any = (parser_context or {})["request"]
        handler: BoundedUploadHandler = request.upload_handlers[0]
        try:
            return self._parsed(stream, {**request.META, "CONTENT_TYPE": media_type}, handler)
        except Exception:
            handler.close()
            raise

    def _parsed(self, stream: IO[Any], meta: dict[str, Any], handler: BoundedUploadHandler) -> DataAndFiles[Any, Any]:
        try:
            data, files = _RawNameParser(meta, cast(Any, stream), [handler], settings.DEFAULT_CHARSET).parse()
        except MultiPartParserError as fault:
            raise ParseError(f"Multipart form parse error: {fault}") from fault
        if handler.exceeded:
            raise too_large(handler.limit)
        if any("\ufffd" in raw_name(file) for _field, parts in files.lists() for file in parts):
            detail = _("The file name is not in UTF-8: send it in UTF-8, or rename the file.")
            raise DocumentError(detail=detail, code="file_name_not_utf8", field="file")
        return DataAndFiles(data, files)
