"""``Idempotency-Key``: the same call sent twice is done once, and answered twice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.core.cache import cache
from django.utils.translation import gettext as _
from rest_framework.response import Response

from documents.errors import DocumentError

HEADER = "Idempotency-Key"
KEPT_SECONDS = 24 * 3600
# Longer than an upload that waits for its vectors; a process that died does not block its key for longer.
BUSY_SECONDS = 120
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def answer_once(*, key: str | None, principal: str, fingerprint: str, answer: Callable[[], Response]) -> Response:
    """``answer()``, or what it answered to this ``principal`` and ``key`` within the last 24 hours.

    Only answers of success are kept. ``fingerprint`` tells calls apart: the same key with another content is refused,
    and so is a second call while the first is still on its way (``DocumentError``, 409).
    """
    if key is None:
        return answer()
    if not _KEY.fullmatch(key):
        detail = _("An idempotency key has 1 to 255 visible ASCII characters.")
        raise DocumentError(detail, code="bad_idempotency_key", field=HEADER)
    name = "idempotency:" + hashlib.sha256(f"{principal}\n{key}".encode()).hexdigest()
    kept = cache.get(name)
    if kept is not None:
        return _replay(kept, fingerprint)
    if not cache.add(f"{name}:busy", 1, BUSY_SECONDS):
        detail = _("The first call with this idempotency key is still being answered.")
        raise DocumentError(detail, code="idempotency_key_busy", field=HEADER, status=HTTPStatus.CONFLICT)
    try:
        kept = cache.get(name)
        if kept is not None:  # the first call ended between our look and our turn
            return _replay(kept, fingerprint)
        response = answer()
        cache.set(name, _to_keep(response, fingerprint), KEPT_SECONDS)
    finally:
        cache.delete(f"{name}:busy")
    return response


def _to_keep(response: Response, fingerprint: str) -> dict[str, Any]:
    headers = {"Location": response["Location"]} if "Location" in response else {}
    return {"fingerprint": fingerprint, "status": response.status_code, "data": response.data, "headers": headers}


def _replay(kept: dict[str, Any], fingerprint: str) -> Response:
    if kept["fingerprint"] != fingerprint:
        detail = _("This idempotency key was used for another file or category; take a new one.")
        raise DocumentError(detail, code="idempotency_key_reused", field=HEADER, status=HTTPStatus.CONFLICT)
    return Response(kept["data"], status=kept["status"], headers={**kept["headers"], "Idempotent-Replayed": "true"})
