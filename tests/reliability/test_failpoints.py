"""Failpoints are named, each stands somewhere, and a site refuses to start with them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from bench.reliability.kills import AT_START, IN_TRAFFIC
from bench.site_process import ROOT, SiteProcess
from documents import failpoints
from documents.failpoints import PLACES, failpoint

CALL = re.compile(r'failpoint\("([a-z_.]+)"\)')
NEEDS_A_MODEL = {"enrichment.before_commit"}
FORCED_ONLY = {"scan.began", "scan.read"}


def test_each_named_place_stands_in_the_code_once() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "documents").glob("*.py")))
    called = CALL.findall(source)
    # Of a light pass and of the worker: the same border in two places.
    assert sorted(set(called)) == sorted(place for place in PLACES if not place.startswith("reconcile."))
    assert [place for place in set(called) if called.count(place) > 1] in ([], ["sweep.published"])


def test_the_driver_kills_at_each_place_that_traffic_reaches() -> None:
    assert {*IN_TRAFFIC, *AT_START} == PLACES - NEEDS_A_MODEL - FORCED_ONLY


def test_nothing_happens_where_none_is_armed() -> None:
    failpoint("upload.after_commit")
    failpoint("no such place")


def test_a_full_disk_is_met_once(tmp_path: Path) -> None:
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "publish.renamed").write_text("full")
        with pytest.raises(OSError, match="No space left"):
            failpoint("publish.renamed")
        failpoint("publish.renamed")
    finally:
        failpoints.arm(None)


def test_a_place_that_nobody_named_is_refused(tmp_path: Path) -> None:
    failpoints.arm(tmp_path)
    try:
        with pytest.raises(ImproperlyConfigured, match="PLACES"):
            failpoint("no such place")
    finally:
        failpoints.arm(None)


def test_settings_that_do_not_allow_them_refuse(settings: Any, tmp_path: Path) -> None:
    settings.FAILPOINTS_ALLOWED = False
    with pytest.raises(ImproperlyConfigured, match=r"KBSITE_FAILPOINTS is set: .* unset it"):
        failpoints.arm(tmp_path)


@pytest.mark.parametrize("command", [["manage.py", "check"], ["-m", "kbsite"]])
def test_a_site_does_not_start_with_them(command: list[str], tmp_path: Path) -> None:
    site = SiteProcess(tmp_path, KBSITE_FAILPOINTS=str(tmp_path))
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=site.environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "KBSITE_FAILPOINTS is set" in done.stderr.splitlines()[-1]
