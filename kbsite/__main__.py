"""`python -m kbsite`: serve on the HOST and PORT of the settings, as `make run` does."""

from __future__ import annotations

import uvicorn

from kbsite import settings


def main() -> None:
    """One process, until it is told to stop."""
    uvicorn.run(
        "kbsite.asgi:application",
        host=settings.HOST,
        port=settings.PORT,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=8,  # a question that waits for its model does not hold up the stop
    )


if __name__ == "__main__":
    main()
