"""How tests knock at the doors: clients with a key of given scopes, uploads, signed-in browsers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from documents.models import ApiKey

DOCUMENTS = "/api/v1/documents/"
MARKDOWN = "---\ntitle: Payment time-outs\nkeywords: [ERR_TIMEOUT, 支付网关]\n---\n# Time-outs\n\nRaise the limit.\n"


def make_key(*scopes: str, user: Any = None, days: float | None = None) -> tuple[ApiKey, str]:
    """A key's row and its text."""
    expiry = timezone.now() + timedelta(days=days) if days is not None else None
    row, text = ApiKey.objects.create_key(name="test", scopes=" ".join(scopes), user=user, expiry_date=expiry)
    return cast(ApiKey, row), text


def with_key(text: str, **options: Any) -> APIClient:
    """A program that sends this key."""
    client = APIClient(**options)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def program(*scopes: str, user: Any = None, **options: Any) -> APIClient:
    """A program with a fresh key of these scopes."""
    return with_key(make_key(*scopes, user=user)[1], **options)


def browser(user: Any) -> Client:
    """A signed-in browser, held to CSRF as a real one is."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client


def upload(
    client: Any,
    *,
    name: str = "payment.md",
    category: str = "payment",
    text: str | bytes = MARKDOWN,
    query: str = "",
    **headers: str,
) -> Any:
    """``POST /documents/`` with one file."""
    data = text.encode() if isinstance(text, str) else text
    form = {"file": SimpleUploadedFile(name, data), "category": category}
    return client.post(DOCUMENTS + query, form, format="multipart", headers=headers)
