"""Addresses as they may be shown: in messages, logs and the health page, never with a password in them."""

from __future__ import annotations

import re

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,31}://)(?P<credentials>[^\s/?#]*@)?(?P<rest>[^\s?]*)(?P<query>\?\S*)?"
)


def mask_credentials(text: str) -> str:
    """The same text; in every URL in it ``user:password@`` is replaced by ``***@``, and a query string by ``?***``."""
    return _URL.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    credentials = "***@" if found["credentials"] else ""
    query = "?***" if found["query"] else ""
    return f"{found['scheme']}{credentials}{found['rest']}{query}"
