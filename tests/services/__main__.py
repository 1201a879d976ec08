"""`make services-test`: the suite once more on MariaDB, then what needs services of its own.

It starts nothing, and says what it left out and why. Where CI_EXPECTS_SERVICES names a service that cannot be used, it
fails: a check that is silently left out is worth nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.services.databases import drop_test_databases, fresh_name
from tests.services.reachable import EXPECTED, MARIADB, SERVICES, expected

ROOT = Path(__file__).resolve().parents[2]
# They ask no database, or bring a site with a database of its own: once, in `make test`, is enough.
WITHOUT_DATABASE = (
    "tests/services",
    "tests/e2e",
    "tests/bge_m3",
    "tests/bench",
    "tests/clients",
    "tests/retrieval",
    "tests/flows/test_process.py",
    "tests/flows/test_settings.py",
    "tests/reliability/test_kills.py",
)


def main() -> int:
    """The exit code: 0 where all that could run is green, and nothing that was promised is missing."""
    missing = {service.name: reason for service in SERVICES if (reason := service.missing())}
    for service in SERVICES:
        _say(missing.get(service.name) or f"{service.name}: {_shown(service.url)}")
    broken = sorted(expected() & missing.keys())
    if broken:
        _say(f"{EXPECTED} promises {', '.join(broken)}: these tests must not be left out.")
        return 1
    codes = [_suite_on_mariadb()] if MARIADB.name not in missing else []
    _say("What needs services of its own:")
    codes.append(_pytest("tests/services", "-p", "no:randomly", "-rs"))
    for reason in missing.values():
        _say(f"Left out: {reason}")
    return max(codes)


def _suite_on_mariadb() -> int:
    _say("The suite on MariaDB; what asks no database is left to `make test`:")
    name = fresh_name()
    ignored = [f"--ignore={path}" for path in WITHOUT_DATABASE]
    parallel = ["-n", os.environ.get("XDIST", "3"), "--dist", "loadgroup"]
    try:
        return _pytest("tests", *parallel, *ignored, KBSITE_TEST_DATABASE_URL=f"{MARIADB.url.rstrip('/')}/{name}")
    finally:
        drop_test_databases(MARIADB.url, of_run=name)


def _pytest(*arguments: str, **variables: str) -> int:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env={**os.environ, **variables}, check=False
    )
    _say(f"{time.monotonic() - began:.0f} s")
    return done.returncode


def _shown(url: str) -> str:
    """Where it is, without who one is there."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}" if parts.port else f"{parts.scheme}://{parts.hostname}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
