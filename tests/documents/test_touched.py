"""What is at rest: bursts, files that are being written, names that can be no document."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents.touched import GROWING_SECONDS, LONGEST_SECONDS, QUIET_SECONDS, Touched

PAUSE = QUIET_SECONDS * 1.01


class Clock:
    """A time that goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def touched(knowledge_base: Path, clock: Clock) -> Touched:
    return Touched(knowledge_base, clock=clock)


def test_nothing_is_taken_before_it_is_quiet_and_then_all_at_once(touched: Touched, clock: Clock) -> None:
    touched.note(["a.md"])
    clock.now += QUIET_SECONDS / 2
    touched.note(["b.md"])
    clock.now += QUIET_SECONDS * 0.9
    assert touched.take() == frozenset()
    clock.now += QUIET_SECONDS * 0.2
    assert touched.take() == {"a.md", "b.md"}
    assert not touched
    assert touched.take() == frozenset()


def test_a_burst_that_does_not_end_is_taken_by_pieces(touched: Touched, clock: Clock) -> None:
    taken = []
    for number in range(40):
        touched.note([f"{number}.md"])
        clock.now += 0.1
        taken.append(touched.take())
    pieces = [piece for piece in taken if piece]
    assert len(pieces) <= 40 * 0.1 / LONGEST_SECONDS + 1
    clock.now += PAUSE
    pieces.append(touched.take())
    assert sorted(name for piece in pieces for name in piece) == sorted(f"{number}.md" for number in range(40))


def test_a_file_that_is_still_being_written_waits_until_it_is_whole(
    touched: Touched, clock: Clock, knowledge_base: Path
) -> None:
    """Even where the system is silent about it: the second look finds it larger."""
    file = knowledge_base / "slow.md"
    file.write_text("# Half")
    touched.note(["slow.md", "gone.md"])
    file.write_text("# Half, and the other half")
    clock.now += PAUSE
    assert touched.take() == {"gone.md"}
    clock.now += QUIET_SECONDS / 2
    assert touched.take() == frozenset()
    clock.now += PAUSE
    assert touched.take() == {"slow.md"}


def test_a_file_that_never_rests_is_taken_as_it_is_in_the_end(
    touched: Touched, clock: Clock, knowledge_base: Path
) -> None:
    file = knowledge_base / "log.md"
    began, taken = clock.now, frozenset[str]()
    while not taken and clock.now < began + 2 * GROWING_SECONDS:
        with file.open("a") as log:
            log.write("one more line\n")
        touched.note(["log.md"])
        clock.now += 0.1
        taken = touched.take()
    assert taken == {"log.md"}
    assert GROWING_SECONDS <= clock.now - began < GROWING_SECONDS + 2 * LONGEST_SECONDS


@pytest.mark.parametrize(
    "name",
    [
        "payment/.notes.md.swp", "payment/4913", "payment/notes.md~", "payment/#notes.md#", "payment/.#notes.md",
        "payment/notes.md___jb_tmp___", "payment/notes.md___jb_old___", "payment/notes.md.vsctmp", "payment/sedQx81Ab",
        "payment/.~lock.notes.md#", ".git/objects/ab/cdef", ".git/notes.md", ".staging/12.3", ".history/12.3.abc",
        "payment/.obsidian/notes.md", "payment/.notes.md.kate-swp", "payment/.notes.md.2xGh1k",
    ],
)  # fmt: skip
def test_what_editors_and_git_put_beside_is_never_noted(touched: Touched, name: str) -> None:
    touched.note([name], [".git"])
    assert not touched


def test_a_folder_is_noted_for_all_that_lies_below_it(touched: Touched, clock: Clock) -> None:
    touched.note(["payment", "api", "picture.png"], ["payment", "api"])
    clock.now += PAUSE
    assert touched.take() == {"payment", "api"}
