"""The counts that weigh a question's words: they follow every change of the chunks."""

from __future__ import annotations

import pytest

from documents.models import ApiDocument, DocumentChunk, TermCount
from documents.rebuild import _empty_the_store
from documents.services import delete_document
from documents.source import get_source
from documents.terms import packed, term_counts, unpacked
from documents.worker import run_due_jobs
from retrieval.bm25 import query_terms, term_id
from tests.documents.library import indexed, text, upload

pytestmark = pytest.mark.django_db


def counted(word: str) -> int:
    return term_counts(query_terms(word))[0].get(term_id(word), 0)


def recounted() -> dict[int, int]:
    """From the chunks themselves."""
    found: dict[int, int] = {}
    for stored in DocumentChunk.objects.values_list("terms", flat=True):
        found[-1] = found.get(-1, 0) + 1
        for term in unpacked(stored):
            found[term] = found.get(term, 0) + 1
    return found


def stored() -> dict[int, int]:
    return {term: chunks for term, chunks in TermCount.objects.values_list("term", "chunks") if chunks}


def test_ids_are_kept_once_and_in_order() -> None:
    assert unpacked(packed([7, 2**31 - 1, 7, 0])) == (0, 7, 2**31 - 1)
    assert unpacked(packed([])) == ()
    assert unpacked(memoryview(packed([3]))) == (3,)


def test_an_indexed_document_is_counted_by_its_chunks(knowledge_base: object) -> None:
    indexed(text(body="# Zebra\n\nzebra zebra\n\n## Lion\n\nlion\n"), "a.md")
    assert (counted("zebra"), counted("lion"), counted("tiger")) == (2, 1, 0)  # Lion's parent heading counts with it
    assert term_counts([])[1] == 2
    indexed(text(body="# Lion\n\nlion\n"), "b.md")
    assert counted("lion") == 2
    assert stored() == recounted()


def test_a_replaced_document_leaves_no_count_behind(knowledge_base: object) -> None:
    indexed(text(body="# Zebra\n\nzebra\n"), "a.md")
    indexed(text(body="# Lion\n\nlion\n"), "a.md")
    assert (counted("zebra"), counted("lion")) == (0, 1)
    assert stored() == recounted()


def test_a_deleted_document_leaves_no_count_behind(knowledge_base: object) -> None:
    document = indexed(text(), "a.md")
    delete_document(document_id=document.pk, user=None)
    run_due_jobs()
    assert not ApiDocument.objects.exists()
    assert stored() == recounted() == {}


def test_an_upload_onto_a_row_that_is_being_deleted_begins_anew(knowledge_base: object) -> None:
    document = indexed(text(body="# Zebra\n\nzebra\n"), "a.md")
    ApiDocument.objects.filter(pk=document.pk).update(status=ApiDocument.Status.DELETING)
    upload(text(body="# Lion\n\nlion\n"), "a.md")
    assert stored() == recounted() == {}
    run_due_jobs()
    assert counted("lion") == 1
    assert stored() == recounted()


def test_a_store_that_is_made_anew_counts_from_nought(knowledge_base: object) -> None:
    indexed(text(), "a.md")
    assert _empty_the_store()
    assert stored() == recounted() == {}


def test_reindexing_the_same_text_changes_no_count(knowledge_base: object) -> None:
    document = indexed(text(), "a.md")
    before = stored()
    ApiDocument.objects.filter(pk=document.pk).update(status=ApiDocument.Status.PENDING)
    run_due_jobs()
    assert stored() == before == recounted()


def test_a_wide_document_is_counted_whole(knowledge_base: object) -> None:
    words = " ".join(f"word{number}x" for number in range(1500))
    indexed(text(body=f"# Wide\n\n{words}\n"), "a.md")
    assert len(stored()) > 1500
    assert stored() == recounted()


@pytest.mark.parametrize(
    ("body", "in_cjk"),
    [("# 连接池\n\n先看 max_connections。\n", True), ("# Pool\n\nLook at max_connections.\n", False)],
)
def test_the_script_of_the_indexed_text_is_kept(knowledge_base: object, body: str, in_cjk: bool) -> None:
    document = indexed(text(body=body), "a.md")
    assert document.in_cjk is in_cjk
    assert get_source().states([document.pk])[document.pk].in_cjk is in_cjk
