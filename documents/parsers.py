"""JSON bodies of the REST doors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class BoundedJSONParser(JSONParser):
    """JSON; what is nested deeper than the reader can follow is malformed and no fault of the site."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return super().parse(stream, media_type, dict(parser_context or {}))
        except RecursionError as fault:
            raise ParseError(_("The request is malformed.")) from fault
