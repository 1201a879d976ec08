"""Numbered pages: ``{count, next, previous, results}``."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param


def paged(
    request: Request,
    rows: QuerySet[Any],
    serializer: type[serializers.BaseSerializer[Any]],
    *,
    page: int,
    page_size: int,
) -> Response:
    """One page of ordered ``rows``; a page past the last one is a 404, except the first of nothing."""
    pages = Paginator(rows, page_size)
    if page > pages.num_pages:
        raise NotFound(_("There are only %(count)s pages.") % {"count": pages.num_pages})
    current = pages.page(page)
    address = request.build_absolute_uri()
    return Response(
        {
            "count": pages.count,
            "next": replace_query_param(address, "page", page + 1) if current.has_next() else None,
            "previous": replace_query_param(address, "page", page - 1) if current.has_previous() else None,
            "results": serializer(current.object_list, many=True).data,
        }
    )


def page_of(serializer: type[serializers.BaseSerializer[Any]], name: str) -> serializers.Serializer[Any]:
    """The shape of such a page, for the schema."""
    return inline_serializer(
        name=name,
        fields={
            "count": serializers.IntegerField(),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
            "results": serializer(many=True),
        },
    )
