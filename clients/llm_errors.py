"""What goes wrong with a language model, told once in our words: a code, whether to try again, and what to do."""

from __future__ import annotations

import email.utils
import time

import httpx2
import openai

from clients.interfaces import ClientError, ClientTimeout
from clients.masking import mask_credentials

TROUBLED = frozenset({"llm_unreachable", "llm_refused_key", "llm_rate_limited", "llm_error", "llm_timeout"})
"""Codes that say something about the endpoint, and not only about one answer."""


def from_openai(error: openai.OpenAIError, *, address: str, secret: str) -> ClientError:
    """The SDK's error as ours. Neither the key nor a password in the address is in its message."""
    shown = mask_credentials(address)
    if isinstance(error, openai.APITimeoutError):
        return _timeout(shown)
    if isinstance(error, openai.APIConnectionError):
        return _unreachable(shown, error.__cause__ or error, secret)
    if isinstance(error, openai.APIStatusError):
        return _from_status(error, shown, secret)
    return ClientError(f"The language model at {shown} failed: {_plain(error, secret)}", code="llm_error")


def from_http(error: Exception, *, address: str, secret: str) -> ClientError:
    """What the connection raised while the answer was read, as ours."""
    shown = mask_credentials(address)
    if isinstance(error, httpx2.TimeoutException):
        return _timeout(shown)
    return _unreachable(shown, error, secret)


def retry_after(error: Exception) -> float:
    """Seconds that the endpoint asks us to wait (a number or a date), 0 where it asks nothing."""
    if not isinstance(error, openai.APIStatusError):
        return 0.0
    value = error.response.headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


def _from_status(error: openai.APIStatusError, shown: str, secret: str) -> ClientError:
    status, said = error.status_code, _plain(_said(error.body), secret) or "no reason given"
    if status in (401, 403):
        return ClientError(
            f"The language model at {shown} refused the key ({status}): {said}",
            code="llm_refused_key",
            hint="Set OPENAI_API_KEY to a key that this endpoint takes.",
        )
    if status == 429:
        out_of_credit = error.code == "insufficient_quota"
        return ClientError(
            f"The language model at {shown} takes no more requests for now: {said}",
            code="llm_rate_limited",
            retryable=not out_of_credit,
            hint="The account has no credit left." if out_of_credit else "Try again in a while.",
        )
    if status == 404:
        hint = "Does OPENAI_BASE_URL end in /v1, and does the endpoint have the model OPENAI_MODEL?"
    elif 300 <= status < 400:
        hint = "OPENAI_BASE_URL redirects, and redirects are not followed: set the address that it leads to."
    elif status >= 500:
        hint = "The fault is at the model's end; try again in a while."
    else:
        hint = "The endpoint did not take the request."
    return ClientError(
        f"The language model at {shown} answered {status}: {said}", code="llm_error", retryable=status >= 500, hint=hint
    )


def _timeout(shown: str) -> ClientTimeout:
    return ClientTimeout(
        f"The language model at {shown} did not answer in time.",
        code="llm_timeout",
        hint="It may be busy, or too slow for the questions asked.",
    )


def _unreachable(shown: str, error: BaseException, secret: str) -> ClientError:
    return ClientError(
        f"The language model at {shown} cannot be reached: {_plain(error, secret) or type(error).__name__}",
        code="llm_unreachable",
        retryable=True,
        hint="Is it running, and does OPENAI_BASE_URL name it?",
    )


def _said(body: object) -> str:
    """The server's own words: OpenAI's ``message``, others' plain text."""
    if isinstance(body, dict):
        return str(body.get("message") or body.get("detail") or body)
    return str(body or "")


def _plain(said: object, secret: str) -> str:
    line = " ".join(str(said).split())
    if secret:
        line = line.replace(secret, "***")
    return mask_credentials(line)[:300]
