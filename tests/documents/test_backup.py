"""Backup and restore: one moment of a site that goes on writing, and the same site again in an empty place."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from rest_framework.test import APIClient

from agents.models import ChatSession, Message, Run
from clients.registry import reset_clients
from documents import storage
from documents.backup import write_backup
from documents.backup_archive import members_of
from documents.backup_rows import tables
from documents.counters import read
from documents.data_dir import hold_data_dir
from documents.models import ApiDocument, ApiKey, DocumentHistory, KnowledgeDomain, ToolInvocation
from documents.services import delete_document, restore_revision, set_enabled
from documents.source import reset_source
from documents.worker import run_due_jobs
from tests.documents.library import files, indexed, text, upload, vectors

pytestmark = pytest.mark.django_db(transaction=True)
ONE, TWO = text("ONE"), text("TWO")
DECIDED = {
    *("auth.user", "auth.group", "auth.user_groups", "auth.user_user_permissions", "auth.group_permissions"),
    *("documents.apidocument", "documents.documenthistory", "documents.deleteddocument", "documents.knowledgedomain"),
    *("documents.documentenrichment", "documents.domainaggregation", "documents.toolinvocation", "documents.apikey"),
    *("documents.toolinvocationdocument", "agents.chatsession", "agents.run", "agents.message"),
    *("agents.levelcalibration", "admin.logentry"),
}
"""What a backup holds; a new table of ours is decided about here, or left out by name."""


@pytest.fixture
def archive(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path / "backup.tar"


def run(*args: Any) -> str:
    out = io.StringIO()
    call_command(*args, stdout=out, stderr=out)
    return out.getvalue()


def empty_place(knowledge_base: Path) -> None:
    """Another machine: no row, no file, no vector, no index."""
    with transaction.atomic(), connection.constraint_checks_disabled(), connection.cursor() as cursor:
        for table in [*(model._meta.db_table for model in tables()), "change_counter"]:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608 (our own tables)
        if connection.vendor == "sqlite":
            cursor.execute("DELETE FROM sqlite_sequence")
        cursor.execute("DELETE FROM document_chunk")
        cursor.execute("DELETE FROM term_count")
    shutil.rmtree(knowledge_base, ignore_errors=True)
    reset_clients()
    reset_source()


def rows() -> dict[str, list[dict[str, Any]]]:
    return {model._meta.label: list(model._base_manager.order_by("pk").values()) for model in tables()}


def asked(query: str) -> dict[str, Any]:
    """One lookup as a program gets it."""
    client = APIClient()
    client.force_login(_reader())
    answer = client.post("/api/v1/lookup/", {"query": query}, format="json")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def _reader() -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(username="reader")


@pytest.fixture
def site(knowledge_base: Path, django_user_model: Any) -> None:
    """A site with something in every table that people would miss."""
    reader = django_user_model.objects.create_user("reader", password="a-secret-word")
    group = Group.objects.create(name="curators")
    group.permissions.add(Permission.objects.get(codename="change_apidocument"))
    reader.groups.add(group)
    reader.user_permissions.add(Permission.objects.get(codename="view_documenthistory"))
    ApiKey.objects.create_key(name="a program", scopes="read", user=reader)
    indexed(ONE)
    indexed(TWO)
    indexed(text("HIDDEN", title="隐藏的文档"), "隐藏.md", "支付")
    set_enabled(document_id=ApiDocument.objects.get(file_name="隐藏.md").pk, enabled=False)
    upload(text("WAITING"), "waiting.md")
    delete_document(document_id=indexed(text("GONE"), "gone.md").pk, user=reader)
    session = ChatSession.objects.create(principal=f"user:{reader.pk}", user=reader, title="A chat")
    chat = Run.objects.create(session=session, question="Why?", plan={"steps": [1]})
    Message.objects.create(session=session, run=chat, role="user", text="Why? 为什么")
    ToolInvocation.objects.create(channel="api", tool_name="lookup_knowledge", l1_top_similarity=0.1 + 0.2)
    KnowledgeDomain.objects.update_or_create(domain_id="payment", defaults={"description": "A curator's words"})


def test_everything_comes_back_as_it_was(site: None, knowledge_base: Path, archive: Path) -> None:
    before, disk, counter = rows(), files(knowledge_base), read()
    run("backup", str(archive))
    empty_place(knowledge_base)
    out = run("restore", str(archive))
    assert "3 documents, 2 earlier revisions" in out
    after = rows()
    ours = after.pop("documents.ApiDocument")
    then = before.pop("documents.ApiDocument")
    assert after == before
    made_again = {"status", "indexed_revision", "indexed_hash", "chunk_count"}
    assert [{k: v for k, v in row.items() if k not in made_again} for row in ours] == [
        {k: v for k, v in row.items() if k not in made_again} for row in then
    ]
    assert {(row["status"], row["indexed_revision"], row["chunk_count"]) for row in ours} == {("PENDING", 0, 0)}
    assert files(knowledge_base) == disk
    assert read() > counter
    assert _reader().has_perm("documents.change_apidocument")
    assert _reader().check_password("a-secret-word")


def test_exact_lookups_answer_at_once_and_vectors_follow(site: None, knowledge_base: Path, archive: Path) -> None:
    before = vectors()
    run("backup", str(archive))
    empty_place(knowledge_base)
    run("restore", str(archive))
    assert asked("TWO")["found"]
    assert not asked("HIDDEN")["found"]
    assert not asked("GONE")["found"]
    assert vectors() == {}
    run_due_jobs()
    waiting = ApiDocument.objects.get(file_name="waiting.md")
    assert vectors() == {**before, (waiting.pk, 1): waiting.chunk_count}


def test_ids_are_not_given_again_and_a_deleted_document_can_still_come_back(
    site: None, knowledge_base: Path, archive: Path
) -> None:
    gone = DocumentHistory.objects.get(reason="deleted")
    run("backup", str(archive))
    empty_place(knowledge_base)
    run("restore", str(archive))
    assert upload(text("NEW"), "new.md").document.pk > gone.document_id
    assert restore_revision(history_id=gone.pk, user=None).document.pk == gone.document_id


def test_what_is_written_meanwhile_is_not_in_it_and_what_was_there_is(
    site: None, knowledge_base: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the rows and the files: one is replaced twice, one deleted, one made, one staged one published."""
    before = rows()["documents.ApiDocument"]
    hashes = {row["file_path"]: row["content_hash"] for row in before}
    import documents.backup as backup

    def then(archive_: Any, report: Any, tell: Any) -> None:
        in_thread(busy)
        add(archive_, report, tell)

    def busy() -> None:
        upload(text("THREE"))
        upload(text("FOUR"))
        delete_document(document_id=ApiDocument.objects.get(file_name="waiting.md").pk, user=None)
        upload(text("LATE"), "late.md")

    add = backup._add_documents
    monkeypatch.setattr(backup, "_add_documents", then)
    report = write_backup(archive)
    assert (report.absent, report.edited) == ([], [])
    empty_place(knowledge_base)
    run("restore", str(archive))
    after = {row.file_path: row.content_hash for row in ApiDocument.objects.all()}
    assert after == hashes
    for path, digest in hashes.items():
        assert storage.content_hash(storage.read_published(path)) == digest


def test_a_writer_is_not_held_up_by_a_backup(site: None, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import documents.backup as backup

    original, saved = backup._add_revisions, []

    def then(*given: Any) -> None:
        in_thread(lambda: saved.append(upload(text("MEANWHILE"), "meanwhile.md").document.pk))
        original(*given)

    monkeypatch.setattr(backup, "_add_revisions", then)
    write_backup(archive)
    assert ApiDocument.objects.filter(pk=saved[0]).exists()
    names = [name for name, stream in members_of(archive) if stream.read() or True]
    assert "knowledge_base/payment/meanwhile.md" not in names


def test_a_staged_revision_is_taken_where_it_lies(
    knowledge_base: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from documents import uploads

    upload(ONE)
    with monkeypatch.context() as patched:
        patched.setattr(uploads, "publish", lambda *_, **__: False)
        upload(TWO)
    run("backup", str(archive))
    empty_place(knowledge_base)
    run("restore", str(archive))
    document = ApiDocument.objects.get()
    assert (document.revision, document.published_revision) == (2, 2)
    assert storage.read_published(document.file_path) == TWO.encode()


def test_files_edited_or_missing_on_disk_are_said(site: None, knowledge_base: Path, archive: Path) -> None:
    (knowledge_base / "payment" / "timeouts.md").write_text(text("EDITED"))
    (knowledge_base / "payment" / "waiting.md").unlink()
    out = run("backup", str(archive))
    assert "timeouts.md: edited on disk" in out
    assert "waiting.md: its file is missing" in out
    empty_place(knowledge_base)
    assert "waiting.md: its bytes were not in the backup" in run("restore", str(archive))
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == text("EDITED")


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tgz"])
def test_the_file_is_private_whole_and_never_overwritten_unasked(
    site: None, archive: Path, name: str, knowledge_base: Path
) -> None:
    path = archive.with_name(name)
    run("backup", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.with_name(f"{name}.partial").exists()
    first = path.read_bytes()
    assert (first[:2] == b"\x1f\x8b") == name.endswith("gz")
    with pytest.raises(CommandError, match="--force"):
        run("backup", str(path))
    assert path.read_bytes() == first
    run("backup", str(path), "--force")
    empty_place(knowledge_base)
    run("restore", str(path))
    assert ApiDocument.objects.count() == 3


def test_a_failed_backup_leaves_nothing(site: None, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import documents.backup as backup

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_add_documents", full)
    with pytest.raises(CommandError, match="No space left"):
        run("backup", str(archive))
    assert list(archive.parent.glob("backup*")) == []
    upload(text("AFTER"), "after.md")  # the read transaction is over
    with pytest.raises(CommandError, match="could not be written"):
        run("backup", str(archive.parent / "no-such-folder" / "b.tar"))


def test_the_tables_of_a_backup_are_all_that_there_are(archive: Path) -> None:
    """A new table must be decided about: in the backup, or left out by name."""
    from django.apps import apps

    from documents.backup_rows import _LEFT_OUT

    held = {model._meta.label_lower for model in tables()}
    for label in ("documents", "agents"):
        for model in apps.get_app_config(label).get_models():
            assert model._meta.label_lower in DECIDED | _LEFT_OUT, f"{model.__name__}: is it to be backed up?"
    assert held >= DECIDED
    assert not held & _LEFT_OUT


# ---- Refusals of a restore -------------------------------------------------------------------------------------------
def refused(archive: Path) -> str:
    with pytest.raises(CommandError) as refusal:
        run("restore", str(archive))
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_a_place_that_is_not_empty_stays_as_it_is(site: None, knowledge_base: Path, archive: Path) -> None:
    run("backup", str(archive))
    before = rows()
    assert "is there already" in refused(archive)
    shutil.rmtree(knowledge_base)
    assert "The database has" in refused(archive)
    assert rows() == before
    empty_place(knowledge_base)
    knowledge_base.mkdir()
    (knowledge_base / "mine.md").write_text("mine")
    assert "mine.md is there already" in refused(archive)
    assert files(knowledge_base) == ["mine.md"]


def test_a_running_server_is_named_in_one_line(site: None, knowledge_base: Path, archive: Path, settings: Any) -> None:
    run("backup", str(archive))
    empty_place(knowledge_base)
    settings.EMBEDDED = True
    with hold_data_dir(settings.DATA_DIR):
        assert "stop it first" in refused(archive)
    assert not ApiDocument.objects.exists()


def changed(archive: Path, change: Callable[[str, bytes], Any], *, sound: bool = False) -> None:
    """Write the archive again, each member as ``change`` has it: (name, bytes), or a ready TarInfo.

    ``sound``: with a manifest that fits.
    """
    parts = [(name, stream.read()) for name, stream in members_of(archive)]
    members: dict[str, Any] = {}
    with tarfile.open(archive, "w") as tar:
        for name, data in parts:
            made = change(name, data)
            if sound and name == "manifest.json":
                made = name, json.dumps({**json.loads(data), "members": members}).encode()
            elif sound:
                members[name] = [len(made[1]), hashlib.sha256(made[1]).hexdigest()]
            if isinstance(made, tarfile.TarInfo):
                tar.addfile(made)
            elif made is not None:
                info = tarfile.TarInfo(made[0])
                info.size = len(made[1])
                tar.addfile(info, io.BytesIO(made[1]))


def _link(name: str, data: bytes) -> Any:
    if not name.endswith("timeouts.md"):
        return name, data
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


def _newer(name: str, data: bytes) -> Any:
    if name != "manifest.json":
        return name, data
    manifest = json.loads(data)
    manifest["migrations"]["documents"].append("9999_from_the_future")
    return name, json.dumps(manifest).encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name, data: (name, data.replace(b"TWO", b"SIX") if name.endswith("timeouts.md") else data), "damaged"),
        (lambda name, data: None if name.endswith("timeouts.md") else (name, data), "damaged"),
        (lambda name, data: None if name == "manifest.json" else (name, data), "cut off"),
        (lambda name, data: ("../../outside.md" if name.endswith("timeouts.md") else name, data), "no backup"),
        (lambda name, data: ("/srv/outside.md" if name.endswith("timeouts.md") else name, data), "no backup"),
        (_link, "no backup"),
        (_newer, "newer version"),
    ],
)
def test_what_is_no_whole_backup_is_refused_before_anything_is_written(
    site: None, knowledge_base: Path, archive: Path, change: Callable[[str, bytes], Any], words: str
) -> None:
    run("backup", str(archive))
    changed(archive, change)
    empty_place(knowledge_base)
    assert words in refused(archive)
    assert not ApiDocument.objects.exists()
    assert not knowledge_base.exists()


def test_a_path_of_a_row_that_leaves_the_folder_is_refused(site: None, knowledge_base: Path, archive: Path) -> None:
    """The manifest fits, the row is evil: whoever made this archive could write any hash."""
    ApiDocument.objects.filter(file_name="timeouts.md").update(file_path="knowledge_base/../outside.md")
    import documents.backup as backup

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backup, "_bytes_of", lambda document: b"evil")
        write_backup(archive)
    empty_place(knowledge_base)
    assert "no path of a document" in refused(archive)
    assert not (knowledge_base.parent / "outside.md").exists()
    assert not ApiDocument.objects.exists()
    assert files(knowledge_base) == []


@pytest.mark.parametrize("size", [0, 100, 4000])
def test_a_file_that_was_cut_off_is_refused(site: None, knowledge_base: Path, archive: Path, size: int) -> None:
    path = archive.with_suffix(".tar.gz")
    run("backup", str(path))
    os.truncate(path, size if size < path.stat().st_size else path.stat().st_size - 200)
    empty_place(knowledge_base)
    assert str(path) in refused(path)
    assert "There is no file" in refused(archive.with_name("nothing.tar"))
    assert not ApiDocument.objects.exists()


def test_a_restore_that_fails_half_way_leaves_an_empty_place(
    site: None, knowledge_base: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import documents.restore as restore

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    run("backup", str(archive))
    empty_place(knowledge_base)
    with monkeypatch.context() as patched:
        patched.setattr(restore, "_put_revision", full)
        assert "Nothing was restored" in refused(archive)
    assert not ApiDocument.objects.exists()
    assert files(knowledge_base) == []
    run("restore", str(archive))
    assert ApiDocument.objects.count() == 3


def test_columns_that_came_later_get_their_default(site: None, knowledge_base: Path, archive: Path) -> None:
    """An older version's backup: the rows lack a column of today, and one has a column that is no more."""

    def older(name: str, data: bytes) -> Any:
        if name != "rows/documents.apidocument.jsonl":
            return name, data
        lines = [json.loads(line) for line in data.splitlines()]
        for line in lines:
            del line["in_cjk"]
            line["colour"] = "red"
        return name, b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    run("backup", str(archive))
    changed(archive, older, sound=True)
    empty_place(knowledge_base)
    assert "no column colour" in run("restore", str(archive))
    assert ApiDocument.objects.count() == 3


def in_thread(step: Callable[[], Any]) -> None:
    """Run something on a connection of its own, to its end; raise what it raised."""
    faults: list[BaseException] = []

    def target() -> None:
        try:
            step()
        except BaseException as fault:  # noqa: BLE001 (raised again below)
            faults.append(fault)
        finally:
            connection.close()

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it was held up"
    if faults:
        raise faults[0]
