"""L1 on the whole lookup: row checks, enough chunks, levels of another space, older revisions (SPEC section 6, 7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clients.interfaces import LevelFit, Matrix, Vector
from retrieval.hybrid import FIRST_TOP_K
from tests.retrieval.fakes import Document, FixedEmbedder, World


def near(document_id: int, similarity: float, *, sections: int = 1) -> Document:
    body = "\n\n".join(f"# 节 {number}\n\n内容 {document_id}-{number}。" for number in range(sections))
    path = f"knowledge_base/api/{document_id}.md"
    return Document(document_id, path, f"文档 {document_id}", body, near={f"内容 {document_id}-": similarity})


def test_one_document_of_many_near_chunks_does_not_hide_the_others() -> None:
    world = World(near(1, 0.9, sections=200), near(2, 0.7), near(3, 0.6), near(4, 0.55))
    outcome = world.look_up("怎么办")
    assert outcome.details["l1_match_count"] == 3
    assert outcome.details["l1_scores"] == pytest.approx([0.2, 0.6, 0.8], abs=1e-5)


def test_documents_that_may_not_be_served_do_not_take_the_place_of_others() -> None:
    world = World(*(near(number, 0.9 - number / 1000) for number in range(1, 60)), near(60, 0.6))
    for number in range(1, 60):
        world.hide(number)
    outcome = world.look_up("怎么办")
    assert [document.document_id for document in outcome.served] == [60]


def test_at_most_three_documents_are_hits() -> None:
    world = World(*(near(number, 0.9 - number / 100) for number in range(1, 8)))
    assert world.look_up("怎么办").details["l1_match_count"] == 3


def test_each_document_counts_with_its_best_chunk() -> None:
    body = "# 甲\n\n一般。\n\n# 乙\n\n最好。\n"
    world = World(Document(1, "knowledge_base/api/1.md", "文档", body, near={"一般": 0.6, "最好": 0.8}))
    outcome = world.look_up("怎么办")
    assert outcome.served[0].section == "乙"
    assert outcome.l1_top_similarity == pytest.approx(0.8, abs=1e-5)


def test_a_hit_of_a_revision_that_is_not_the_indexed_one_does_not_count() -> None:
    world = World(near(1, 0.9))
    world.rows[1] = replace(world.rows[1], indexed_revision=2)
    assert world.look_up("怎么办").result.found is False


def test_a_document_deleted_since_it_was_indexed_is_found_neither_way() -> None:
    world = World(replace(near(1, 0.9), keywords=("ERR_1",)))
    world.hide(1)
    assert world.look_up("ERR_1").result.found is False
    world.rows.clear()
    assert world.look_up("ERR_1").result.found is False


def test_a_document_deleted_between_the_row_check_and_the_reading_is_not_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(replace(near(1, 0.9), keywords=("ERR_1",)))

    def gone(document_id: int, revision: int) -> str | None:
        world.rows.clear()
        return None

    monkeypatch.setattr(world, "body", gone)
    outcome = world.look_up("ERR_1")
    assert outcome.result.found is False
    assert outcome.degraded == ""
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_document_replaced_between_the_row_check_and_the_reading_gives_its_new_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(replace(near(1, 0.9), keywords=("ERR_1",)))
    read = world.body

    def replaced(document_id: int, revision: int) -> str | None:
        monkeypatch.setattr(world, "body", read)
        world.put(replace(near(1, 0.9), body="# 新\n\n新的。\n", keywords=("ERR_1",)))
        return None

    monkeypatch.setattr(world, "body", replaced)
    outcome = world.look_up("ERR_1", session="s")
    assert outcome.result.primary is not None
    assert outcome.result.primary.content == "# 新\n\n新的。\n"
    assert world.look_up("ERR_1", session="s").dedup_reason == "doc_retrieved"


def test_a_disabled_document_does_not_keep_another_from_being_the_only_match() -> None:
    one = Document(1, "knowledge_base/api/1.md", "甲", "# 甲\n", keywords=("ERR_1",))
    two = Document(2, "knowledge_base/api/2.md", "乙", "# 乙\n", keywords=("ERR_1",))
    world = World(one, two)
    world.hide(1)
    outcome = world.look_up("ERR_1")
    assert outcome.result.relevance_level == "PRECISE"
    assert outcome.l0_match_count == 1


def test_rows_are_checked_only_as_far_as_they_are_needed() -> None:
    documents = [
        Document(number, f"knowledge_base/api/{number}.md", f"文档 {number}", "# 甲\n", keywords=("ERR_1",))
        for number in range(1, 500)
    ]
    world = World(*documents)
    outcome = world.look_up("ERR_1")
    assert outcome.l0_match_count == 499
    assert sum(len(asked) for asked in world.states_asked) <= 50 + FIRST_TOP_K


def test_the_older_text_answers_by_meaning_until_the_new_vectors_are_in() -> None:
    world = World(replace(near(1, 0.9), keywords=("ERR_1",)))
    world.put(replace(near(1, 0.9), body="# 新\n\n新的。\n", keywords=("ERR_1",)), index_vectors=False)
    assert "新的" in str(world.look_up("ERR_1").result.as_dict()["primary"]["content"])
    supplement: Any = world.look_up("怎么办").result.as_dict()["supplement"]
    assert supplement["content"] == "# 节 0\n\n内容 1-0。"


def test_a_vector_whose_text_is_gone_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World(near(1, 0.9), near(2, 0.6))
    world.chunk_rows = {key: row for key, row in world.chunk_rows.items() if key[0] != 1}
    outcome = world.look_up("怎么办")
    assert [document.document_id for document in outcome.served] == [2]
    assert any("1:1:0" in record.message for record in caplog.records if record.levelname == "WARNING")


class OwnSpaceEmbedder(FixedEmbedder):
    """Ranks by one cosine and takes levels from another: here 0.4 of it."""

    name = "own"
    own_level_space = True
    fit = LevelFit(highly_relevant=0.35, reference=0.25)

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        cosines: Vector = np.asarray(documents @ query * 0.4, dtype=np.float32)
        return cosines


def test_levels_of_an_embedder_with_a_space_of_its_own_are_computed_there() -> None:
    world = World(near(1, 0.9), near(2, 0.7), near(3, 0.5), embedder=OwnSpaceEmbedder())
    outcome = world.look_up("怎么办")
    assert outcome.l1_top_similarity == pytest.approx(0.36, abs=1e-5)
    assert outcome.result.relevance_level == "HIGHLY_RELEVANT"
    assert outcome.details["l1_match_count"] == 2, "0.28 is above the reference, 0.20 is not"
    assert outcome.details["l1_scores"] == pytest.approx([0.2, 0.6, 1.0], abs=1e-5), "the store's own distances"
    assert outcome.details["l1_top_score"] == pytest.approx(0.2, abs=1e-5)
