"""``manage.py scan`` and ``manage.py reindex``: rows only beside a running server, everything without one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from clients.interfaces import ClientError
from clients.registry import get_vector_store
from documents.data_dir import hold_data_dir
from documents.models import ApiDocument, DocumentChunk
from documents.rebuild import request_rebuild_of_all, reset_if_requested
from documents.worker import run_due_jobs
from tests.documents.library import indexed, text, upload, vectors

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_data_dir(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path / "data"


def run(*args: str) -> str:
    out = io.StringIO()
    call_command(*args, stdout=out, stderr=out)
    return out.getvalue()


def states() -> list[str]:
    return list(ApiDocument.objects.order_by("pk").values_list("status", flat=True))


def test_scan_tells_what_it_found_and_what_it_left(knowledge_base: Path) -> None:
    (knowledge_base / "api").mkdir()
    (knowledge_base / "api" / "a.md").write_text(text())
    (knowledge_base / "api" / "bad.md").write_bytes(b"PK\x03\x04" + b"\x00" * 50)
    out = run("scan")
    assert "skipped knowledge_base/api/bad.md:" in out
    assert "2 files: 1 new" in out
    assert states() == ["PENDING"]


def test_scan_dry_run_writes_nothing(knowledge_base: Path) -> None:
    (knowledge_base / "a.md").write_text(text())
    assert "1 new" in run("scan", "--dry-run")
    assert states() == []


def test_scan_yes_needs_prune() -> None:
    with pytest.raises(CommandError, match="--prune"):
        run("scan", "--yes")


def test_scan_prunes_a_mass_disappearance_only_with_yes(knowledge_base: Path) -> None:
    for number in range(10):
        upload(text(f"CODE_{number}"), f"{number}.md")
    for file in (knowledge_base / "payment").iterdir():
        file.unlink()
    assert "scan --prune --yes" in run("scan", "--prune")
    assert set(states()) == {"PENDING"}
    assert "10 removed" in run("scan", "--prune", "--yes")
    assert set(states()) == {"DELETING"}  # the worker finishes them


def test_reindex_without_a_server_does_the_work_itself(knowledge_base: Path) -> None:
    document = indexed(text())
    other = indexed(text("OTHER"), "other.md")
    out = run("reindex", "payment/timeouts.md")
    assert "1 documents are queued." in out
    assert document.file_path in out
    assert other.file_path not in out
    assert states() == ["INDEXED", "INDEXED"]


def test_reindex_beside_a_running_server_writes_rows_only(knowledge_base: Path, settings: Any) -> None:
    document = indexed(text())
    with hold_data_dir(settings.DATA_DIR):
        out = run("reindex", document.file_path)
    assert "The running server makes the vectors." in out
    assert states() == ["PENDING"]


def test_reindex_failed_takes_the_failed_ones(knowledge_base: Path) -> None:
    indexed(text())
    failed = indexed(text("OTHER"), "other.md")
    ApiDocument.objects.filter(pk=failed.pk).update(status="FAILED", status_reason="x")
    assert "1 documents are queued." in run("reindex", "--failed")
    assert states() == ["INDEXED", "INDEXED"]


def test_reindex_of_a_folder_takes_all_below_it(knowledge_base: Path) -> None:
    indexed(text())
    indexed(text("OTHER"), "other.md")
    indexed(text("API"), "x.md", "api")
    assert "2 documents are queued." in run("reindex", "knowledge_base/payment/")


def test_reindex_of_an_unknown_path_says_so() -> None:
    with pytest.raises(CommandError, match="no document at knowledge_base/nowhere"):
        run("reindex", "nowhere")


def test_reindex_says_which_documents_failed(knowledge_base: Path, monkeypatch: Any) -> None:
    indexed(text())

    def down(*_args: Any) -> None:
        raise ClientError("down", code="store_unavailable", retryable=True)

    monkeypatch.setattr(get_vector_store(), "upsert", down)
    with pytest.raises(CommandError, match="failed"):
        run("reindex", "--all")


def test_reindex_all_after_a_change_of_embedder_empties_the_collection(knowledge_base: Path, monkeypatch: Any) -> None:
    document = indexed(text())
    store: Any = get_vector_store()
    identity = store._identity()
    monkeypatch.setattr(store, "_identity", lambda: type(identity)("another", "1", identity.dimension))
    upload(text("OTHER"), "other.md")
    run_due_jobs()
    failed = ApiDocument.objects.get(file_name="other.md")
    assert (failed.status, failed.error_code) == ("FAILED", "collection_mismatch")
    assert "reindex --all" in failed.status_reason
    run("reindex", "--all")
    assert states() == ["INDEXED", "INDEXED"]
    assert sorted(vectors()) == [(document.pk, 1), (failed.pk, 1)]


def test_a_rebuild_with_the_same_embedder_lets_the_old_vectors_answer_meanwhile(knowledge_base: Path) -> None:
    document = indexed(text())
    request_rebuild_of_all()
    assert reset_if_requested()
    document.refresh_from_db()
    assert (document.status, document.indexed_revision) == ("PENDING", 1)
    assert vectors() == {(document.pk, 1): 2}
    assert DocumentChunk.objects.count() == 2
    assert not reset_if_requested()


def test_a_rebuild_waits_for_a_store_that_is_down(knowledge_base: Path, monkeypatch: Any) -> None:
    indexed(text())
    request_rebuild_of_all()

    def down() -> None:
        raise ClientError("down", code="store_unavailable", retryable=True)

    monkeypatch.setattr(get_vector_store(), "open", down)
    assert not reset_if_requested()
    monkeypatch.undo()
    assert reset_if_requested()


def test_a_database_that_fails_is_one_line(monkeypatch: Any) -> None:

    def fail(**_kwargs: Any) -> None:
        raise OperationalError("no such table: api_document")

    monkeypatch.setattr("documents.management.commands.scan.scan", fail)
    with pytest.raises(CommandError, match="migrate"):
        run("scan")
