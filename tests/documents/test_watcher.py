"""Hot reload (DOC-9): real files, the real watcher, real scans. What is waited for has a patience, not a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from clients.folder_events import LIMIT, Changes, FolderEvents
from clients.interfaces import ClientError
from documents import uploads, watcher
from documents.models import ApiDocument, DocumentHistory
from documents.publishing import publish
from documents.scan import scan, scan_part, scan_state
from documents.scan_lock import alone_on_the_site
from documents.services import delete_document, read_content
from documents.watch_state import watch_state
from documents.watcher import FolderWatcher, not_known
from kbsite import startup
from tests.documents.library import text, upload

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
OLD = text("OLD_CODE", "old text\n")
NEW = text("NEW_CODE", "new text\n")


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fail where it is not so in half a minute."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, list(ApiDocument.objects.values_list("file_path", "revision", "missing_since"))
        time.sleep(0.02)


def put(base: Path, path: str, content: str = OLD) -> Path:
    file = base / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def documents() -> dict[str, int]:
    """The revision of each document that is not hidden."""
    rows = ApiDocument.objects.filter(missing_since=None).values_list("file_path", "revision")
    return {path.removeprefix("knowledge_base/"): revision for path, revision in rows}


def hidden() -> int:
    return ApiDocument.objects.filter(missing_since__isnull=False).count()


def caught_up(base: Path) -> None:
    """Wait until what happened before this call is taken in: a file that is written now comes after it."""
    name = f"marker-{time.monotonic_ns()}.md"
    file = put(base, name, text(f"MARKER_{time.monotonic_ns()}"))
    until(lambda: name in documents())
    file.unlink()
    until(lambda: name not in documents())
    ApiDocument.objects.filter(file_name=name).delete()


@pytest.fixture(autouse=True)
def watched(settings: Any, tmp_path: Path) -> None:
    settings.WATCH_FOLDER = True
    settings.DATA_DIR = tmp_path / "data"


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which scans the watcher has done, 'part' or 'whole'."""
    made: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def scanning(*given: Any) -> Any:
            report = real(*given)
            made.append(name)
            return report

        return scanning

    monkeypatch.setattr(watcher, "scan", counted("whole", scan))
    monkeypatch.setattr(watcher, "scan_part", counted("part", scan_part))
    return made


@pytest.fixture
def running(watched: None, scans: list[str], knowledge_base: Path) -> Iterator[FolderWatcher]:
    """A watcher that listens and has done its first comparison."""
    made = FolderWatcher()
    made.start(compare_first=True)
    until(lambda: made.watches and scans == ["whole"])
    scans.clear()
    yield made
    made.stop()


# ---- What people do to files -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("running")
def test_a_file_that_is_added_edited_and_removed_is_taken_in_each_time(knowledge_base: Path) -> None:
    file = put(knowledge_base, "a.md")
    until(lambda: documents() == {"a.md": 1})
    file.write_text(NEW)
    until(lambda: documents() == {"a.md": 2})
    assert ApiDocument.objects.get().metadata["keywords"] == ["NEW_CODE"]  # type: ignore[index]
    file.unlink()
    until(lambda: documents() == {})
    assert hidden() == 1
    file.write_text(NEW)
    until(lambda: documents() == {"a.md": 2})


@pytest.mark.usefixtures("running")
def test_an_atomic_save_is_one_edit_of_the_same_document(knowledge_base: Path) -> None:
    document = upload(OLD).document
    folder = knowledge_base / "payment"
    for number, temporary in enumerate(("timeouts.md.vsctmp", "4913", ".timeouts.md.swp", "timeouts.md~"), start=2):
        (folder / temporary).write_text(text(f"EDIT_{number}"))
        (folder / temporary).replace(folder / "timeouts.md")
        until(lambda number=number: documents() == {"payment/timeouts.md": number})  # type: ignore[misc]
    assert ApiDocument.objects.get().pk == document.pk


@pytest.mark.usefixtures("running")
def test_an_editor_that_renames_the_former_file_to_a_backup_makes_one_edit(knowledge_base: Path) -> None:
    document = upload(OLD).document
    file = knowledge_base / "payment" / "timeouts.md"
    file.rename(file.with_name("timeouts.md~"))
    file.write_text(NEW)
    file.with_name("timeouts.md~").unlink()
    until(lambda: documents() == {"payment/timeouts.md": 2})
    caught_up(knowledge_base)
    assert list(ApiDocument.objects.values_list("pk", "revision")) == [(document.pk, 2)]


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("target", ["payment/renamed.md", "api/timeouts.md", "payment/deep/down/timeouts.md"])
def test_a_file_that_is_moved_keeps_its_document(knowledge_base: Path, target: str) -> None:
    document = upload(OLD).document
    upload(NEW, "beside.md")
    (knowledge_base / target).parent.mkdir(parents=True, exist_ok=True)
    (knowledge_base / "payment" / "timeouts.md").rename(knowledge_base / target)
    until(lambda: documents() == {target: 1, "payment/beside.md": 1})
    assert ApiDocument.objects.get(file_path=f"knowledge_base/{target}").pk == document.pk


@pytest.mark.usefixtures("running")
def test_a_folder_comes_is_renamed_and_goes_with_all_that_is_in_it(knowledge_base: Path, tmp_path: Path) -> None:
    for name in ("a.md", "v2/b.md"):
        put(tmp_path, f"outside/{name}", text(name))
    (tmp_path / "outside").rename(knowledge_base / "payment")
    until(lambda: documents() == {"payment/a.md": 1, "payment/v2/b.md": 1})
    ids = set(ApiDocument.objects.values_list("pk", flat=True))
    (knowledge_base / "payment").rename(knowledge_base / "money")
    until(lambda: documents() == {"money/a.md": 1, "money/v2/b.md": 1})
    put(knowledge_base, "money/v2/b.md", NEW)
    until(lambda: documents() == {"money/a.md": 1, "money/v2/b.md": 2})
    shutil.rmtree(knowledge_base / "money")
    until(lambda: documents() == {})
    put(knowledge_base, "money/a.md", text("a.md"))
    until(lambda: documents() == {"money/a.md": 1})
    assert set(ApiDocument.objects.values_list("pk", flat=True)) == ids


@pytest.mark.usefixtures("running")
def test_what_editors_put_beside_is_no_document_and_no_work(knowledge_base: Path, scans: list[str]) -> None:
    put(knowledge_base, "payment/kept.md")
    until(lambda: documents() == {"payment/kept.md": 1} and bool(scans))
    scans.clear()
    for name in (".notes.md.swp", "4913", "notes.md~", "#notes.md#", ".#notes.md", "notes.md___jb_tmp___",
                 ".~lock.notes.md#", ".notes.md.kate-swp"):  # fmt: skip
        file = put(knowledge_base, f"payment/{name}")
        file.write_text(NEW)
        file.unlink()
        put(knowledge_base, f"payment/{name}")
    put(knowledge_base, ".git/refs/heads.md")
    put(knowledge_base, ".staging/tmp-1.md")
    put(knowledge_base, "last.md")
    until(lambda: "last.md" in documents() and bool(scans))
    assert documents() == {"payment/kept.md": 1, "last.md": 1}
    assert scans == ["part"]


@pytest.mark.usefixtures("running")
def test_of_a_file_that_is_written_slowly_the_whole_is_taken_in_the_end(knowledge_base: Path) -> None:
    pieces = [OLD, *(f"\n\n## Part {number}\n\nmore of it\n" for number in range(8))]
    with (knowledge_base / "slow.md").open("w") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
            time.sleep(0.1)
    until(lambda: bool(documents()))
    until(lambda: read_content(document_id=ApiDocument.objects.get().pk) == "".join(pieces).encode())
    size = len("".join(pieces))
    until(lambda: ApiDocument.objects.get().size == size)


def git(folder: Path, *arguments: str) -> None:
    names = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_checkout_of_three_hundred_files_is_a_few_scans(knowledge_base: Path, request: pytest.FixtureRequest) -> None:
    git(knowledge_base, "init", "--initial-branch", "main")
    for number in range(300):
        put(knowledge_base, f"domain-{number % 7}/{number}.md", text(f"CODE_{number}"))
    git(knowledge_base, "add", ".")
    git(knowledge_base, "commit", "-m", "one")
    git(knowledge_base, "checkout", "-b", "other")
    for number in range(250):
        put(knowledge_base, f"domain-{number % 7}/{number}.md", text(f"OTHER_{number}"))
    for number in range(250, 260):
        git(knowledge_base, "rm", "-q", f"domain-{number % 7}/{number}.md")
    for number in range(260, 300):
        source = f"domain-{number % 7}/{number}.md"
        put(knowledge_base, f"moved/{number}.md", (knowledge_base / source).read_text())
        git(knowledge_base, "rm", "-q", source)
    git(knowledge_base, "add", ".")
    git(knowledge_base, "commit", "-m", "two")
    git(knowledge_base, "checkout", "main")
    request.getfixturevalue("running")
    scans = request.getfixturevalue("scans")
    assert len(documents()) == 300
    ids = dict(ApiDocument.objects.values_list("file_name", "pk"))

    git(knowledge_base, "checkout", "other")
    until(lambda: set(documents().values()) == {1, 2} and len(documents()) == 290)
    until(lambda: sum(revision == 2 for revision in documents().values()) == 250)
    assert hidden() == 10
    assert dict(ApiDocument.objects.values_list("file_name", "pk")) == ids  # edits and moves keep their documents
    assert len(scans) <= 6, scans


# ---- What the site does itself ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("running")
def test_our_own_uploads_replacements_and_deletions_make_no_further_revision(knowledge_base: Path) -> None:
    kept = upload(OLD, "kept.md").document
    gone = upload(text("GONE"), "gone.md").document
    upload(NEW, "kept.md")
    caught_up(knowledge_base)
    before = list(ApiDocument.objects.values())
    assert [(row["id"], row["revision"]) for row in before] == [(kept.pk, 2), (gone.pk, 1)]
    delete_document(document_id=gone.pk, user=None)
    caught_up(knowledge_base)
    assert list(ApiDocument.objects.values()) == before[:1]
    assert DocumentHistory.objects.filter(document_id=kept.pk).count() == 1


def test_what_a_row_says_already_is_known_by_its_hash(knowledge_base: Path) -> None:
    upload(OLD, "same.md")
    upload(OLD, "edited.md")
    upload(OLD, "gone.md")
    upload(OLD, "not-published.md")
    put(knowledge_base, "payment/edited.md", NEW)
    put(knowledge_base, "payment/new.md")
    (knowledge_base / "payment" / "gone.md").unlink()
    ApiDocument.objects.filter(file_name="not-published.md").update(revision=2)
    names = [f"payment/{name}.md" for name in ("same", "edited", "gone", "not-published", "new")]
    assert not_known([*names, "payment"]) == sorted([*names[1:], "payment"])
    shutil.rmtree(knowledge_base / "payment")
    assert not_known(["payment", "pay", "4913"]) == ["payment"]


@pytest.mark.usefixtures("running")
def test_an_edit_on_disk_between_commit_and_publication_does_not_revert_the_upload(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch, scans: list[str]
) -> None:
    """The watcher hears of the former file while the row is a revision ahead."""
    document = upload(OLD).document
    caught_up(knowledge_base)
    scans.clear()
    heard = threading.Event()

    def publish_late(document_id: int, revision: int, *, by: str = "") -> bool:
        put(knowledge_base, "payment/timeouts.md", text("FROM_AN_EDITOR"))
        until(lambda: "part" in scans)
        caught_up(knowledge_base)
        heard.set()
        return publish(document_id, revision, by=by)

    monkeypatch.setattr(uploads, "publish", publish_late)
    upload(NEW)
    monkeypatch.undo()
    assert heard.is_set()
    caught_up(knowledge_base)
    document.refresh_from_db()
    assert (document.revision, document.published_revision) == (2, 2)
    assert read_content(document_id=document.pk) == NEW.encode()
    assert document.metadata == {"title": "Payment time-outs", "keywords": ["NEW_CODE"]}


# ---- Mass vanishing --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("running")
def test_a_folder_that_is_unmounted_hides_nothing_and_is_watched_again_when_it_is_back(knowledge_base: Path) -> None:
    for number in range(12):
        put(knowledge_base, f"payment/{number}.md", text(f"CODE_{number}"))
    until(lambda: len(documents()) == 12)
    knowledge_base.rename(knowledge_base.with_name("unmounted"))
    until(lambda: scan_state().status == "degraded")
    assert (len(documents()), hidden()) == (12, 0)
    assert not knowledge_base.exists()
    put(knowledge_base.with_name("unmounted"), "payment/0.md", NEW)
    knowledge_base.with_name("unmounted").rename(knowledge_base)
    until(lambda: scan_state().status == "ok")
    until(lambda: documents()["payment/0.md"] == 2)
    put(knowledge_base, "payment/1.md", NEW)
    until(lambda: documents()["payment/1.md"] == 2)
    assert len(documents()) == 12


@pytest.mark.usefixtures("running")
def test_an_empty_folder_in_the_place_of_a_mount_hides_nothing(knowledge_base: Path) -> None:
    for number in range(12):
        put(knowledge_base, f"payment/{number}.md", text(f"CODE_{number}"))
    until(lambda: len(documents()) == 12)
    knowledge_base.rename(knowledge_base.with_name("unmounted"))
    knowledge_base.mkdir()
    until(lambda: scan_state().status == "degraded")
    assert hidden() == 0
    knowledge_base.rmdir()
    knowledge_base.with_name("unmounted").rename(knowledge_base)
    until(lambda: scan_state().status == "ok")
    assert len(documents()) == 12


@pytest.mark.usefixtures("running")
def test_most_files_that_are_removed_one_batch_after_the_other_hide_nothing(knowledge_base: Path) -> None:
    for number in range(15):
        put(knowledge_base, f"payment/{number}.md", text(f"CODE_{number}"))
    until(lambda: len(documents()) == 15)
    for number in range(5):
        (knowledge_base / "payment" / f"{number}.md").unlink()
    until(lambda: hidden() == 5)
    for number in range(5, 10):
        (knowledge_base / "payment" / f"{number}.md").unlink()
    until(lambda: scan_state().status == "degraded")
    assert hidden() == 0
    (knowledge_base / "payment" / "10.md").unlink()
    put(knowledge_base, "last.md", NEW)
    until(lambda: "last.md" in documents())
    assert hidden() == 0


# ---- One among several, and what the system does not tell ------------------------------------------------------------

_PROGRAM = """
import sys, time, django
django.setup()
from documents.watcher import FolderWatcher
made = FolderWatcher()
made.start(compare_first=False)
said = None
while True:
    if made.watches != said:
        said = made.watches
        print("watches" if said else "waits", flush=True)
    time.sleep(0.05)
"""


class Another:
    """A process of the same site that watches, or waits until it may."""

    def __init__(self, data: Path, base: Path) -> None:
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "kbsite.settings",
            "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
            "DATA_DIR": str(data),
            "KNOWLEDGE_BASE_PATH": str(base),
            "WATCH_FOLDER": "true",
        }
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(line.strip() for line in self.process.stdout)

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.mark.skipif("sqlite" not in connection.vendor, reason="the processes share the tests' SQLite file")
def test_of_two_processes_one_watches_and_the_other_takes_over_when_it_is_killed(
    knowledge_base: Path, tmp_path: Path
) -> None:
    first = Another(tmp_path / "data", knowledge_base)
    try:
        until(lambda: first.said == ["watches"])
        second = Another(tmp_path / "data", knowledge_base)
        try:
            until(lambda: second.said == ["waits"])
            put(knowledge_base, "a.md")
            until(lambda: documents() == {"a.md": 1})
            assert (first.said, second.said) == (["watches"], ["waits"])
            first.end()
            put(knowledge_base, "between.md")  # while nobody watches
            until(lambda: second.said == ["waits", "watches"])
            until(lambda: "between.md" in documents())
            put(knowledge_base, "a.md", NEW)
            until(lambda: documents() == {"a.md": 2, "between.md": 1})
        finally:
            second.end()
    finally:
        first.end()


def test_a_scan_waits_while_another_one_of_the_site_is_under_way(knowledge_base: Path) -> None:
    """Of another process: the lock is the database's, or a file's."""
    put(knowledge_base, "a.md")

    def scanning() -> None:
        try:
            scan()
        finally:
            connection.close()

    other = threading.Thread(target=scanning)
    with alone_on_the_site():
        other.start()
        other.join(0.5)
        assert other.is_alive()
        assert documents() == {}
    other.join(PATIENCE)
    assert documents() == {"a.md": 1}


def test_without_the_setting_nothing_watches(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    began: list[bool] = []

    class Recorded:
        def start(self, *, compare_first: bool) -> None:
            began.append(compare_first)

    class Idle:
        def __getattr__(self, name: str) -> Callable[[], None]:
            return lambda: None

    for name in ("get_keyword_index", "get_vector_store", "get_worker"):
        monkeypatch.setattr(startup, name, Idle)
    monkeypatch.setattr(startup, "get_watcher", Recorded)
    for name in ("_scan", "close_old_connections", "_leave_out_of_collections"):
        monkeypatch.setattr(startup, name, lambda: None)
    settings.WATCH_FOLDER = False
    startup._warm_up()
    assert began == []
    settings.WATCH_FOLDER = True
    startup._warm_up()
    settings.EMBEDDED_WORKER = True
    startup._warm_up()
    assert began == [True, False]  # a site whose start scans the folder needs no second comparison


class Refused:
    """No watches left."""

    def __init__(self, base: Path) -> None:
        raise ClientError("OS file watch limit reached", code=LIMIT)


class Deaf:
    """A network mount: the system tells nothing of what other machines write."""

    def __init__(self, base: Path) -> None:
        pass

    def wait(self, seconds: float) -> Changes:
        time.sleep(min(seconds, 0.05))
        return Changes()

    def close(self) -> None:
        pass


def test_at_the_limit_of_the_system_the_folder_is_compared_and_readyz_says_so(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = FolderWatcher()
    with monkeypatch.context() as patched:
        patched.setattr(watcher, "COMPARE_SECONDS", 0.1)
        patched.setattr(watcher, "FolderEvents", Refused)
        made.start(compare_first=True)
        try:
            until(lambda: watch_state().status == "degraded")
            assert "inotify" in watch_state().hint
            assert not made.watches
            put(knowledge_base, "a.md")
            until(lambda: documents() == {"a.md": 1})
            patched.setattr(watcher, "FolderEvents", FolderEvents)
            until(lambda: watch_state().status == "ok" and made.watches)
        finally:
            made.stop()


def test_what_the_system_does_not_tell_is_found_by_the_slow_comparison(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, scans: list[str]
) -> None:
    monkeypatch.setattr(watcher, "FolderEvents", Deaf)
    monkeypatch.setattr(watcher, "RESCAN_SECONDS", 0.5)
    settings.EMBEDDED_WORKER = True
    made = FolderWatcher()
    made.start(compare_first=False)
    try:
        put(knowledge_base, "a.md")
        until(lambda: documents() == {"a.md": 1})
        until(lambda: set(scans) == {"whole"})
    finally:
        made.stop()


def test_so_many_names_that_some_may_be_lost_are_one_look_at_the_whole(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch, running: FolderWatcher, scans: list[str]
) -> None:
    monkeypatch.setattr(watcher, "MANY", 2)
    for number in range(3):
        put(knowledge_base, f"{number}.md", text(f"CODE_{number}"))
    until(lambda: len(documents()) == 3 and bool(scans))
    assert set(scans) == {"whole"}


def test_a_folder_that_is_missing_at_the_start_is_watched_when_it_comes(knowledge_base: Path) -> None:
    for number in range(12):
        upload(text(f"CODE_{number}"), f"{number}.md")
    knowledge_base.rename(knowledge_base.with_name("elsewhere"))
    made = FolderWatcher()
    made.start(compare_first=True)
    try:
        until(lambda: scan_state().status == "degraded")
        assert not made.watches
        knowledge_base.with_name("elsewhere").rename(knowledge_base)
        until(lambda: made.watches and scan_state().status == "ok")
        put(knowledge_base, "payment/1.md", NEW)
        until(lambda: documents()["payment/1.md"] == 2)
        assert hidden() == 0
    finally:
        made.stop()


def test_a_database_that_was_away_costs_a_pause_and_no_edit(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch, running: FolderWatcher
) -> None:
    faults = [OperationalError("gone away"), OperationalError("gone away")]

    def away_at_first(region: Any) -> Any:
        if faults:
            raise faults.pop()
        return scan_part(region)

    monkeypatch.setattr(watcher, "_PAUSE_AFTER_FAULT", 0.05)
    monkeypatch.setattr(watcher, "scan_part", away_at_first)
    put(knowledge_base, "a.md")
    until(lambda: documents() == {"a.md": 1})
    assert len(faults) == 1
    assert running.watches


def test_a_stopped_watcher_lets_another_begin(knowledge_base: Path, running: FolderWatcher) -> None:
    other = FolderWatcher()
    other.start(compare_first=False)
    assert (running.watches, other.watches) == (True, False)
    running.stop()
    assert not running.watches
    try:
        until(lambda: other.watches)
        put(knowledge_base, "a.md")
        until(lambda: documents() == {"a.md": 1})
    finally:
        other.stop()
