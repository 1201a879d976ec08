"""What people do with drafts: accept, edit, reject, take back, ask again. Their own words are never touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from documents import enrichment_review
from documents.enrichment_review import (
    accept,
    accept_edited,
    drafts_of,
    pending_ids,
    progress,
    regenerate,
    reject,
    restore,
    retry_failed,
    undo,
)
from documents.errors import DocumentError
from documents.generated import FIELDS, in_use
from documents.models import ApiDocument, DocumentEnrichment, KnowledgeDomain
from documents.services import edit_metadata, read_content, request_reindex, set_enabled
from tests.documents.enriching import (
    BARE,
    GOOD,
    Model,
    answers_exactly,
    fresh,
    model,
    row,
    run_all,
    states,
    values,
)
from tests.documents.library import kept, text, upload

__all__ = ["model"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def document(knowledge_base: Path, model: Model) -> ApiDocument:
    """One with five drafts."""
    model.write()
    uploaded = upload(BARE).document
    run_all()
    return fresh(uploaded)


def refused(code: str, status: int) -> Any:
    return pytest.raises(DocumentError, check=lambda fault: (fault.code, fault.status) == (code, status))


def test_accepting_writes_the_file(document: ApiDocument, alice: Any) -> None:
    accept(document.pk, ["title", "keywords"], revision=document.revision, user=alice)
    now = fresh(document)
    assert now.metadata == {"title": GOOD["title"], "keywords": GOOD["keywords"]}
    assert read_content(document_id=document.pk).endswith(BARE.encode())
    assert (now.revision, now.title, kept()) == (2, GOOD["title"], [(1, BARE.encode())])
    assert states(document) == {
        "title": "accepted", "keywords": "accepted", "summary": "draft", "covers": "draft", "when_to_retrieve": "draft",
    }  # fmt: skip
    assert answers_exactly("gateway time-out") == [document.pk]


def test_accepting_everything_leaves_no_draft(document: ApiDocument, alice: Any) -> None:
    accept(document.pk, None, revision=None, user=alice)
    assert set(states(document).values()) == {"accepted"}
    assert in_use(fresh(document).metadata, fresh(document).generated) == (GOOD["covers"], GOOD["when_to_retrieve"])
    assert pending_ids() == []


def test_accepting_never_starts_the_model(document: ApiDocument, model: Model, alice: Any) -> None:
    accept(document.pk, ["title"], revision=None, user=alice)
    run_all()
    assert (len(model.requests), row(document).state) == (1, "DONE")


def test_a_stale_page_accepts_nothing(document: ApiDocument, alice: Any) -> None:
    upload(BARE + "Other text.\n")
    with refused("stale_revision", 409):
        accept(document.pk, ["title"], revision=1, user=alice)
    assert states(document)["title"] == "draft"


def test_a_draft_that_was_made_anew_is_not_accepted_unseen(document: ApiDocument, model: Model, alice: Any) -> None:
    seen = {one.field: one.made_at for one in drafts_of(document)}
    model.write(title="Another title")
    regenerate([document.pk], ["title"])
    run_all()
    with refused("stale_draft", 409):
        accept(document.pk, ["title"], revision=None, user=alice, seen=seen)
    accept(document.pk, ["summary"], revision=None, user=alice, seen=seen)
    assert fresh(document).metadata == {"summary": GOOD["summary"]}


def test_nothing_to_accept_is_said(document: ApiDocument, alice: Any) -> None:
    accept(document.pk, ["title"], revision=None, user=alice)
    with refused("no_draft", 409):
        accept(document.pk, ["title"], revision=None, user=alice)
    with refused("unknown_field", 400):
        accept(document.pk, ["owner"], revision=None, user=alice)
    with refused("not_found", 404):
        accept(4711, ["title"], revision=None, user=alice)


def test_a_malformed_header_takes_no_draft(knowledge_base: Path, model: Model, alice: Any) -> None:
    model.write()
    document = upload(f"---\ntitle: [broken\n---\n{BARE}").document
    run_all()
    with refused("frontmatter_malformed", 409):
        accept(document.pk, ["title"], revision=None, user=alice)
    assert states(document)["title"] == "draft"


def test_the_authors_value_that_came_meanwhile_is_not_written_over(
    document: ApiDocument, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = edit_metadata
    raced: list[ApiDocument] = []

    def racing(**given: Any) -> Any:
        if not raced:
            raced.append(real(document_id=document.pk, changes={"title": "The author's"}, user=alice))
        return real(**given)

    monkeypatch.setattr(enrichment_review, "edit_metadata", racing)
    accept(document.pk, None, revision=None, user=alice)
    assert fresh(document).metadata == {**GOOD, "title": "The author's"}
    assert (states(document)["title"], states(document)["summary"]) == ("edited", "accepted")


def test_a_persons_wording_is_kept_and_the_models_too(document: ApiDocument, model: Model, alice: Any) -> None:
    accept_edited(document.pk, "title", " A better title ", revision=document.revision, user=alice)
    accept_edited(document.pk, "keywords", ["ERR_OWN", "", " bank "], revision=None, user=alice)
    assert fresh(document).metadata == {"title": "A better title", "keywords": ["ERR_OWN", "bank"]}
    assert (states(document)["title"], values(document)["title"]) == ("edited", GOOD["title"])
    upload(read_content(document_id=document.pk).decode() + "New text.\n")
    model.write(title="By the model")
    run_all()
    regenerate([document.pk])
    run_all()
    assert fresh(document).metadata == {"title": "A better title", "keywords": ["ERR_OWN", "bank"]}
    assert (states(document)["title"], values(document)["title"]) == ("edited", GOOD["title"])


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("title", "  ", "empty_value"),
        ("keywords", ["", " "], "empty_value"),
        ("keywords", "one, two", "invalid_value"),
        ("covers", [1], "invalid_value"),
        ("title", ["x"], "invalid_value"),
        ("owner", "x", "unknown_field"),
    ],
)
def test_a_value_that_is_none_is_refused(document: ApiDocument, alice: Any, field: str, value: Any, code: str) -> None:
    with refused(code, 400):
        accept_edited(document.pk, field, value, revision=None, user=alice)
    assert fresh(document).revision == 1


def test_a_person_edits_only_what_a_model_wrote(knowledge_base: Path, model: Model, alice: Any) -> None:
    document = upload(text()).document
    with refused("no_draft", 409):
        accept_edited(document.pk, "title", "x", revision=None, user=alice)


def test_a_rejected_text_is_neither_used_nor_made_anew(document: ApiDocument, model: Model, alice: Any) -> None:
    dirty = KnowledgeDomain.objects.get().dirty_seq
    reject(document.pk, ["covers", "title"], user=alice)
    assert in_use(fresh(document).metadata, fresh(document).generated)[0] == []
    assert KnowledgeDomain.objects.get().dirty_seq == dirty + 1
    upload(BARE + "New text.\n")
    model.write(title="Another", covers=["Another case"])
    run_all()
    assert (states(document)["title"], values(document)["covers"]) == ("rejected", GOOD["covers"])
    with refused("no_draft", 409):
        reject(document.pk, ["title"], user=alice)


def test_a_rejection_is_taken_back(document: ApiDocument, alice: Any) -> None:
    reject(document.pk, ["covers"], user=alice)
    restore(document.pk, "covers")
    assert in_use(fresh(document).metadata, fresh(document).generated)[0] == GOOD["covers"]
    with refused("no_draft", 409):
        restore(document.pk, "covers")


@pytest.mark.parametrize("edited", [False, True])
def test_an_acceptance_is_taken_back(document: ApiDocument, alice: Any, model: Model, edited: bool) -> None:
    if edited:
        accept_edited(document.pk, "covers", ["my own"], revision=None, user=alice)
    else:
        accept(document.pk, ["covers"], revision=None, user=alice)
    undo(document.pk, ["covers"], user=alice)
    assert (fresh(document).metadata or {}) == {}
    assert (states(document)["covers"], values(document)["covers"]) == ("draft", GOOD["covers"])
    run_all()
    assert len(model.requests) == 1
    with refused("no_draft", 409):
        undo(document.pk, ["covers"], user=alice)


def test_several_acceptances_are_taken_back_in_one_revision(document: ApiDocument, alice: Any) -> None:
    accept(document.pk, None, revision=None, user=alice)
    before = fresh(document)
    after = undo(document.pk, list(FIELDS), revision=before.revision, user=alice)
    assert after.revision == before.revision + 1
    assert set(states(document).values()) == {"draft"}
    assert (fresh(document).metadata or {}) == {}


def test_drafts_serve_until_new_ones_are_there(document: ApiDocument, model: Model) -> None:
    regenerate([document.pk])
    assert in_use(None, fresh(document).generated) == (GOOD["covers"], GOOD["when_to_retrieve"])
    model.say("prose")
    run_all()
    assert (row(document).state, values(document)) == ("FAILED", GOOD)
    model.write(title="Another title", covers=["Another case"])
    retry_failed()
    run_all()
    assert (values(document)["title"], values(document)["covers"]) == ("Another title", ["Another case"])


def test_only_the_named_drafts_are_made_anew(document: ApiDocument, model: Model) -> None:
    assert regenerate([document.pk], ["title"]) == 1
    model.write(title="Another title", summary="Another summary of it.")
    run_all()
    assert (values(document)["title"], values(document)["summary"]) == ("Another title", GOOD["summary"])


def test_a_rejected_text_is_made_anew_on_demand(document: ApiDocument, model: Model, alice: Any) -> None:
    reject(document.pk, ["title"], user=alice)
    regenerate([document.pk], ["title"])
    model.write(title="Another title", summary="Another summary of it.")
    run_all()
    assert (states(document)["title"], values(document)["title"]) == ("draft", "Another title")
    assert values(document)["summary"] == GOOD["summary"]


def test_what_a_person_accepted_is_not_made_anew(document: ApiDocument, model: Model, alice: Any) -> None:
    accept(document.pk, ["title"], revision=None, user=alice)
    run_all()
    file = read_content(document_id=document.pk)
    regenerate([document.pk], ["title"])
    model.write(title="Another title")
    run_all()
    assert (values(document)["title"], states(document)["title"]) == (GOOD["title"], "accepted")
    assert read_content(document_id=document.pk) == file


def test_without_a_model_nothing_is_asked_and_nothing_lost(knowledge_base: Path, alice: Any) -> None:
    document = upload(BARE).document
    draft = {"value": "x", "state": "rejected", "model": "m", "made_at": ""}
    ApiDocument.objects.filter(pk=document.pk).update(generated={"title": draft})
    with refused("llm_not_configured", 409):
        regenerate([document.pk])
    with refused("llm_not_configured", 409):
        retry_failed()
    assert states(document) == {"title": "rejected"}
    assert DocumentEnrichment.objects.count() == 0


def test_unknown_documents_are_passed_over(document: ApiDocument, model: Model) -> None:
    assert regenerate([4711, document.pk]) == 1


def test_all_fields_are_shown_with_their_author(knowledge_base: Path, model: Model) -> None:
    model.write()
    document = upload(f"---\ntitle: Mine\n---\n{BARE}").document
    assert [(one.field, one.state) for one in drafts_of(fresh(document))] == [(field, "") for field in GOOD]
    run_all()
    shown = {one.field: one for one in drafts_of(fresh(document))}
    assert (shown["title"].author_value, shown["title"].value, shown["title"].state) == ("Mine", "", "")
    assert (shown["covers"].author_value, shown["covers"].value) == ([], GOOD["covers"])
    assert (shown["covers"].model, bool(shown["covers"].made_at)) == ("served-model", True)


def test_keywords_that_others_have_are_named(knowledge_base: Path, model: Model) -> None:
    other = upload(text("Gateway  TIME-OUT"), "other.md").document
    upload(text("gateway"), "shorter.md")
    model.write()
    document = upload(BARE, "new.md").document
    run_all()
    shown = {one.field: one for one in drafts_of(fresh(document))}
    assert {keyword: [one.pk for one in found] for keyword, found in shown["keywords"].clashes.items()} == {
        "gateway time-out": [other.pk]
    }
    assert shown["keywords"].clashes["gateway time-out"][0].title == "Payment time-outs"


def test_keywords_that_another_setting_reads_settle_a_draft(knowledge_base: Path, model: Model, settings: Any) -> None:
    model.write()
    document = upload(f"---\ntags: [own]\n---\n{BARE}").document
    run_all()
    settings.KEYWORD_FIELDS = ["keywords", "tags"]
    request_reindex(document_id=document.pk)
    assert states(document)["keywords"] == "edited"


def test_the_progress_and_what_waits_for_a_person(knowledge_base: Path, model: Model, alice: Any) -> None:
    model.write()
    first = upload(BARE, "1.md").document
    second = upload(BARE + "second\n", "2.md").document
    tricky = '"state": "draft"'
    third = upload(f"---\n{_header(tricky)}---\n{BARE}third\n", "3.md").document
    run_all()
    now = progress()
    assert (now.waiting, now.running, now.done, now.failed, now.drafts) == (0, 0, 3, 0, 2)
    assert pending_ids() == [first.pk, second.pk]
    accept(first.pk, None, revision=None, user=alice)
    assert (pending_ids(), third.generated) == ([second.pk], {})


def test_a_hidden_document_is_not_counted_as_waiting(knowledge_base: Path, model: Model) -> None:
    document = upload(BARE).document
    run_all()
    set_enabled(document_id=document.pk, enabled=False)
    model.write()
    regenerate([document.pk])
    assert row(document).state == "WAITING"
    assert (progress().waiting, progress().running) == (0, 0)
    set_enabled(document_id=document.pk, enabled=True)
    assert progress().waiting == 1


def _header(title: str) -> str:
    return f"title: '{title}'\nsummary: x\nkeywords: [ab]\ncovers: [x]\nwhen_to_retrieve: x\n"


def test_a_text_that_looks_like_a_state_is_no_draft(knowledge_base: Path) -> None:
    document = upload(BARE).document
    sly = {"value": '"state": "draft"', "state": "accepted", "model": "m", "made_at": ""}
    ApiDocument.objects.filter(pk=document.pk).update(generated={"title": sly})
    assert pending_ids() == []
