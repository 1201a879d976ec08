"""Hints to Celery: nobody waits for a broker, a burst is few messages, an outage is told once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from documents import tasks, wakeup
from documents.jobs import Claim
from documents.models import ApiDocument
from documents.wakeup import RUN_DUE_JOBS, RUN_LLM_JOBS, Hint, Hints, hints, wake_llm_worker, wake_worker
from tests.documents.library import text

HINT = Hint("memory://", "q", RUN_DUE_JOBS)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_nobody_waits_for_a_broker_that_says_nothing(
    scheme: str, silent: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(wakeup, "ANSWER_SECONDS", 0.5)
    settings.CELERY_BROKER_URL = f"{scheme}://127.0.0.1:{silent}//"
    answered = []

    def hint() -> None:
        wake_worker()
        answered.append(hints.flush(0))

    thread = threading.Thread(target=hint)
    thread.start()
    thread.join(10)
    assert answered == [False]  # back in the caller's hands while the broker is still being asked
    assert hints.flush(60)  # and the asking has an end


def test_hints_while_one_is_on_its_way_are_one_message() -> None:
    sent, go = [], threading.Event()

    def send(hint: Hint) -> None:
        sent.append(hint)
        go.wait(10)

    hints = Hints(send)
    hints.give(HINT)
    while not sent:
        time.sleep(0.001)
    for _ in range(300):
        hints.give(HINT)
    other = Hint("memory://", "q-llm", RUN_LLM_JOBS)
    hints.give(other)
    go.set()
    assert hints.flush(10)
    assert sent == [HINT, HINT, other]


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "documents.wakeup")
    away = True

    def send(_hint: Hint) -> None:
        if away:
            raise ConnectionError("amqp://user:s3cret@host refused")

    hints = Hints(send)
    for _ in range(3):
        hints.give(HINT)
        assert hints.flush(10)
    away = False
    for _ in range(3):
        hints.give(HINT)
        assert hints.flush(10)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "s3cret" not in caplog.text


def test_each_task_goes_to_its_own_queue(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Hint] = []
    settings.CELERY_BROKER_URL = "memory://"
    monkeypatch.setattr("documents.wakeup.hints.give", given.append)
    wake_worker()
    wake_llm_worker()
    assert [(hint.task, hint.queue) for hint in given] == [(RUN_DUE_JOBS, "kbsite"), (RUN_LLM_JOBS, "kbsite-llm")]


@pytest.mark.django_db(transaction=True)
def test_where_several_documents_wait_the_next_process_is_woken(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(tasks, "wake_worker", lambda **later: woken.extend([] if later else ["woken"]))
    (knowledge_base / "a.md").write_text(text())
    tasks.scan_folder()
    tasks.run_due()
    assert woken == []
    for name in ("b", "c"):
        (knowledge_base / f"{name}.md").write_text(text(title=name))
    tasks.scan_folder()
    tasks.run_due()
    assert woken == ["woken"]


@pytest.mark.django_db(transaction=True)
def test_a_task_that_has_worked_long_hands_over(knowledge_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    begun: list[Claim] = []
    monkeypatch.setattr(tasks, "wake_worker", lambda **later: woken.extend([] if later else ["woken"]))
    monkeypatch.setattr(tasks, "TURN_SECONDS", 0.05)

    def slowly(job: Claim, _tool: Any) -> None:
        begun.append(job)
        time.sleep(0.1)

    monkeypatch.setattr("documents.worker.index_claimed", slowly)
    for name in ("a", "b", "c"):
        (knowledge_base / f"{name}.md").write_text(text(title=name))
    tasks.scan_folder()
    assert tasks.run_due() == 1
    assert len(begun) == 1
    assert woken == ["woken", "woken"]
    assert ApiDocument.objects.filter(status="PENDING").count() == 2
