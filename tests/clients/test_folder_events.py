"""What the system tells of changes: each name, new folders too, nothing beyond the folder; the limit by its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.folder_events import FAILED, LIMIT, Changes, FolderEvents
from clients.interfaces import ClientError

PATIENCE = 15.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    (base / "payment").mkdir(parents=True)
    (base / ".git").mkdir()
    return base


@pytest.fixture
def events(folder: Path) -> Iterator[FolderEvents]:
    made = FolderEvents(folder)
    yield made
    made.close()


def heard(events: FolderEvents, *names: str) -> Changes:
    """Everything that is told until all ``names`` were."""
    paths, folders, everything = set[str](), set[str](), False
    until = time.monotonic() + PATIENCE
    while not set(names) <= paths and not everything and time.monotonic() < until:
        changes = events.wait(0.2)
        paths |= changes.paths
        folders |= changes.folders
        everything |= changes.everything
    assert everything or set(names) <= paths
    return Changes(frozenset(paths), frozenset(folders), everything)


def test_a_file_is_told_by_its_name_whatever_was_done_to_it(events: FolderEvents, folder: Path) -> None:
    file = folder / "payment" / "a.md"
    file.write_text("one")
    heard(events, "payment/a.md")
    file.write_text("two")
    heard(events, "payment/a.md")
    file.rename(folder / "b.md")
    assert "b.md" not in heard(events, "payment/a.md", "b.md").folders
    (folder / "b.md").unlink()
    heard(events, "b.md")


def test_nothing_is_told_of_dot_folders(events: FolderEvents, folder: Path) -> None:
    (folder / ".git" / "index").write_text("x")
    (folder / "last.md").write_text("x")
    assert heard(events, "last.md").paths == {"last.md"}


def test_a_folder_that_is_made_is_watched_with_all_that_is_in_it(events: FolderEvents, folder: Path) -> None:
    (folder / "new" / "deep").mkdir(parents=True)
    assert "new" in heard(events, "new").folders
    (folder / "new" / "deep" / "a.md").write_text("x")
    heard(events, "new/deep/a.md")


def test_a_folder_that_was_made_again_is_watched_again(events: FolderEvents, folder: Path) -> None:
    shutil.rmtree(folder / "payment")
    (folder / "payment").mkdir()
    assert "payment" in heard(events, "payment").folders
    (folder / "payment" / "a.md").write_text("x")
    heard(events, "payment/a.md")


def test_a_folder_that_came_and_went_between_two_looks_is_told(events: FolderEvents, folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "new").rename(folder / "newer")
    assert {"new", "newer"} <= heard(events, "new", "newer").folders


def test_a_folder_that_goes_is_told(events: FolderEvents, folder: Path, tmp_path: Path) -> None:
    (folder / "payment").rename(tmp_path / "elsewhere")
    assert heard(events, "payment").folders == {"payment"}
    (tmp_path / "elsewhere" / "a.md").write_text("x")  # it is nobody's any more
    (folder / "last.md").write_text("x")
    assert heard(events, "last.md").paths <= {"last.md", "payment"}


def test_links_are_not_followed_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "payment" / "loop").symlink_to(folder)
    events = FolderEvents(folder)
    try:
        assert events.folders == {"", "payment"}
        (outside / "deep" / "a.md").write_text("x")
        (folder / "last.md").write_text("x")
        assert heard(events, "last.md").paths == {"last.md"}
    finally:
        events.close()


@pytest.mark.parametrize("comes_another", [False, True])
def test_a_folder_that_is_moved_away_is_told_as_everything(
    events: FolderEvents, folder: Path, comes_another: bool
) -> None:
    folder.rename(folder.with_name("away"))
    if comes_another:
        folder.mkdir()
    assert heard(events, "-").everything
    assert not events.is_current()


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(ClientError) as fault:
        FolderEvents(tmp_path / "nowhere")
    assert fault.value.code == FAILED


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("unshare") is None, reason="a limit of one's own: Linux")
@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_the_limit_of_the_system_is_told_by_its_name(folder: Path, limit: str) -> None:
    """In a user namespace of its own, where the limit is one of one's own."""
    for number in range(5):
        (folder / str(number)).mkdir()
    program = (
        "import sys\nfrom pathlib import Path\nfrom clients.folder_events import FolderEvents\n"
        "from clients.interfaces import ClientError\n"
        "try:\n    FolderEvents(Path(sys.argv[1]))\nexcept ClientError as fault:\n    print(fault.code)\n"
    )
    lower = f'echo 0 > /proc/sys/user/{limit} || exit 77; exec "$0" -c \'{program}\' "$1"'
    command = ["unshare", "-Ur", "sh", "-c", lower, sys.executable, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.getcwd(), timeout=60)  # noqa: PTH109
    if done.returncode in {1, 77} and not done.stdout:
        pytest.skip(f"no user namespace here: {done.stderr.strip()}")
    assert done.stdout.strip() == LIMIT, done.stderr
