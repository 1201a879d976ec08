"""Domains: one row a category, right counts, a plain summary, and nobody's words overwritten (DOM-1 to DOM-3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from documents import domains
from documents.domain_steer import STEER
from documents.domains import counts, ensure_rows, on_document_change, recompute, recompute_dirty
from documents.models import ApiDocument, KnowledgeDomain
from documents.services import delete_document, set_enabled
from documents.worker import run_due_jobs
from tests.documents.library import indexed, text, upload

pytestmark = pytest.mark.django_db


def domain(name: str = "payment") -> KnowledgeDomain:
    return KnowledgeDomain.objects.get(domain_id=name)


def test_counts_are_of_enabled_documents_that_are_not_being_deleted(knowledge_base: Path) -> None:
    ids = [upload(text(f"CODE_{number}"), f"{number}.md").document.pk for number in range(4)]
    set_enabled(document_id=ids[0], enabled=False)
    ApiDocument.objects.filter(pk=ids[1]).update(status="DELETING")
    ApiDocument.objects.filter(pk=ids[2]).update(status="FAILED")
    recompute_dirty(force=True)
    assert domain().document_count == 2
    assert counts() == {"payment": 2}


def test_each_change_of_a_document_makes_its_domain_dirty(knowledge_base: Path) -> None:
    document = indexed(text())
    for change in (
        lambda: upload(text("NEW")),
        lambda: set_enabled(document_id=document.pk, enabled=False),
        lambda: delete_document(document_id=document.pk, user=None),
    ):
        before = domain()
        assert before.dirty_seq == before.computed_seq
        change()
        after = domain()
        assert after.dirty_seq > after.computed_seq
        recompute_dirty(force=True)
    assert domain().document_count == 0


def test_only_the_domain_touched_is_computed_again(knowledge_base: Path) -> None:
    upload(text(), category="api")
    upload(text(), category="payment")
    recompute_dirty(force=True)
    KnowledgeDomain.objects.update(document_count=99)
    upload(text("OTHER"), "other.md", "payment")
    assert recompute_dirty(force=True) == 1
    assert (domain("payment").document_count, domain("api").document_count) == (2, 99)


def test_many_changes_are_one_recomputation(knowledge_base: Path, monkeypatch: Any) -> None:
    for number in range(10):
        upload(text(f"CODE_{number}"), f"{number}.md")
    computed: list[str] = []
    real = domains.count_of

    def count(category: str) -> int:
        computed.append(category)
        return real(category)

    monkeypatch.setattr(domains, "count_of", count)
    recompute_dirty(force=True)
    assert computed == ["payment"]
    assert domain().document_count == 10


def test_a_change_during_the_computation_is_not_overwritten(knowledge_base: Path, monkeypatch: Any) -> None:
    upload(text())
    real = domains.count_of
    calls: list[int] = []

    def changed_meanwhile(category: str) -> int:
        found = real(category)
        calls.append(found)
        if len(calls) == 1:
            upload(text("OTHER"), "other.md")
        return found

    monkeypatch.setattr(domains, "count_of", changed_meanwhile)
    assert recompute("payment")
    assert calls == [1, 2]
    assert domain().document_count == 2


def test_a_change_from_outside_is_computed_at_once(knowledge_base: Path) -> None:
    upload(text())
    on_document_change("payment")
    on_document_change("empty-but-known")
    assert (domain().document_count, domain("empty-but-known").document_count) == (1, 0)


def test_a_plain_summary_of_titles_and_covers_stands_in(knowledge_base: Path) -> None:
    upload("---\ntitle: 支付超时\ncovers: [网关超时, 重试]\n---\nx\n", "a.md")
    upload("---\ntitle: Refunds\n---\nx\n", "b.md")
    recompute_dirty(force=True)
    found = domain()
    assert (found.description, found.description_source) == ("支付超时; Refunds", "plain")
    assert found.when_to_retrieve == f"网关超时; 重试。{STEER['zh']}"
    assert found.when_to_retrieve_source == "plain"


def test_a_summary_is_one_bounded_line(knowledge_base: Path) -> None:
    for number in range(30):
        upload(f"---\ntitle: A rather long title of document {number}\n---\nx\n", f"{number}.md")
    recompute_dirty(force=True)
    description = domain().description
    assert len(description) <= 256
    assert description.endswith("…")
    assert "\n" not in description


@pytest.mark.parametrize("source", ["curator", "model"])
def test_a_curators_or_models_words_are_never_overwritten(knowledge_base: Path, source: str) -> None:
    upload(text())
    KnowledgeDomain.objects.update(
        description="mine", description_source=source, when_to_retrieve="also mine", when_to_retrieve_source=source
    )
    upload(text("OTHER"), "other.md")
    recompute_dirty(force=True)
    found = domain()
    assert (found.description, found.when_to_retrieve, found.document_count) == ("mine", "also mine", 2)


def test_a_category_with_documents_and_no_row_gets_one(knowledge_base: Path) -> None:
    upload(text())
    KnowledgeDomain.objects.all().delete()
    ensure_rows()
    recompute_dirty(force=True)
    assert domain().document_count == 1


def test_a_domain_whose_last_document_went_keeps_its_row_and_its_words(knowledge_base: Path) -> None:
    document = indexed(text())
    KnowledgeDomain.objects.update(description="mine", description_source="curator")
    delete_document(document_id=document.pk, user=None)
    run_due_jobs()
    assert (domain().document_count, domain().description) == (0, "mine")
    assert counts() == {}
