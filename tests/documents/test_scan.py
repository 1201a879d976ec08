"""The scan: what is adopted, hidden, moved and refused, and what it never does (DOC-7, DOC-8)."""

from __future__ import annotations

import logging
import os
import unicodedata
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from documents import scan as scan_module
from documents.disk_changes import read_found
from documents.errors import DocumentError
from documents.models import ApiDocument, DocumentHistory, KnowledgeDomain
from documents.region import Region
from documents.scan import scan, scan_part, scan_state
from documents.services import delete_document, edit_metadata, read_content
from documents.source import read_document
from documents.worker import run_due_jobs
from tests.documents.library import files, indexed, text, upload, vectors

pytestmark = pytest.mark.django_db
OLD = text("OLD_CODE", "old text\n")
NEW = text("NEW_CODE", "new text\n")


def put(base: Path, path: str, content: str | bytes = OLD) -> Path:
    file = base / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def paths() -> list[str]:
    return sorted(ApiDocument.objects.values_list("file_path", flat=True))


def hidden() -> list[str]:
    return sorted(ApiDocument.objects.filter(missing_since__isnull=False).values_list("file_name", flat=True))


def test_files_are_adopted_in_place_and_found_at_once(knowledge_base: Path) -> None:
    put(knowledge_base, "payment/a.md")
    put(knowledge_base, "payment/v2/b.MD", NEW)
    put(knowledge_base, "c.md", "# Root\n\ntext\n")
    before = files(knowledge_base)
    report = scan()
    assert (report.files, report.new, report.skipped) == (3, 3, [])
    assert paths() == ["knowledge_base/c.md", "knowledge_base/payment/a.md", "knowledge_base/payment/v2/b.MD"]
    row = ApiDocument.objects.get(file_name="b.MD")
    assert (row.category, row.title, row.status) == ("payment", "Payment time-outs", "PENDING")
    assert (row.revision, row.published_revision) == (1, 1)
    assert ApiDocument.objects.get(file_name="c.md").category == "uncategorised"
    assert files(knowledge_base) == before  # no staging, nothing moved
    run_due_jobs()
    assert set(ApiDocument.objects.values_list("status", flat=True)) == {"INDEXED"}
    counts = dict(KnowledgeDomain.objects.values_list("domain_id", "document_count"))
    assert counts == {"payment": 2, "uncategorised": 1}


def test_a_second_scan_changes_nothing(knowledge_base: Path) -> None:
    put(knowledge_base, "payment/a.md")
    scan()
    before = list(ApiDocument.objects.values())
    report = scan()
    assert (report.new, report.changed, report.vanished, report.moved, report.reappeared) == (0, 0, 0, 0, 0)
    assert list(ApiDocument.objects.values()) == before


def test_an_edited_file_is_a_new_revision(knowledge_base: Path) -> None:
    document = indexed(OLD)
    put(knowledge_base, "payment/timeouts.md", NEW)
    assert scan().changed == 1
    document.refresh_from_db()
    assert (document.revision, document.published_revision, document.status) == (2, 2, "PENDING")
    assert document.metadata is not None
    assert document.metadata["keywords"] == ["NEW_CODE"]
    assert not DocumentHistory.objects.exists()
    run_due_jobs()
    assert vectors() == {(document.pk, 2): 1}


def test_an_edit_of_the_same_length_is_seen(knowledge_base: Path) -> None:
    document = upload(OLD).document
    put(knowledge_base, "payment/timeouts.md", OLD.replace("old text", "new text"))
    assert scan().changed == 1
    document.refresh_from_db()
    assert document.revision == 2


def test_an_edit_that_is_no_document_any_more_is_failed_with_the_reason(knowledge_base: Path) -> None:
    document = indexed(OLD)
    put(knowledge_base, "payment/timeouts.md", b"PK\x03\x04" + b"\x00" * 50)
    assert scan().changed == 1
    document.refresh_from_db()
    assert (document.status, document.error_code, document.metadata) == ("FAILED", "unreadable_text", None)
    assert "ZIP" in document.status_reason
    assert scan().changed == 0
    put(knowledge_base, "payment/timeouts.md", NEW)
    assert scan().changed == 1
    document.refresh_from_db()
    assert (document.status, document.revision) == ("PENDING", 3)


def test_a_vanished_file_hides_its_document_and_its_return_shows_it(knowledge_base: Path) -> None:
    document = indexed(OLD)
    file = knowledge_base / "payment" / "timeouts.md"
    file.unlink()
    report = scan()
    assert (report.vanished, report.held_back) == (1, 0)
    document.refresh_from_db()
    assert (document.status, document.status_reason) == ("INDEXED", "file missing")
    assert hidden() == ["timeouts.md"]
    assert scan().vanished == 0
    file.write_text(OLD)
    assert scan().reappeared == 1
    document.refresh_from_db()
    assert (document.status, document.status_reason, document.revision) == ("INDEXED", "", 1)
    assert hidden() == []


def test_a_file_that_comes_back_changed_is_a_new_revision(knowledge_base: Path) -> None:
    document = indexed(OLD)
    file = knowledge_base / "payment" / "timeouts.md"
    file.unlink()
    scan()
    file.write_text(NEW)
    assert scan().reappeared == 1
    document.refresh_from_db()
    assert (document.revision, document.missing_since, document.status) == (2, None, "PENDING")


def test_prune_removes_what_is_missing(knowledge_base: Path) -> None:
    document = indexed(OLD)
    stays = indexed(NEW, "stays.md")
    (knowledge_base / "payment" / "timeouts.md").unlink()
    report = scan(prune=True)
    assert (report.vanished, report.pruned) == (1, 1)
    run_due_jobs()
    assert list(ApiDocument.objects.values_list("pk", flat=True)) == [stays.pk]
    assert vectors() == {(stays.pk, 1): 1}
    assert document.pk != stays.pk


def test_a_moved_file_keeps_its_row(knowledge_base: Path) -> None:
    document = indexed(OLD)
    put(knowledge_base, "payment/deep/renamed.md", OLD)
    (knowledge_base / "payment" / "timeouts.md").unlink()
    report = scan()
    assert (report.moved, report.new, report.vanished) == (1, 0, 0)
    document.refresh_from_db()
    assert document.file_path == "knowledge_base/payment/deep/renamed.md"
    assert (document.file_name, document.revision, document.status) == ("renamed.md", 1, "INDEXED")
    assert read_content(document_id=document.pk) == OLD.encode()
    assert scan().moved == 0


def test_a_move_to_another_domain_makes_the_vectors_anew(knowledge_base: Path) -> None:
    document = indexed(OLD)
    put(knowledge_base, "api/timeouts.md", OLD)
    (knowledge_base / "payment" / "timeouts.md").unlink()
    assert scan().moved == 1
    document.refresh_from_db()
    assert (document.category, document.status, document.indexed_revision) == ("api", "PENDING", 1)
    run_due_jobs()
    counts = dict(KnowledgeDomain.objects.values_list("domain_id", "document_count"))
    assert counts == {"api": 1, "payment": 0}


def test_a_whole_folder_that_is_renamed_is_moves_and_no_disappearance(knowledge_base: Path) -> None:
    for number in range(12):
        upload(text(f"CODE_{number}"), f"{number}.md", "old")
    (knowledge_base / "old").rename(knowledge_base / "new")
    report = scan()
    assert (report.moved, report.vanished, report.held_back) == (12, 0, 0)
    assert set(ApiDocument.objects.values_list("category", flat=True)) == {"new"}


def test_copies_with_the_same_bytes_are_not_taken_for_moves(knowledge_base: Path) -> None:
    first, second = upload(OLD, "a.md").document, upload(OLD, "b.md").document
    put(knowledge_base, "payment/c.md", OLD)
    (knowledge_base / "payment" / "a.md").unlink()
    (knowledge_base / "payment" / "b.md").unlink()
    report = scan()
    assert (report.moved, report.new, report.vanished) == (0, 1, 2)
    assert {first.pk, second.pk} < set(ApiDocument.objects.values_list("pk", flat=True))


def test_a_rename_of_case_alone_keeps_the_row(knowledge_base: Path) -> None:
    document = upload(OLD, "readme.md").document
    (knowledge_base / "payment" / "readme.md").rename(knowledge_base / "payment" / "README.md")
    report = scan()
    assert (report.moved, report.new, report.vanished) == (1, 0, 0)
    document.refresh_from_db()
    assert document.file_name == "README.md"


def test_most_documents_vanishing_at_once_hides_nothing_until_it_is_confirmed(knowledge_base: Path) -> None:
    for number in range(10):
        upload(text(f"CODE_{number}"), f"{number}.md")
    for number in range(6):
        (knowledge_base / "payment" / f"{number}.md").unlink()
    report = scan()
    assert (report.vanished, report.held_back) == (0, 6)
    assert hidden() == []
    state = scan_state()
    assert state.status == "degraded"
    assert "scan --prune --yes" in state.hint
    assert scan(prune=True).pruned == 0  # not without the confirmation
    confirmed = scan(prune=True, confirmed=True)
    assert (confirmed.vanished, confirmed.pruned, confirmed.held_back) == (6, 6, 0)
    run_due_jobs()
    assert ApiDocument.objects.count() == 4
    assert scan_state().status == "ok"


def test_half_of_them_or_a_few_of_a_small_store_are_hidden(knowledge_base: Path) -> None:
    for number in range(10):
        upload(text(f"CODE_{number}"), f"{number}.md")
    for number in range(5):
        (knowledge_base / "payment" / f"{number}.md").unlink()
    assert scan().vanished == 5
    assert scan_state().status == "ok"


def test_nine_documents_may_all_vanish(knowledge_base: Path) -> None:
    for number in range(9):
        upload(text(f"CODE_{number}"), f"{number}.md")
        (knowledge_base / "payment" / f"{number}.md").unlink()
    assert scan().vanished == 9


def test_files_that_are_back_end_the_warning(knowledge_base: Path) -> None:
    for number in range(10):
        upload(text(f"CODE_{number}"), f"{number}.md")
    (knowledge_base / "payment").rename(knowledge_base / ".away")
    assert scan().held_back == 10
    (knowledge_base / ".away").rename(knowledge_base / "payment")
    assert scan().held_back == 0
    assert scan_state().status == "ok"


def test_a_missing_folder_hides_nothing_while_there_are_documents(knowledge_base: Path) -> None:
    upload(OLD)
    knowledge_base.rename(knowledge_base.with_name("unmounted"))
    report = scan(prune=True)
    assert report.folder_missing
    assert not knowledge_base.exists()  # not made: the disk may come back
    assert hidden() == []
    assert scan_state().status == "degraded"
    knowledge_base.with_name("unmounted").rename(knowledge_base)
    assert not scan().folder_missing
    assert scan_state().status == "ok"


def test_a_missing_folder_is_made_on_a_first_start(knowledge_base: Path, caplog: pytest.LogCaptureFixture) -> None:
    knowledge_base.rmdir()
    with caplog.at_level(logging.INFO):
        report = scan()
    assert knowledge_base.is_dir()
    assert (report.folder_missing, report.files) == (False, 0)
    assert "is made" in caplog.text


def test_dot_folders_other_files_and_hidden_names_are_not_taken(knowledge_base: Path) -> None:
    put(knowledge_base, ".git/readme.md")
    put(knowledge_base, ".staging/1.1")
    put(knowledge_base, ".history/x.md")
    put(knowledge_base, "payment/.draft.md")
    put(knowledge_base, "payment/notes.txt")
    report = scan()
    assert (report.files, report.new, report.skipped) == (0, 0, [])


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("uncategorised/a.md", OLD, "uncategorised"),
        ("a\nb/c.md", OLD, "control"),
        ("payment/nul.md", OLD, "reserved"),
        ("payment/" + "x" * 201 + ".md", OLD, "characters before"),
        ("payment/zip.md", b"PK\x03\x04" + b"\x00" * 50, "ZIP"),
        ("payment/empty.md", b" \n", "empty"),
        ("payment/large.md", b"x" * 2_000, "larger"),
    ],
)
def test_what_cannot_be_a_document_is_skipped_with_the_reason(
    knowledge_base: Path, settings: Any, caplog: pytest.LogCaptureFixture, path: str, content: str | bytes, reason: str
) -> None:
    settings.UPLOAD_MAX_BYTES = 1_500
    put(knowledge_base, path, content)
    put(knowledge_base, "payment/good.md", NEW)
    report = scan()
    assert paths() == ["knowledge_base/payment/good.md"]
    assert len(report.skipped) == 1
    assert reason in report.skipped[0][1]
    assert "\n" not in report.skipped[0][0]
    assert [record.levelname for record in caplog.records if "not taken" in record.getMessage()] == ["WARNING"]


def test_links_that_leave_the_folder_are_refused(knowledge_base: Path, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "secret.md", "# secret\n")
    (knowledge_base / "payment").mkdir()
    (knowledge_base / "payment" / "link.md").symlink_to(outside)
    (knowledge_base / "linked").symlink_to(outside.parent)
    (knowledge_base / "loop").symlink_to(knowledge_base)
    report = scan()
    assert ApiDocument.objects.count() == 0
    assert len(report.skipped) == 3


def test_twins_by_case_on_the_disk_are_two_documents(knowledge_base: Path) -> None:
    put(knowledge_base, "payment/B.md")
    put(knowledge_base, "payment/b.md", NEW)
    report = scan()
    assert (report.new, report.skipped) == (2, [])
    assert paths() == ["knowledge_base/payment/B.md", "knowledge_base/payment/b.md"]
    assert [(ApiDocument.objects.get(file_path=path).metadata or {})["keywords"] for path in paths()] == [
        ["OLD_CODE"], ["NEW_CODE"],
    ]  # fmt: skip
    again = scan()
    assert (again.new, again.changed, again.moved, again.vanished, again.skipped) == (0, 0, 0, 0, [])
    run_due_jobs()
    assert set(ApiDocument.objects.values_list("status", flat=True)) == {"INDEXED"}


def test_a_twin_on_the_disk_joins_the_document_that_has_a_row(knowledge_base: Path) -> None:
    document = upload(OLD, "b.md").document
    put(knowledge_base, "payment/B.md", NEW)
    assert scan().new == 1
    document.refresh_from_db()
    assert (document.file_path, document.revision) == ("knowledge_base/payment/b.md", 1)


def twins(base: Path) -> tuple[ApiDocument, ApiDocument]:
    """``B.md`` and ``b.md``, adopted."""
    put(base, "payment/B.md")
    put(base, "payment/b.md", NEW)
    scan()
    first, second = (ApiDocument.objects.get(file_name=name) for name in ("B.md", "b.md"))
    return first, second


@pytest.mark.parametrize("name", ["B.md", "b.md"])
def test_each_of_twins_is_replaced_read_and_deleted_by_its_own_spelling(knowledge_base: Path, name: str) -> None:
    by_name = {one.file_name: one for one in twins(knowledge_base)}
    mine, other = by_name[name], by_name["B.md" if name == "b.md" else "b.md"]
    former = read_content(document_id=other.pk)
    outcome = upload(text("THIRD_CODE", "third text\n"), name)
    assert (outcome.document.pk, outcome.created) == (mine.pk, False)
    assert upload(text("THIRD_CODE", "third text\n"), name).unchanged
    edited = edit_metadata(document_id=mine.pk, changes={"title": "Mine"}, user=None)
    assert (edited.pk, edited.title) == (mine.pk, "Mine")
    assert (read_document(mine.file_path), read_document(other.file_path)) == (
        "third text\n", "old text\n" if name == "b.md" else "new text\n",
    )  # fmt: skip
    assert read_content(document_id=other.pk) == former
    delete_document(document_id=mine.pk, user=None)
    run_due_jobs()
    assert paths() == [other.file_path]
    assert not (knowledge_base / "payment" / name).exists()
    assert (knowledge_base / "payment" / other.file_name).read_bytes() == former
    report = scan()
    assert (report.new, report.moved, report.vanished, report.changed) == (0, 0, 0, 0)


def test_while_a_twin_is_there_no_third_spelling_and_no_deleted_one_is_uploaded(knowledge_base: Path) -> None:
    first, second = twins(knowledge_base)
    put(knowledge_base, "payment/sub/README.md", "# R\n\ntext\n")
    delete_document(document_id=first.pk, user=None)
    run_due_jobs()
    with pytest.raises(DocumentError) as refusal:
        upload(OLD, "B.md")
    assert (refusal.value.code, refusal.value.status) == ("name_twin", 409)
    assert second.file_path in refusal.value.detail
    put(knowledge_base, "payment/B.md")
    assert scan().new == 2  # on the disk it is a file like any other
    delete_document(document_id=second.pk, user=None)
    run_due_jobs()
    assert upload(NEW, "B.md").document.file_path == "knowledge_base/payment/B.md"


def test_edits_and_moves_of_twins_are_kept_apart(knowledge_base: Path) -> None:
    first, second = twins(knowledge_base)
    put(knowledge_base, "payment/b.md", text("EDITED", "edited\n"))
    assert scan().changed == 1
    (knowledge_base / "payment" / "b.md").rename(knowledge_base / "payment" / "c.md")
    report = scan()
    assert (report.moved, report.new, report.vanished) == (1, 0, 0)
    second.refresh_from_db()
    first.refresh_from_db()
    assert (first.file_path, first.revision) == ("knowledge_base/payment/B.md", 1)
    assert (second.file_path, second.revision) == ("knowledge_base/payment/c.md", 2)
    # What was a twin has a name of its own now, and the other may be spelled anew.
    (knowledge_base / "payment" / "B.md").rename(knowledge_base / "payment" / "b.md")
    assert scan().moved == 1
    first.refresh_from_db()
    assert first.file_path == "knowledge_base/payment/b.md"
    with pytest.raises(DocumentError, match=r"b\.md"):
        upload(NEW, "B.md")


def test_a_move_onto_the_twin_of_another_document_is_a_move(knowledge_base: Path) -> None:
    put(knowledge_base, "payment/a.md")
    put(knowledge_base, "payment/c.md", NEW)
    scan()
    moved = ApiDocument.objects.get(file_name="c.md")
    (knowledge_base / "payment" / "c.md").rename(knowledge_base / "payment" / "A.md")
    report = scan()
    assert (report.moved, report.new, report.vanished) == (1, 0, 0)
    moved.refresh_from_db()
    assert moved.file_path == "knowledge_base/payment/A.md"


def test_one_name_in_two_unicode_forms_is_one_document(knowledge_base: Path) -> None:
    put(knowledge_base, "payment/" + unicodedata.normalize("NFC", "café.md"))
    put(knowledge_base, "payment/" + unicodedata.normalize("NFD", "café.md"), NEW)
    report = scan()
    assert report.new == 1
    assert "same name" in report.skipped[0][1]
    assert scan().changed == 0


def test_a_folder_that_is_a_domain_in_another_case_is_skipped(knowledge_base: Path) -> None:
    upload(OLD)
    put(knowledge_base, "Payment/x.md", NEW)
    report = scan()
    assert report.new == 0
    assert "rename it" in report.skipped[0][1]


def test_a_name_that_the_disk_spells_in_nfd_is_one_document_by_its_nfc_name(knowledge_base: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "café.md")
    put(knowledge_base, f"payment/{decomposed}")
    assert scan().new == 1
    document = ApiDocument.objects.get()
    assert document.file_name == "caf\u00e9.md"
    assert scan().vanished == 0
    assert read_content(document_id=document.pk) == OLD.encode()
    upload(NEW, "caf\u00e9.md")  # replaces that very file: no second one beside it
    assert [name for name in files(knowledge_base) if not name.startswith(".")] == [f"payment/{decomposed}"]
    delete_document(document_id=document.pk, user=None)
    assert [name for name in files(knowledge_base) if not name.startswith(".")] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_hides_none_of_its_documents(knowledge_base: Path) -> None:
    upload(OLD)
    (knowledge_base / "payment").chmod(0)
    try:
        report = scan()
    finally:
        (knowledge_base / "payment").chmod(0o755)
    assert report.vanished == 0
    assert len(report.skipped) == 1


def test_a_folder_that_fails_to_list_hides_none_of_its_documents(knowledge_base: Path, monkeypatch: Any) -> None:
    upload(OLD)
    upload(NEW, "other.md", "api")
    real = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "payment":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report = scan()
    assert (report.vanished, hidden()) == (0, [])
    assert report.skipped == [("payment", "cannot be read: Permission denied")]


def test_a_file_that_fails_to_be_read_is_skipped_and_the_rest_taken(knowledge_base: Path, monkeypatch: Any) -> None:
    put(knowledge_base, "payment/bad.md")
    put(knowledge_base, "payment/good.md", NEW)

    def refuse(path: Path, file_path: str) -> Any:
        if path.name == "bad.md":
            raise OSError(5, "Input/output error")
        return read_found(path, file_path)

    monkeypatch.setattr(scan_module, "read_found", refuse)
    report = scan()
    assert (report.new, report.skipped) == (
        1, [("knowledge_base/payment/bad.md", "cannot be read: Input/output error")]
    )  # fmt: skip


def test_a_dry_run_counts_and_writes_nothing(knowledge_base: Path) -> None:
    upload(OLD, "edited.md")
    upload(NEW, "gone.md")
    put(knowledge_base, "payment/edited.md", text("EDITED"))
    put(knowledge_base, "payment/new.md", text("BRAND_NEW"))
    (knowledge_base / "payment" / "gone.md").unlink()
    before = list(ApiDocument.objects.values())
    report = scan(dry_run=True, prune=True)
    assert (report.new, report.changed, report.vanished, report.pruned) == (1, 1, 1, 1)
    assert list(ApiDocument.objects.values()) == before


def test_a_file_deleted_between_the_walk_and_the_insert_gets_no_row(knowledge_base: Path, monkeypatch: Any) -> None:
    """The likeliest way to bring a deleted document back: a walk that saw its file, an insert after it was gone."""
    document = upload(OLD).document
    real = scan_module._rows

    def deleted_before_the_rows_are_read() -> Any:
        delete_document(document_id=document.pk, user=None)
        return real()

    file = knowledge_base / "payment" / "timeouts.md"
    data = file.read_bytes()
    candidates = scan_module._insert

    def unlinked_again(found: Any) -> int:
        file.unlink()
        return candidates(found)

    monkeypatch.setattr(scan_module, "_rows", deleted_before_the_rows_are_read)
    monkeypatch.setattr(scan_module, "_insert", unlinked_again)
    real_look = scan_module._look

    def walk_that_saw_it(*given: Any) -> Any:
        file.write_bytes(data)
        return real_look(*given)

    monkeypatch.setattr(scan_module, "_look", walk_that_saw_it)
    assert scan().new == 0
    assert not ApiDocument.objects.exists()


def test_an_upload_between_the_walk_and_the_insert_keeps_its_row(knowledge_base: Path, monkeypatch: Any) -> None:
    put(knowledge_base, "payment/timeouts.md", OLD)
    real = scan_module._insert

    def upload_comes_first(found: Any) -> int:
        upload(NEW)
        return real(found)

    monkeypatch.setattr(scan_module, "_insert", upload_comes_first)
    scan()
    document = ApiDocument.objects.get()
    assert read_content(document_id=document.pk) == NEW.encode()
    assert (document.revision, document.published_revision) == (1, 1)


def test_a_replacement_during_the_scan_is_not_taken_for_an_edit(knowledge_base: Path, monkeypatch: Any) -> None:
    document = upload(OLD).document
    real = scan_module._look

    def replaced_after_the_rows_were_read(*given: Any) -> Any:
        upload(NEW)
        return real(*given)

    monkeypatch.setattr(scan_module, "_look", replaced_after_the_rows_were_read)
    assert scan().changed == 0
    document.refresh_from_db()
    assert document.revision == 2


def test_an_upload_during_the_scan_is_not_hidden(knowledge_base: Path, monkeypatch: Any) -> None:
    document = upload(OLD).document
    real = scan_module._look

    def looked_before_the_file_was_there(*given: Any) -> Any:
        return {}, real(*given)[1]

    monkeypatch.setattr(scan_module, "_look", looked_before_the_file_was_there)
    assert scan().vanished == 0
    document.refresh_from_db()
    assert document.missing_since is None


def test_the_log_says_how_many_and_how_long(knowledge_base: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(knowledge_base, "payment/a.md")
    with caplog.at_level(logging.INFO):
        scan()
    line = next(record for record in caplog.records if record.name == "documents.scan")
    assert line.levelname == "INFO"
    assert "1 files: 1 new" in line.getMessage()
    assert " s" in line.getMessage()


# ---- A part of the folder, and disappearances that come in parts -----------------------------------------------------


def test_a_part_is_taken_in_and_the_rest_left(knowledge_base: Path) -> None:
    put(knowledge_base, "payment/a.md")
    put(knowledge_base, "payment/v2/b.md", NEW)
    put(knowledge_base, "api/c.md", text("C"))
    assert scan_part(Region(["payment/v2"])).new == 1
    assert paths() == ["knowledge_base/payment/v2/b.md"]
    assert scan_part(Region(["payment/a.md"])).new == 1
    (knowledge_base / "payment" / "v2" / "b.md").unlink()
    (knowledge_base / "payment" / "a.md").write_text(NEW)
    report = scan_part(Region(["payment/v2"]))
    assert (report.vanished, report.changed, hidden()) == (1, 0, ["b.md"])


def test_a_part_goes_by_the_rules_of_names_of_the_whole(knowledge_base: Path) -> None:
    document = upload(OLD, "readme.md").document
    (knowledge_base / "payment" / "readme.md").rename(knowledge_base / "payment" / "README.md")
    report = scan_part(Region(["payment/README.md"]))
    assert (report.moved, report.new, report.vanished) == (1, 0, 0)
    document.refresh_from_db()
    assert document.file_name == "README.md"


def test_of_one_name_in_two_unicode_forms_a_part_takes_the_same_file_as_the_whole(knowledge_base: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD"))
    put(knowledge_base, f"payment/{composed}", OLD)
    scan()
    put(knowledge_base, f"payment/{decomposed}", NEW)
    if len(list((knowledge_base / "payment").iterdir())) == 1:
        pytest.skip("this disk holds the two names for one")
    assert scan_part(Region([f"payment/{decomposed}"])).changed == 0
    assert read_content(document_id=ApiDocument.objects.get().pk) == OLD.encode()


def test_a_part_never_takes_the_file_of_a_document_that_is_being_deleted(knowledge_base: Path) -> None:
    document = upload(OLD).document
    ApiDocument.objects.update(status="DELETING")
    put(knowledge_base, "payment/timeouts.md", NEW)
    report = scan_part(Region(["payment/timeouts.md"]))
    assert (report.new, report.changed) == (0, 0)
    assert list(ApiDocument.objects.values_list("pk", "revision", "status")) == [(document.pk, 1, "DELETING")]


def test_a_part_never_compares_what_is_not_published(knowledge_base: Path) -> None:
    upload(OLD)
    ApiDocument.objects.update(revision=2, content_hash="0" * 64)
    put(knowledge_base, "payment/timeouts.md", NEW)
    assert scan_part(Region(["payment"])).changed == 0
    assert ApiDocument.objects.get().revision == 2


def test_most_documents_vanishing_in_parts_hides_nothing_in_the_end(knowledge_base: Path) -> None:
    """An unmount that takes seconds, or `rm -r`: no scan sees more than a third of it."""
    for number in range(12):
        upload(text(f"CODE_{number}"), f"{number}.md", f"domain-{number % 3}")
    for number in range(3):
        for file in (knowledge_base / f"domain-{number}").iterdir():
            file.unlink()
        scan_part(Region([f"domain-{number}"]))
    assert hidden() == []
    assert scan_state().status == "degraded"
    report = scan()
    assert (report.held_back, report.vanished, hidden()) == (12, 0, [])
    assert scan_part(Region(["domain-0"])).held_back == 12
    assert scan(prune=True, confirmed=True).pruned == 12


def test_documents_that_vanish_one_after_the_other_over_days_are_hidden(knowledge_base: Path) -> None:
    for number in range(12):
        upload(text(f"CODE_{number}"), f"{number}.md")
    for number in range(9):
        (knowledge_base / "payment" / f"{number}.md").unlink()
        assert scan().vanished == 1
        ApiDocument.objects.filter(missing_since__isnull=False).update(missing_since=timezone.now() - timedelta(days=1))
    assert len(hidden()) == 9


def test_a_move_of_which_the_first_half_was_seen_alone_keeps_the_row(knowledge_base: Path) -> None:
    document = indexed(OLD)
    (knowledge_base / "payment" / "timeouts.md").unlink()
    scan_part(Region(["payment/timeouts.md"]))
    assert hidden() == ["timeouts.md"]
    put(knowledge_base, "payment/renamed.md", OLD)
    report = scan_part(Region(["payment/renamed.md"]))
    assert (report.moved, report.new) == (1, 0)
    document.refresh_from_db()
    assert (document.file_name, document.missing_since, document.status_reason) == ("renamed.md", None, "")
    assert (document.revision, document.status) == (1, "INDEXED")
