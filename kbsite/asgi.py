"""The ASGI application: Django, and a lifespan that starts and stops what runs beside the requests."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

import django

from kbsite.body_limit import Application, BodyLimit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbsite.settings")
# WhiteNoise hands out open files; Django reads them in a thread, as it should, and says so for each of them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
django.setup()

from kbsite.handler import ThreadedHandler  # noqa: E402 (needs the app registry)
from kbsite.startup import StartupRefused, start_site, stop_site  # noqa: E402 (as above)

django_application = BodyLimit(cast(Application, ThreadedHandler()))

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def application(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer lifespan messages ourselves and hand everything else to Django."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    else:
        await django_application(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    await receive()
    try:
        await asyncio.to_thread(start_site)
    except StartupRefused as refusal:
        sys.stderr.write(f"kbsite cannot start: {refusal}\n")
        await send({"type": "lifespan.startup.failed", "message": ""})
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await asyncio.to_thread(stop_site)
    await send({"type": "lifespan.shutdown.complete"})
