"""What goes wrong with a language model, told once in our words: a code, whether to try again, and what to do."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator

import httpx2
import openai

from clients.interfaces import ClientError, ClientTimeout, FormatRefused
from clients.llm_providers import Refusal
from clients.llm_stream import SaidError, plain_line
from clients.llm_wire import CutOffError, LateError, UnreadableError
from clients.masking import mask_credentials

TROUBLED = frozenset({"llm_unreachable", "llm_refused_key", "llm_rate_limited", "llm_error", "llm_timeout"})
"""Codes that say something about the endpoint, and not only about one answer."""
LARGEST_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""
LONGEST_ERROR = 5.0
"""Seconds after which no more of it is."""


class _ShortBody(httpx2.SyncByteStream):
    """A body that ends early: after so many bytes, or after so long (each piece has its own read time-out)."""

    def __init__(self, body: httpx2.SyncByteStream) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        size, until = 0, time.monotonic() + LONGEST_ERROR
        for piece in self._body:
            yield piece[: LARGEST_ERROR - size]
            size += len(piece)
            if size >= LARGEST_ERROR or time.monotonic() > until:
                return

    def close(self) -> None:
        self._body.close()


def shorten_error(response: httpx2.Response) -> None:
    """A response hook: the SDK reads the whole body of a response that is no answer, however long that is."""
    if response.status_code >= 300 and isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _ShortBody(response.stream)


def from_any(error: Exception, *, address: str, secret: str) -> ClientError:
    """What went wrong on the way to an answer or within it, as ours. Neither the key nor a password in the address is
    in its message."""
    shown = mask_credentials(address)
    refusal = refusal_of(error)
    if refusal is not None:
        return _from_refusal(refusal, shown, secret)
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        return _late(f"The language model at {shown} did not answer in time.")
    if isinstance(error, LateError):
        return _late(f"The language model at {shown} {error}.")
    if isinstance(error, CutOffError):
        return _cut_off(shown)
    if isinstance(error, UnreadableError):
        return _unreadable(str(error))
    if isinstance(error, openai.APIConnectionError):
        return _unreachable(shown, error.__cause__ or error, secret)
    if isinstance(error, httpx2.HTTPError):
        return _unreachable(shown, error, secret)
    return ClientError(f"The language model at {shown} failed: {_plain(error, secret)}", code="llm_error")


def refusal_of(error: Exception) -> Refusal | None:
    """What the endpoint itself said, by its status or within an answer; None for any other failure."""
    if isinstance(error, SaidError):
        return error.refusal
    if isinstance(error, openai.APIStatusError):
        return Refusal(error.status_code, str(error.param or ""), str(error.code or ""), _said(error.body))
    return None


def format_refused(told: ClientError) -> FormatRefused:
    """The same refusal, as one that another format may get around."""
    return FormatRefused(str(told), code="llm_error", hint="It does not take this response_format.")


def not_set_up(error: Exception, secret: str) -> ClientError:
    """No connection can even be begun: a proxy or a file of certificates in the environment is wrong."""
    certificates = isinstance(error, OSError)
    return ClientError(
        f"The connection to the language model cannot be set up: {_plain(error, secret) or type(error).__name__}",
        code="llm_unreachable",
        hint="Look at SSL_CERT_FILE and SSL_CERT_DIR: they name a file and a folder of certificates (PEM)."
        if certificates
        else "Look at HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY.",
    )


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
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _from_refusal(refusal: Refusal, shown: str, secret: str) -> ClientError:
    status, said = refusal.status, _plain(refusal.said, secret) or "no reason given"
    if status in (401, 403):
        return ClientError(
            f"The language model at {shown} refused the key ({status}): {said}",
            code="llm_refused_key",
            hint="Set OPENAI_API_KEY to a key that this endpoint takes.",
        )
    if status == 407:
        return ClientError(
            f"The proxy on the way to the language model at {shown} asks for a password: {said}",
            code="llm_unreachable",
            hint="Put the user and password into HTTPS_PROXY (http://user:password@host:port).",
        )
    if status == 429:
        out_of_credit = refusal.code == "insufficient_quota"
        return ClientError(
            f"The language model at {shown} takes no more requests for now: {said}",
            code="llm_rate_limited",
            retryable=not out_of_credit,
            hint="The account has no credit left." if out_of_credit else "Try again in a while.",
        )
    answered = f"answered {status}" if status else "answered with an error"
    return ClientError(
        f"The language model at {shown} {answered}: {said}",
        code="llm_error",
        retryable=status == 0 or status >= 500,
        hint=_hint(status),
    )


def _hint(status: int) -> str:
    if status == 404:
        return "Does OPENAI_BASE_URL end in /v1, and does the endpoint have the model OPENAI_MODEL?"
    if 300 <= status < 400:
        return "OPENAI_BASE_URL redirects, and redirects are not followed: set the address that it leads to."
    if status == 0 or status >= 500:
        return "The fault is at the model's end; try again in a while."
    return "The endpoint did not take the request."


def _late(message: str) -> ClientTimeout:
    return ClientTimeout(message, code="llm_timeout", hint="It may be busy, or too slow for the questions asked.")


def _cut_off(shown: str) -> ClientError:
    return ClientError(
        f"The language model at {shown} cut off its answer before the end.",
        code="llm_error",
        retryable=True,
        hint="It, or a proxy on the way to it, closed the connection.",
    )


def _unreadable(why: str) -> ClientError:
    return ClientError(
        f"The language model's answer cannot be read: {why}.",
        code="llm_error",
        retryable=True,
        hint="Does OPENAI_BASE_URL name an OpenAI-compatible endpoint (mostly ending in /v1)?",
    )


def _unreachable(shown: str, error: BaseException, secret: str) -> ClientError:
    reason = _plain(error, secret) or type(error).__name__
    retryable, hint = True, "Is it running, and does OPENAI_BASE_URL (or HTTPS_PROXY, where one is set) name it?"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        retryable = False
        hint = "Where its certificate comes from an authority of your own, SSL_CERT_FILE names that one's file (PEM)."
    elif isinstance(error, httpx2.ProxyError):
        retryable, hint = False, "The proxy named in HTTPS_PROXY or HTTP_PROXY does not let the request through."
    return ClientError(
        f"The language model at {shown} cannot be reached: {reason}",
        code="llm_unreachable",
        retryable=retryable,
        hint=hint,
    )


def _said(body: object) -> str:
    """The server's own words: OpenAI's ``message``, others' plain text."""
    if isinstance(body, dict):
        return str(body.get("message") or body.get("detail") or body)
    return str(body or "")


def _plain(said: object, secret: str) -> str:
    line = plain_line(str(said), LARGEST_ERROR)  # cut after the masking: half a key would not be found
    if secret:
        line = line.replace(secret, "***")
    return mask_credentials(line)[:300]
