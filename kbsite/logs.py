"""Log lines: one record, one line, whatever a caller put into it."""

from __future__ import annotations

import logging

from django.core.exceptions import PermissionDenied

from clients.context import request_id

MAX_LINE = 4000
_ESCAPES = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(0x80, 0xA0)] if chr(code) not in "\n\t"}


class RequestIdFilter(logging.Filter):
    """Puts the request's id in front of the message."""

    def filter(self, record: logging.LogRecord) -> bool:
        current = request_id.get()
        record.request_id = f"[{current}] " if current else ""
        return True


class RefusalFilter(logging.Filter):
    """A visit refused for want of a right is no fault: its line stays, the traceback goes."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], PermissionDenied):
            record.exc_info = record.exc_text = None
        return True


class LineFormatter(logging.Formatter):
    """Cuts very long lines and escapes control characters (no terminal codes from a query in somebody's console)."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (its name)
        line = super().formatMessage(record).replace("\n", "\\n").translate(_ESCAPES)
        return line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…"
