"""One reconcile at a time; its command and its page; what is kept of it; what the start of a site mends."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from clients.registry import get_vector_store, reset_clients
from documents import reconcile_lease, reconcile_report, storage, tasks
from documents.heartbeat import workers_state
from documents.local_server import announce_server, withdraw_server
from documents.models import ApiDocument, ChangeCounter, KnowledgeDomain, ReconcileRun
from documents.reconcile import reconcile, reconcile_by_itself
from documents.reconcile_lease import TurnLostError, one_at_a_time
from documents.reconcile_report import reconcile_state, still_wrong
from documents.worker import Housekeeping, run_due_jobs
from tests.documents.admin_pages import readable
from tests.documents.library import files, indexed, text, upload, vectors
from tests.documents.test_reconcile import LONG_AGO, vector_of

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = reverse("reconcile")


@pytest.fixture
def document(knowledge_base: Path, settings: Any, tmp_path: Path) -> ApiDocument:
    settings.DATA_DIR = tmp_path / "data"
    made = indexed(text())
    ApiDocument.objects.update(updated_at=LONG_AGO)
    return made


@pytest.fixture
def broken(document: ApiDocument) -> ApiDocument:
    """Its vectors are gone."""
    get_vector_store().discard(document.pk, 1)
    return document


@pytest.fixture
def lost(document: ApiDocument) -> ApiDocument:
    """The bytes of its first revision are gone from .history/: nobody can bring them back."""
    upload(text("SECOND_X"))
    run_due_jobs()
    ApiDocument.objects.update(updated_at=LONG_AGO)
    for path in (storage.base() / storage.HISTORY).glob("*"):
        path.unlink()
    return document


# ---- One at a time ---------------------------------------------------------------------------------------------------
def test_of_two_at_once_one_does_it(document: ApiDocument) -> None:
    with one_at_a_time() as turn:
        assert turn is not None
        assert reconcile(by="second") is None
        with one_at_a_time() as second:
            assert second is None
    assert reconcile(by="second") is not None
    assert [run.by for run in ReconcileRun.objects.all()] == ["second"]


def test_many_threads_never_overlap(document: ApiDocument) -> None:
    inside, most, done = 0, 0, 0
    guard = threading.Lock()

    def run() -> None:
        nonlocal inside, most, done
        try:
            with one_at_a_time(patience=30.0) as turn:
                assert turn is not None
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.02)
                with guard:
                    inside -= 1
                    done += 1
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done) == (1, 5)


def test_a_process_that_died_holds_nobody_up_for_long(document: ApiDocument) -> None:
    micro, lease = 1_000_000, reconcile_lease.LEASE_SECONDS
    assert lease <= 120
    for left, free in ((1.0, False), (lease, False), (-1.0, True), (10 * lease, True)):  # the last: its clock jumped
        value = int((time.time() + left) * micro)
        ChangeCounter.objects.update_or_create(name="reconcile_until", defaults={"value": value})
        with one_at_a_time() as turn:
            assert (turn is not None) is free


def test_a_turn_is_held_while_it_is_kept_and_stops_when_it_is_lost(document: ApiDocument, monkeypatch: Any) -> None:
    monkeypatch.setattr(reconcile_lease, "_RENEW_SECONDS", 0.0)
    with one_at_a_time() as turn:
        assert turn is not None
        before = turn.value
        turn.keep()
        assert turn.value > before
        ChangeCounter.objects.filter(name="reconcile_until").update(value=turn.value + 7)  # another took it
        with pytest.raises(TurnLostError):
            turn.keep()
    assert ChangeCounter.objects.get(name="reconcile_until").value == turn.value + 7


# ---- What is kept of it ----------------------------------------------------------------------------------------------
def test_quiet_minutes_leave_one_row_and_others_stay(document: ApiDocument) -> None:
    assert reconcile(by="start") is not None
    for _minute in range(3):
        reconcile(by="minute", full=False)
    assert [(run.by, run.full, run.found) for run in ReconcileRun.objects.all()] == [
        ("minute", False, 0),
        ("start", True, 0),
    ]


def test_no_more_than_fifty_runs_are_kept_and_the_last_full_one_is(lost: ApiDocument, monkeypatch: Any) -> None:
    monkeypatch.setattr(reconcile_report, "_RUNS_KEPT", 3)
    reconcile(by="first")
    for _ in range(6):
        KnowledgeDomain.objects.update(document_count=9)
        reconcile(by="minute", full=False)
        run_due_jobs()
    runs = list(ReconcileRun.objects.values_list("full", flat=True))
    assert runs == [False, False, False, True]


def test_a_look_is_not_kept_and_needs_no_turn(broken: ApiDocument) -> None:
    with one_at_a_time():
        report = reconcile(by="look", dry_run=True)
    assert report is not None
    assert report.wrong == 1
    assert not ReconcileRun.objects.exists()


def test_what_stays_wrong_is_told_until_a_pass_finds_it_no_more(lost: ApiDocument) -> None:
    reconcile(by="start")
    assert [one.kind for one in still_wrong()] == ["history_without_file"]
    state = reconcile_state()
    assert state.status == "degraded"
    assert "/admin/reconcile/" in state.hint
    assert lost.file_path not in state.hint
    reconcile(by="minute", full=False)  # it does not look there: the word of the full pass stands
    assert reconcile_state().status == "degraded"
    ReconcileRun.objects.all().delete()
    assert reconcile_state().status == "ok"


def test_the_full_pass_is_due_each_hour_and_sooner_where_something_is_wrong(lost: ApiDocument) -> None:
    assert reconcile_report.full_is_due()
    reconcile(by="start")
    assert not reconcile_report.full_is_due()
    ReconcileRun.objects.update(began_at=timezone.now() - reconcile_report.FULL_AGAIN * 1.1)
    assert reconcile_report.full_is_due()
    ReconcileRun.objects.update(wrong=0)
    assert not reconcile_report.full_is_due()
    ReconcileRun.objects.update(began_at=timezone.now() - reconcile_report.FULL_EVERY * 1.1)
    assert reconcile_report.full_is_due()


# ---- By itself -------------------------------------------------------------------------------------------------------
def test_the_start_of_a_site_mends_all(broken: ApiDocument, knowledge_base: Path) -> None:
    (knowledge_base / "payment" / "foreign.md").write_text(text("FOREIGN"))
    Housekeeping().round()
    run = ReconcileRun.objects.get()
    assert (run.by, run.full, run.wrong) == ("start", True, 0)
    run_due_jobs()
    assert sorted(vectors().values()) == [2, 2]
    assert ApiDocument.objects.filter(status="INDEXED").count() == 2


def test_a_worker_that_takes_a_task_reconciles_once_a_minute_and_is_seen(
    document: ApiDocument, knowledge_base: Path, settings: Any
) -> None:
    settings.CELERY_BROKER_URL = "memory://"
    assert "No worker" in workers_state().hint
    settings.CELERY_BROKER_URL = ""
    tasks.run_due()
    first = ReconcileRun.objects.get()
    tasks.run_due()
    assert ReconcileRun.objects.get() == first
    settings.CELERY_BROKER_URL = "memory://"
    assert workers_state().status == "ok"
    ChangeCounter.objects.filter(name="worker_seen").update(value=int(time.time()) - 400)
    state = workers_state()
    assert (state.status, "6 minutes" in state.hint, "beat" in state.hint) == ("degraded", True, True)


def test_a_folder_that_is_not_to_be_watched_is_left_alone_each_minute_and_not_when_a_person_asks(
    document: ApiDocument, knowledge_base: Path, settings: Any
) -> None:
    settings.WATCH_FOLDER = False
    reconcile(by="start")
    (knowledge_base / "payment" / "foreign.md").write_text(text("FOREIGN"))
    ReconcileRun.objects.update(began_at=timezone.now() - reconcile_report.FULL_EVERY / 2)
    report = reconcile_by_itself()
    assert report is not None
    assert report.findings == []
    report = reconcile(by="alice")
    assert report is not None
    assert [one.kind for one in report.findings] == ["file_new"]


# ---- The command -----------------------------------------------------------------------------------------------------
def command(capsys: Any, *arguments: str) -> tuple[int, str]:
    code = 0
    try:
        call_command("reconcile", *arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, capsys.readouterr().out


def test_the_command_looks_mends_and_says_so(broken: ApiDocument, capsys: Any, settings: Any) -> None:
    settings.EMBEDDED_WORKER = True
    code, said = command(capsys, "--dry-run")
    assert (code, "WRONG" in said, "nothing was changed" in said) == (1, True, True)
    assert vectors() == {}
    code, said = command(capsys)
    assert (code, "mended" in said, "0 vectors are there" in said) == (0, True, True)
    assert vectors() == {(broken.pk, 1): 2}, "without a server the command makes the vectors"
    assert command(capsys)[0] == 0
    assert "in step" in command(capsys)[1]


def test_the_command_ends_with_1_where_something_stays_wrong(lost: ApiDocument, capsys: Any) -> None:
    code, said = command(capsys)
    assert code == 1
    assert "-> Restore .history/ from a backup" in said


def test_the_command_prints_json(broken: ApiDocument, capsys: Any) -> None:
    code, said = command(capsys, "--dry-run", "--json")
    report = json.loads(said)
    assert code == 1
    assert (report["dry_run"], report["found"], report["mended"], report["wrong"]) == (True, 1, 0, 1)
    [finding] = report["findings"]
    assert list(finding) == ["kind", "subject", "what", "mended", "wrong", "remedy"]
    assert (finding["kind"], finding["subject"]) == ("vectors_wrong", broken.file_path)


def test_the_command_says_in_a_line_that_another_is_at_it(
    document: ApiDocument, capsys: Any, settings: Any, monkeypatch: Any
) -> None:
    settings.EMBEDDED = False  # an embedded site has one process, and this one would be it
    monkeypatch.setattr("documents.reconcile_door.PATIENCE_SECONDS", 0.0)
    with one_at_a_time(), pytest.raises(CommandError, match="Another process"):
        command(capsys)


def test_a_running_server_does_it_for_the_command(
    broken: ApiDocument, capsys: Any, settings: Any, monkeypatch: Any
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def call(route: str, payload: dict[str, Any]) -> dict[str, Any]:
        asked.append((route, payload))
        announce_server("http://127.0.0.1:8000")
        token = json.loads((settings.DATA_DIR / "server.json").read_text())["token"]
        answer = Client().post(
            route, json.dumps(payload), content_type="application/json", headers={"Authorization": f"Bearer {token}"}
        )
        withdraw_server()
        assert answer.status_code == 200
        return dict(answer.json())

    monkeypatch.setattr("documents.management.commands.reconcile.call_running_server", call)
    monkeypatch.setattr("documents.management.commands.reconcile.run_due_jobs", None)
    code, said = command(capsys)
    assert asked == [("/internal/reconcile/", {"dry_run": False})]
    assert (code, broken.file_path in said) == (0, True)
    broken.refresh_from_db()
    assert broken.status == "PENDING"


# ---- The page --------------------------------------------------------------------------------------------------------
@pytest.fixture
def staff(alice: Any) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def test_the_page_before_the_first_run_says_so(staff: Client) -> None:
    assert "No reconcile has run yet" in readable(staff.get(PAGE))
    assert f'href="{PAGE}"' in staff.get("/admin/").content.decode()


def test_a_look_from_the_page_shows_and_changes_nothing(staff: Client, broken: ApiDocument) -> None:
    page = readable(staff.post(PAGE, {"do": "look"}))
    assert "This was only a look" in page
    assert broken.file_path in page
    assert "0 vectors are there and 2 should be" in page
    assert vectors() == {}
    assert not ReconcileRun.objects.exists()


def test_a_run_from_the_page_mends_and_is_named_after_who_asked(staff: Client, broken: ApiDocument) -> None:
    answer = staff.post(PAGE, {"do": "run"}, follow=True)
    page = readable(answer)
    assert "1 thing was mended." in page
    assert broken.file_path in page
    assert ReconcileRun.objects.get().by == "alice"
    assert "alice" in page
    assert "<script" not in answer.content.decode().split('id="content"')[1]


def test_what_stays_wrong_is_shown_with_what_to_do_in_both_languages(staff: Client, lost: ApiDocument) -> None:
    staff.post(PAGE, {"do": "run"})
    reconcile(by="minute", full=False)
    page = readable(staff.get(PAGE))
    assert "1 stays wrong" in page
    assert "To do: Restore .history/ from a backup" in page
    chinese = readable(staff.get(PAGE, headers={"Accept-Language": "zh-Hans"}))
    assert "请从备份恢复 .history/" in chinese
    assert "Restore" not in chinese


def test_who_may_only_see_may_look_and_not_run(broken: ApiDocument, django_user_model: Any) -> None:
    from django.contrib.auth.models import Permission

    reader = django_user_model.objects.create_user("dora", password="dora-pass-1", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_apidocument"))
    client = Client()
    client.force_login(reader)
    page = client.post(PAGE, {"do": "look"})
    assert broken.file_path in readable(page)
    assert "Run now" not in readable(page)
    assert client.post(PAGE, {"do": "run"}).status_code == 403
    assert not ReconcileRun.objects.exists()


# ---- On the real store -----------------------------------------------------------------------------------------------
def test_on_milvus_lite_lost_and_orphaned_vectors_are_put_right(
    knowledge_base: Path, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    store = {"BACKEND": "clients.vector_store.MilvusVectorStore", "OPTIONS": {"uri": str(tmp_path / "vectors.db")}}
    settings.CLIENTS = {**settings.CLIENTS, "vector_store": store}
    reset_clients()
    first, second = indexed(text()), indexed(text("OTHER_X"), "other.md")
    ApiDocument.objects.update(updated_at=LONG_AGO)
    get_vector_store().discard(first.pk, 1)
    get_vector_store().upsert(second.pk + 500, 3, [vector_of(0)])
    (knowledge_base / "payment" / "foreign.md").write_text(text("FOREIGN"))
    before = files(knowledge_base)
    report = reconcile(by="test", dry_run=True)
    assert report is not None
    assert sorted(one.kind for one in report.findings) == ["file_new", "vectors_orphaned", "vectors_wrong"]
    assert vectors() == {(second.pk, 1): 2, (second.pk + 500, 3): 1}
    report = reconcile(by="test")
    assert report is not None
    assert [one.mended for one in report.findings] == [True, True, True]
    run_due_jobs()
    third = ApiDocument.objects.latest("pk")
    assert vectors() == {(first.pk, 1): 2, (second.pk, 1): 2, (third.pk, 1): 2}
    again = reconcile(by="test")
    assert again is not None
    assert again.findings == []
    assert files(knowledge_base) == before
