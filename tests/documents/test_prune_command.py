"""``manage.py prune``: earlier revisions of some age go, recorded calls only where that is asked for."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from documents.models import DocumentHistory, ToolInvocation
from tests.documents.library import files, text, upload

pytestmark = pytest.mark.django_db


def run(*args: str) -> str:
    out = io.StringIO()
    call_command("prune", *args, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def _aged(knowledge_base: Path) -> None:
    """Revision 1 is ten days old, revision 2 is fresh; so are two calls."""
    for keyword in ("ONE", "TWO", "THREE"):
        upload(text(keyword))
    then = timezone.now() - timedelta(days=10)
    DocumentHistory.objects.filter(revision=1).update(created_at=then)
    for _number in range(2):
        call = ToolInvocation.objects.create(channel="api", tool_name="lookup_knowledge")
    ToolInvocation.objects.filter(pk=call.pk).update(created_at=then)


@pytest.mark.usefixtures("_aged")
def test_what_is_older_goes_and_is_named(knowledge_base: Path) -> None:
    assert "0 earlier revisions older than 30 days" in run()
    out = run("--days", "9")
    assert "knowledge_base/payment/timeouts.md revision 1 (replaced" in out
    assert list(DocumentHistory.objects.values_list("revision", flat=True)) == [2]
    assert len([name for name in files(knowledge_base) if name.startswith(".history")]) == 1
    assert ToolInvocation.objects.count() == 2


@pytest.mark.usefixtures("_aged")
def test_calls_go_only_when_asked_and_nothing_in_a_dry_run() -> None:
    assert "would go" in run("--days", "9", "--calls", "--dry-run")
    assert (DocumentHistory.objects.count(), ToolInvocation.objects.count()) == (2, 2)
    assert "1 recorded calls" in run("--days", "9", "--calls")
    assert (DocumentHistory.objects.count(), ToolInvocation.objects.count()) == (1, 1)


@pytest.mark.parametrize("days", ["-1", "40000"])
def test_impossible_days_are_refused(days: str) -> None:
    with pytest.raises(CommandError, match="--days"):
        run(f"--days={days}")
