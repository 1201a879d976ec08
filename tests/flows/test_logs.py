"""What the log says of a refused visit: one line, while a fault keeps its traceback."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from kbsite.logs import RefusalFilter

PAGE = "/admin/lookup-test/"


@pytest.mark.django_db
def test_a_refused_visit_is_one_line_in_the_log(client: Client, bob: Any, caplog: pytest.LogCaptureFixture) -> None:
    client.force_login(bob)
    assert client.get(PAGE).status_code == 403
    [record] = [one for one in caplog.records if one.name == "django.request"]
    assert record.levelno == logging.WARNING
    assert logging.Formatter().format(record) == f"Forbidden (Permission denied): {PAGE}"


@pytest.mark.parametrize(("raised", "kept"), [(PermissionDenied("no"), False), (ValueError("a fault"), True)])
def test_only_a_refusal_loses_its_traceback(raised: Exception, kept: bool) -> None:
    try:
        raise raised
    except type(raised):
        record = logging.LogRecord("django.request", logging.ERROR, "f.py", 1, "said", None, sys.exc_info())
    assert RefusalFilter().filter(record)
    assert bool(record.exc_info) is kept
    assert ("Traceback" in logging.Formatter().format(record)) is kept
