"""A rest for the lanes of this process while the model's endpoint is in trouble, so that documents don't fail by turns.

5 seconds, doubled to 5 minutes with each trouble that follows a rest; a success, or a person's retry, ends it. The
retry is heard by every process that shares the cache: the page that it is asked on mostly runs in another one.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid

from django.core.cache import cache

from clients.interfaces import ClientError
from clients.llm_errors import TROUBLED

log = logging.getLogger("documents.llm_lane")
FIRST_SECONDS = 5.0
LONGEST_SECONDS = 300.0
_WISH = "documents.llm_pause.wish"


class Pause:
    """When the lanes may ask again, and why they rest. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._until = 0.0
        self._reason = ""
        self._heard: str | None = None

    def note(self, fault: Exception) -> None:
        """Begin a rest where ``fault`` is the endpoint's; lanes that fail during one rest do not make it longer."""
        if not isinstance(fault, ClientError) or fault.code not in TROUBLED:
            return
        wish = cache.get(_WISH)
        with self._lock:
            now = time.monotonic()
            self._reason = f"{fault} {fault.hint}".strip()
            if now < self._until:
                return
            self._seconds = min(max(2 * self._seconds, FIRST_SECONDS), LONGEST_SECONDS)
            self._until = now + self._seconds
            self._heard = wish
        # Degradation point: documents are found and answer; what the model should write of them waits.
        log.warning("the language model is in trouble; nothing is asked for %.0f s: %s", self._seconds, fault)

    def end(self) -> None:
        """The endpoint answers."""
        with self._lock:
            self._seconds = self._until = 0.0
            self._reason = ""

    def wish(self) -> None:
        """A person wants it tried at once: a rest that some process has begun by now ends."""
        cache.set(_WISH, uuid.uuid4().hex, LONGEST_SECONDS)
        self.end()

    def resting(self) -> bool:
        """Whether nothing is to be asked now."""
        if time.monotonic() >= self._until:
            return False
        wish = cache.get(_WISH)
        if wish is None or wish == self._heard:
            return True
        self.end()
        return False

    @property
    def reason(self) -> str:
        """Why the last request failed, "" since one succeeded."""
        return self._reason


pause = Pause()
