"""What the interleavings share: threads that are stopped at a named place, and a look at every store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from agents.tools import ToolContext, call_tool
from clients.registry import get_vector_store
from documents import failpoints, storage
from documents.models import ApiDocument, DocumentChunk
from documents.services import read_content
from documents.source import get_keyword_index
from documents.worker import run_due_jobs
from tests.documents.library import files, text

PATIENCE = 20.0
OLD = text("OLD_CODE", "# Marmalade\n\nThe old text speaks of marmalade and lighthouses.\n")
NEW = text("NEW_CODE", "# Harbour\n\nThe new text speaks of cranes.\n\n# Docks\n\nAnd of docks.\n", title="New title")
NEWER = text("NEWER_CODE", "# Airport\n\nThe newest text speaks of runways.\n")
PATH = "knowledge_base/payment/timeouts.md"


class Work(threading.Thread):
    """Something that a thread of its own does, with a connection of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.answer: Any = None
        self.fault: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._call()
        except BaseException as fault:  # noqa: BLE001 (handed to whoever waits)
            self.fault = fault
        finally:
            connection.close()

    def done(self) -> Any:
        """Its answer; raises what it raised."""
        self.join(PATIENCE)
        assert not self.is_alive(), "it hangs"
        if self.fault is not None:
            raise self.fault
        return self.answer


class Places:
    """Stops threads at failpoints."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def fill_disk_at(self, place: str) -> None:
        """The disk is full there, once."""
        (self._folder / place).write_text("full")

    @contextmanager
    def stopped(self, place: str, call: Callable[[], Any]) -> Iterator[Work]:
        """``call`` runs until it comes by the place, and goes on after the block."""
        (self._folder / place).write_text("pause")
        hit = self._folder / f"{place}.hit"
        work = Work(call)
        try:
            self._until(lambda: hit.exists() or not work.is_alive(), f"nobody came by {place}")
            assert hit.exists(), f"it ended before {place}: {work.fault!r}"
            yield work
        finally:
            for left in self._folder.iterdir():
                left.unlink(missing_ok=True)
            work.join(PATIENCE)
        work.done()

    def go_on(self, place: str, *, until: str) -> None:
        """Inside :meth:`stopped`: let it go on from one place to another."""
        (self._folder / until).write_text("pause")
        (self._folder / f"{place}.hit").unlink()
        self._until((self._folder / f"{until}.hit").exists, f"nobody came by {until}")

    @staticmethod
    def _until(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.005)

    @contextmanager
    def armed(self) -> Iterator[None]:
        failpoints.arm(self._folder)
        try:
            yield
        finally:
            failpoints.arm(None)


def look_up(query: str) -> list[str]:
    """The paths that a lookup serves."""
    content = served(query)
    return [content[role]["source"] for role in ("primary", "supplement") if content[role]]


def served(query: str) -> dict[str, Any]:
    """What a lookup answers."""
    context = ToolContext(principal="alice", channel="api")
    return dict(call_tool("lookup_knowledge", {"query": query}, context).content)


def holds(content: str) -> None:
    """After all jobs, this text and nothing else is what file, row, keyword index and vectors hold."""
    run_due_jobs()
    run_due_jobs()
    row = ApiDocument.objects.get()
    data = content.encode()
    assert row.status == "INDEXED", row.status_reason
    assert row.indexed_revision == row.published_revision == row.revision
    assert read_content(document_id=row.pk) == data
    assert row.content_hash == row.indexed_hash == storage.content_hash(data)
    visible = [name for name in files(storage.base()) if not name.startswith(storage.HISTORY)]
    assert visible == ["payment/timeouts.md"]
    wanted = {(row.pk, row.revision): row.chunk_count}
    assert get_vector_store().counts() == wanted
    assert DocumentChunk.objects.filter(document=row, revision=row.revision).count() == DocumentChunk.objects.count()
    codes = {"OLD_CODE": OLD, "NEW_CODE": NEW, "NEWER_CODE": NEWER}
    exact = {code for code in codes if get_keyword_index().exact_match(code)}
    assert exact == {code for code, one in codes.items() if one == content}


def nothing_left() -> None:
    """After all jobs, no store holds anything of it."""
    run_due_jobs()
    run_due_jobs()
    assert list(ApiDocument.objects.values_list("file_path", "status")) == []
    assert [name for name in files(storage.base()) if not name.startswith(storage.HISTORY)] == []
    assert get_vector_store().counts() == {}
    assert DocumentChunk.objects.count() == 0
    assert look_up("OLD_CODE") == []
    assert look_up("NEW_CODE") == []
