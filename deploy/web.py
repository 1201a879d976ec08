"""Settings of gunicorn for the web processes of a production site: `python -m gunicorn -c deploy/web.py`.

An option on the command line goes before the one here: `-w 4` for four processes.
"""

from __future__ import annotations

from kbsite import settings

wsgi_app = "kbsite.asgi:application"
# gunicorn's own worker for ASGI: it starts and stops what kbsite runs beside the requests (the lifespan).
worker_class = "asgi"
asgi_lifespan = "on"
workers = 2
bind = f"{settings.HOST}:{settings.PORT}"
# Each process loads the application itself: the embedding model must never be loaded before a fork.
preload_app = False

# A process whose event loop hangs this long is replaced. Requests work in threads and may take longer: an answer that a
# model writes takes a minute, and streams.
timeout = 30
# At a stop: no new requests, and this long for those that run. Shorter than the patience of systemd and of Docker.
graceful_timeout = 25

# The line of a request: without its query string, which may hold what somebody searched for.
accesslog = "-"
access_log_format = '%(h)s "%(m)s %(U)s" %(s)s %(B)s bytes %(M)s ms'
control_socket_disable = True  # nothing here uses it, and a read-only file system has no place for it
