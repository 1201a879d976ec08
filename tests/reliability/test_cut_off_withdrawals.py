"""A process that dies while it takes back a revision that could not be published: the former text must answer on."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from documents import publishing, storage
from documents.models import ApiDocument
from documents.services import read_content
from documents.worker import run_due_jobs
from tests.documents.library import files, indexed, text, upload

pytestmark = pytest.mark.django_db(transaction=True)
OLD = text("OLD_CODE", "# A\n\nold text\n")
NEW = text("NEW_CODE", "# B\n\nnew text\n")


class Killed(BaseException):
    """What no handler of the product catches: as good as dead."""


def die_at(monkeypatch: pytest.MonkeyPatch, *places: str) -> None:
    def failpoint(place: str) -> None:
        if place in places:
            raise Killed(place)

    monkeypatch.setattr(publishing, "failpoint", failpoint)


def disk_full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def document(knowledge_base: Path) -> ApiDocument:
    return indexed(OLD)


def test_the_former_text_answers_where_the_rename_never_was(
    document: ApiDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_at(monkeypatch, "withdraw.before_commit")
    monkeypatch.setattr(storage, "put_in_place", disk_full)
    with pytest.raises(Killed):
        upload(NEW)
    monkeypatch.undo()
    all_is_well(document, {OLD.encode(), NEW.encode()})


def test_the_former_text_answers_where_it_lay_in_its_place_again(
    document: ApiDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_at(monkeypatch, "withdraw.before_commit")
    rename = storage.put_in_place

    def renamed_but_not_synced(source: Path, file_path: str) -> None:
        rename(source, file_path)
        if "tmp-" not in source.name:  # the way back is quicker than the fault
            disk_full()

    monkeypatch.setattr(storage, "put_in_place", renamed_but_not_synced)
    with pytest.raises(Killed):
        upload(NEW)
    monkeypatch.undo()
    all_is_well(document, {OLD.encode(), NEW.encode()})


def all_is_well(document: ApiDocument, allowed: set[bytes]) -> None:
    for _ in range(2):  # one round takes the file in, the next makes its vectors
        run_due_jobs()
    document.refresh_from_db()
    assert (document.status, document.missing_since) == ("INDEXED", None), document.status_reason
    assert document.indexed_revision == document.published_revision == document.revision
    content = read_content(document_id=document.pk)
    assert content in allowed
    assert storage.content_hash(content) == document.content_hash
    assert [name for name in files(storage.base()) if name.startswith(storage.STAGING)] == []
