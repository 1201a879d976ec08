"""Documents as retrieval sees them: the keyword index, the row check, bodies, sections, chunks (DOC-3, DOC-10)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clients.interfaces import ClientError
from clients.registry import get_vector_store
from documents import uploads
from documents.models import ApiDocument
from documents.services import delete_document, edit_metadata, set_enabled
from documents.source import DjangoDocumentSource, get_keyword_index, get_source, read_document
from documents.worker import run_due_jobs
from retrieval.interfaces import DocumentSource
from retrieval.keyword_sync import SyncedKeywordIndex
from tests.documents.library import BODY, indexed, text, upload

pytestmark = pytest.mark.django_db
OLD = text("OLD_CODE", "# A\n\nold text\n")
NEW = text("NEW_CODE", "# B\n\nnew text\n")


@pytest.fixture
def source() -> DocumentSource:
    return DjangoDocumentSource()


def hits(query: str, index: SyncedKeywordIndex | None = None) -> list[int]:
    """Documents found by keyword, as a lookup does it: refresh, match, check the rows."""
    index = index or get_keyword_index()
    return [match.entry.document_id for match in index.exact_match(query)]


def test_a_document_is_found_by_keyword_as_soon_as_its_upload_is_answered(knowledge_base: Path) -> None:
    document = upload(OLD).document
    assert document.status == "PENDING"
    assert hits("what is OLD_CODE?") == [document.pk]


def test_a_replacement_is_found_by_its_new_keywords_only(knowledge_base: Path) -> None:
    document = upload(OLD).document
    assert hits("OLD_CODE") == [document.pk]
    upload(NEW)
    assert hits("OLD_CODE") == []
    assert hits("NEW_CODE") == [document.pk]


def test_a_document_whose_vectors_cannot_be_made_is_found_by_keyword(knowledge_base: Path, monkeypatch: Any) -> None:
    def down(*_args: Any) -> None:
        raise ClientError("down", code="store_unavailable", retryable=True)

    monkeypatch.setattr(get_vector_store(), "open", down)
    document = upload(OLD).document
    run_due_jobs()
    document.refresh_from_db()
    assert document.status == "FAILED"
    assert hits("OLD_CODE") == [document.pk]


def test_a_deleted_document_leaves_every_index_whenever_it_looks(knowledge_base: Path) -> None:
    mine, other = SyncedKeywordIndex(get_source()), SyncedKeywordIndex(DjangoDocumentSource())
    document = upload(OLD).document
    assert hits("OLD_CODE", mine) == hits("OLD_CODE", other) == [document.pk]
    delete_document(document_id=document.pk, user=None)
    assert hits("OLD_CODE", mine) == hits("OLD_CODE", other) == []
    assert len(mine) == len(other) == 0  # gone from memory too, though neither saw the row DELETING


def test_a_hidden_document_leaves_the_index_and_comes_back(knowledge_base: Path) -> None:
    document = upload(OLD).document
    set_enabled(document_id=document.pk, enabled=False)
    assert hits("OLD_CODE") == []
    set_enabled(document_id=document.pk, enabled=True)
    assert hits("OLD_CODE") == [document.pk]


def test_a_document_without_keywords_is_not_in_the_index(source: DocumentSource) -> None:
    document = upload("# Plain\n\ntext\n").document
    changes = source.entries_since(0)
    assert (list(changes.entries), list(changes.removed)) == ([], [document.pk])


def test_an_entry_says_what_the_author_said(source: DocumentSource) -> None:
    upload("---\ntitle: T\nsummary: S\nkeywords: a1, 超时\ntags: [x]\n---\nbody\n")
    entry = source.entries_since(0).entries[0]
    assert (entry.title, entry.summary, entry.keywords) == ("T", "S", ("a1", "超时"))
    assert (entry.category, entry.file_path) == ("payment", "knowledge_base/payment/timeouts.md")


def test_other_fields_give_keywords_only_where_the_setting_names_them(source: DocumentSource, settings: Any) -> None:
    upload("---\nkeywords: [one]\ntags: [two]\n---\nbody\n")
    settings.KEYWORD_FIELDS = ("keywords", "tags")
    assert source.entries_since(0).entries[0].keywords == ("one", "two")


def test_only_what_changed_since_is_read(source: DocumentSource) -> None:
    upload(OLD, "a.md")
    before = source.sequence()
    later = upload(NEW, "b.md").document
    changes = source.entries_since(before)
    assert [entry.document_id for entry in changes.entries] == [later.pk]
    assert changes.sequence == source.sequence() > before
    assert list(source.entries_since(changes.sequence).entries) == []


def test_the_counter_and_the_states_are_one_query_each(source: DocumentSource) -> None:
    ids = [upload(text(f"CODE_{n}"), f"{n}.md").document.pk for n in range(5)]
    with CaptureQueriesContext(
        connection,
    ) as queries:
        source.sequence()
        found = source.states([*ids, 404])
    assert len(queries) == 2
    assert sorted(found) == ids


def test_a_state_tells_the_current_revision_from_the_indexed_one(source: DocumentSource) -> None:
    document = indexed(OLD)
    former = document.content_hash
    upload(NEW)
    document.refresh_from_db()
    state = source.states([document.pk])[document.pk]
    assert (state.revision, state.indexed_revision) == (2, 1)
    assert (state.content_hash, state.indexed_hash) == (document.content_hash, former)
    assert (state.title, state.domain, state.file_path) == (document.title, "payment", document.file_path)
    assert state.servable


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False},
        {"status": "DELETING"},
        {"published_revision": 0},
        {"missing_since": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_must_not_be_served_is_not_servable(source: DocumentSource, change: dict[str, Any]) -> None:
    document = upload(OLD).document
    ApiDocument.objects.update(**change)
    assert not source.states([document.pk])[document.pk].servable
    ApiDocument.objects.update(seq=10**12)
    assert document.pk in source.entries_since(0).removed


@pytest.mark.parametrize("status", ["PENDING", "INDEXING", "INDEXED", "FAILED"])
def test_whatever_the_vectors_do_the_text_is_servable(source: DocumentSource, status: str) -> None:
    document = upload(OLD).document
    ApiDocument.objects.update(status=status)
    assert source.states([document.pk])[document.pk].servable


def test_a_body_comes_without_the_header(source: DocumentSource) -> None:
    document = upload(text()).document
    assert source.body(document.pk, 1) == BODY


def test_a_body_is_read_from_staging_until_it_is_published(source: DocumentSource, monkeypatch: Any) -> None:
    document = upload(OLD).document
    monkeypatch.setattr(uploads, "_publish_or_withdraw", lambda *_args, **_kwargs: None)
    upload(NEW)
    assert source.body(document.pk, 2) == "# B\n\nnew text\n"
    assert hits("NEW_CODE") == [document.pk]


def test_a_lookup_that_began_before_a_replacement_still_reads_its_text(source: DocumentSource) -> None:
    document = upload(OLD).document
    upload(NEW)
    assert source.body(document.pk, 1) == "# A\n\nold text\n"
    assert source.body(document.pk, 2) == "# B\n\nnew text\n"


def test_the_body_of_a_deleted_or_missing_document_is_none(source: DocumentSource, knowledge_base: Path) -> None:
    gone, missing = upload(OLD, "a.md").document, upload(NEW, "b.md").document
    delete_document(document_id=gone.pk, user=None)
    (knowledge_base / "payment" / "b.md").unlink()
    assert source.body(gone.pk, 1) is None
    assert source.body(missing.pk, 1) is None
    assert list(source.sections(missing.pk, 1)) == []


def test_an_edit_on_disk_is_read_although_the_body_was_cached(source: DocumentSource, knowledge_base: Path) -> None:
    document = upload(OLD).document
    assert source.body(document.pk, 1) == "# A\n\nold text\n"
    (knowledge_base / "payment" / "timeouts.md").write_text("edited by hand, longer than before")
    assert source.body(document.pk, 1) == "edited by hand, longer than before"


def test_a_body_is_parsed_once(source: DocumentSource, monkeypatch: Any) -> None:
    document = upload(OLD).document
    first = source.body(document.pk, 1)
    monkeypatch.setattr("documents.source.body_of", lambda _data: 1 / 0)
    assert source.body(document.pk, 1) == first
    assert [section.title for section in source.sections(document.pk, 1)] == ["A"]


def test_the_cache_is_bounded(source: DjangoDocumentSource, monkeypatch: Any) -> None:
    monkeypatch.setattr("documents.source._CACHED_CHARACTERS", 30)
    ids = [upload(text(f"C_{n}", "x" * 20), f"{n}.md").document.pk for n in range(4)]
    assert [source.body(pk, 1) for pk in ids] == ["x" * 20] * 4
    assert len(source._cache._bodies) == 1


def test_reading_a_body_says_nothing_of_its_header_again(
    source: DocumentSource, caplog: pytest.LogCaptureFixture
) -> None:
    document = upload("---\ntitle: [a\n---\nbody\n").document
    caplog.clear()
    assert source.body(document.pk, 1) == "---\ntitle: [a\n---\nbody\n"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_chunks_come_by_key_in_one_query_and_by_revision_in_order(source: DocumentSource) -> None:
    document = indexed(text("X", "# A\n\none\n\n# B\n\ntwo\n"))
    keys = [(document.pk, 1, 1), (document.pk, 1, 0), (document.pk, 9, 0), (404, 1, 0)]
    with CaptureQueriesContext(connection) as queries:
        found = source.chunks(keys)
    assert len(queries) == 1
    assert sorted(found) == [(document.pk, 1, 0), (document.pk, 1, 1)]
    chunk = found[document.pk, 1, 1]
    assert (chunk.section, chunk.heading_path) == ("B", ("B",))
    body = source.body(document.pk, 1)
    assert body is not None
    assert body[chunk.start : chunk.end] == chunk.text
    assert [one.number for one in source.revision_chunks(document.pk, 1)] == [0, 1]
    assert source.chunks([]) == {}


def test_read_document_cuts_with_three_dots_only_if_cut() -> None:
    upload(text("X", "a" * 2000), "exact.md")
    upload(text("X", "a" * 2001), "longer.md")
    assert read_document("knowledge_base/payment/exact.md", 2000) == "a" * 2000
    assert read_document("knowledge_base/payment/longer.md") == "a" * 2000 + "..."


def test_read_document_of_a_missing_file_is_an_error_in_the_log_and_none(
    knowledge_base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upload(OLD)
    (knowledge_base / "payment" / "timeouts.md").unlink()
    assert read_document("knowledge_base/payment/timeouts.md") is None
    assert read_document("knowledge_base/payment/never.md") is None
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert any("timeouts.md" in line for line in errors)
    assert any("never.md" in line for line in errors)


@pytest.mark.django_db(transaction=True)
def test_lookups_beside_replacements_always_read_a_whole_text(knowledge_base: Path) -> None:
    document = upload(text("KEY", "text 0\n")).document
    source, stop = DjangoDocumentSource(), threading.Event()
    wrong: list[Any] = []

    def in_thread(step: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                step()
            except Exception as fault:  # noqa: BLE001 (handed to the test)
                wrong.append(fault)
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def read() -> None:
        while not stop.is_set():
            state = source.states([document.pk])[document.pk]
            body = source.body(document.pk, state.revision)
            if body is None or not body.startswith("text "):
                wrong.append((state.revision, body))

    readers = [in_thread(read) for _ in range(2)]
    for number in range(1, 15):
        upload(text("KEY", f"text {number}\n"))
    edit_metadata(document_id=document.pk, changes={"title": "last"}, user=None)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
