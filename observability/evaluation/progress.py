"""How far a long step is, told on a stream that people watch: done of all, rate, time left."""

from __future__ import annotations

import time
from typing import TextIO

_EVERY_ON_TERMINAL = 0.5
_EVERY_ELSEWHERE = 15.0


class Progress:
    """One step of ``total`` things. Tells now and then, and once at the end; a stream of None hears nothing."""

    def __init__(self, stream: TextIO | None, what: str, total: int) -> None:
        self._stream = stream
        self._what = what
        self._total = total
        self._done = 0
        self._began = self._told = time.monotonic()
        self._terminal = stream is not None and stream.isatty()

    def add(self, count: int = 1) -> None:
        """So many more are done."""
        self._done += count
        now = time.monotonic()
        every = _EVERY_ON_TERMINAL if self._terminal else _EVERY_ELSEWHERE
        if self._done >= self._total or now - self._told >= every:
            self._told = now
            self._tell(now - self._began)

    def _tell(self, seconds: float) -> None:
        if self._stream is None:
            return
        finished = self._done >= self._total
        rate = self._done / seconds if seconds > 0 else 0.0
        text = f"{self._what}: {self._done} of {self._total}"
        if rate:
            text += f", {rate:,.1f} a second"
            text += f", took {_span(seconds)}" if finished else f", {_span((self._total - self._done) / rate)} left"
        if self._terminal:
            self._stream.write(f"\r\033[K{text}" + ("\n" if finished else ""))
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
