"""The dense and the lexical search fused per document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clients.embedding_cache import CachedQueries
from clients.interfaces import ClientTimeout, LevelFit, Matrix, Vector
from retrieval.bm25 import query_terms
from retrieval.fusion import fuse, scaled
from retrieval.hybrid import HybridRanking, embedded, rank
from retrieval.rows import LiveRows
from tests.retrieval.fakes import Document, FixedEmbedder, OwnWords, World


def test_scores_are_scaled_between_the_worst_and_the_best_of_their_list() -> None:
    assert scaled({1: 2.0, 2: 4.0, 3: 3.0}) == {1: 0.0, 2: 1.0, 3: 0.5}
    assert scaled({1: 2.0, 2: 2.0}) == {1: 1.0, 2: 1.0}
    assert scaled({}) == {}


def test_what_only_one_list_holds_gets_nothing_from_the_other() -> None:
    fused = fuse({1: -0.1, 2: -0.5, 3: -0.9}, {2: 7.0, 4: 1.0}, dense_share=0.5)
    assert list(fused) == [2, 1, 3, 4]
    assert fused == pytest.approx({2: 0.75, 1: 0.5, 3: 0.0, 4: 0.0})


def test_where_one_list_is_empty_the_other_decides_alone() -> None:
    assert fuse({1: -0.1, 2: -0.5}, {}) == {1: 1.0, 2: 0.0}
    assert fuse({}, {1: 3.0, 2: 5.0}) == {2: 1.0, 1: 0.0}


def test_a_text_in_another_script_is_not_held_against_its_missing_words() -> None:
    fused = fuse({1: 0.9, 2: 0.8, 3: 0.5}, {2: 4.0, 3: 2.0}, dense_share=0.6, unreachable={1})
    assert fused == pytest.approx({1: 0.8, 2: 0.85, 3: 0.0})
    assert list(fused) == [2, 1, 3]


def test_a_question_finds_the_text_in_the_other_language_and_its_own_language_first() -> None:
    english = document(1, "Drain the connection pool first.", 0.80, title="Pool")
    chinese = document(2, "数据库连接池耗尽时先看最大连接数。", 0.79)
    others = [document(number, f"其他内容{number}。", 0.78 - number / 100) for number in range(3, 9)]
    alone, both = World(english, *others, lexical=True), World(english, chinese, *others, lexical=True)
    assert alone.look_up("连接池耗尽").served[0].document_id == 1
    served = [both.look_up("连接池耗尽", session="s").served[0].document_id for _ in range(2)]
    assert served == [2, 1]


def test_equals_come_in_order_of_their_ids() -> None:
    assert list(fuse({3: 1.0, 1: 1.0, 2: 1.0}, {})) == [1, 2, 3]


def document(number: int, text: str, similarity: float, title: str = "") -> Document:
    return Document(
        number, f"knowledge_base/api/{number}.md", title or f"文档 {number}", text, near={text[:6]: similarity}
    )


POOL = document(1, "数据库连接池耗尽时先看最大连接数。", 0.76)
CACHE = document(2, "缓存的淘汰策略与过期时间。", 0.8)
QUEUE = document(3, "消息队列的积压怎么看。", 0.55)
QUESTION = "连接池耗尽了怎么办"


def test_words_lift_the_document_that_has_them_above_nearer_ones() -> None:
    plain, hybrid = World(POOL, CACHE, QUEUE), World(POOL, CACHE, QUEUE, lexical=True)
    assert [one.document_id for one in plain.look_up(QUESTION).served] == [2]
    assert [one.document_id for one in hybrid.look_up(QUESTION).served] == [1]


def test_a_document_that_only_its_words_find_is_served_by_its_own_similarity() -> None:
    world = World(
        *(document(number, f"段落{number}号甲", 0.7 - number / 1000) for number in range(3, 150)), lexical=True
    )
    world.put(document(2, "缓存的淘汰策略。", 0.95))
    world.put(document(1, "证书轮换之后必须重启代理。", 0.5))
    nearest = world.look_up("证书轮换之后要重启代理吗", session="s")
    second = world.look_up("证书轮换之后要重启代理吗", session="s")
    assert (nearest.served[0].document_id, second.served[0].document_id) == (2, 1)
    assert second.served[0].similarity == pytest.approx(0.5, abs=1e-5)


def test_a_document_with_the_words_alone_is_below_the_reference_and_not_shown() -> None:
    world = World(document(1, "证书轮换之后必须重启代理。", 0.1), lexical=True)
    assert world.look_up("证书轮换之后要重启代理吗").result.found is False


class Agreeing(FixedEmbedder):
    """An embedder whose fit asks for agreement, and takes less similarity where the text covers the question."""

    fit = LevelFit(0.9, 0.5, covered_reference=0.3, min_coverage=0.5, agreement=0.3)


def test_highly_relevant_is_what_both_searches_put_first() -> None:
    world = World(POOL, CACHE, QUEUE, embedder=Agreeing(), lexical=True)
    world.put(document(1, POOL.body, 0.85))
    assert world.look_up(QUESTION).result.relevance_level == "HIGHLY_RELEVANT"
    world.put(document(1, POOL.body, 0.76))  # the dense search puts CACHE first
    outcome = world.look_up(QUESTION)
    assert (outcome.result.relevance_level, outcome.served[0].document_id) == ("REFERENCE", 1)


class Supported(FixedEmbedder):
    """An embedder whose fit asks for similarity and coverage together."""

    fit = LevelFit(0.9, 0.5, agreement=0.5, min_support=1.2)


def test_highly_relevant_may_ask_for_similarity_and_coverage_together() -> None:
    def level(question: str) -> str | None:
        world = World(document(1, POOL.body, 0.8), QUEUE, CACHE, embedder=Supported(), lexical=True)
        return world.look_up(question).result.relevance_level

    assert level("数据库连接池耗尽时最大连接数") == "HIGHLY_RELEVANT"
    assert level("连接池怎样配置邮件告警的收件人名单与抄送") == "REFERENCE"  # one term of many


def test_a_share_of_the_level_space_counts_in_the_dense_list() -> None:
    class Levels(FixedEmbedder):
        """Its level space prefers what the second axis holds."""

        own_level_space = True

        def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
            cosines: Vector = np.where(documents[:, 0] < 0.78, 0.9, 0.2).astype(np.float32)
            return cosines

    near, other = document(1, "缓存的淘汰策略。", 0.80), document(2, "消息的积压。", 0.76)
    assert World(near, other).look_up("怎么办").served[0].document_id == 1
    assert World(near, other, embedder=Levels()).look_up("怎么办").served[0].document_id == 2


def test_a_text_that_covers_the_question_is_found_at_a_lower_similarity() -> None:
    world = World(document(1, POOL.body, 0.35), embedder=Agreeing(), lexical=True)
    assert world.look_up(QUESTION).result.found is True
    assert world.look_up("怎样配置邮件告警的收件人").result.found is False


def test_a_store_without_a_lexical_side_leaves_the_dense_one_and_the_plain_rule() -> None:
    world = World(document(1, POOL.body, 0.95), CACHE, embedder=Agreeing(), lexical=True)
    world.store.has_lexical = False
    assert world.look_up(QUESTION).result.relevance_level == "HIGHLY_RELEVANT"
    world.put(document(1, POOL.body, 0.85))
    assert world.look_up(QUESTION).result.relevance_level == "REFERENCE"


def test_a_long_document_counts_with_its_best_chunk_of_each_list() -> None:
    body = "# 甲\n\n连接池耗尽时先看最大连接数。\n\n# 乙\n\n一般说明。\n"
    long = Document(1, "knowledge_base/api/1.md", "手册", body, near={"一般说明": 0.8, "连接池": 0.7})
    outcome = World(long, QUEUE, lexical=True).look_up(QUESTION)
    assert outcome.served[0].section == "甲"
    assert outcome.l1_top_similarity == pytest.approx(0.8, abs=1e-5)


def test_a_document_of_thousands_of_near_chunks_hides_no_other_and_costs_no_deep_search() -> None:
    body = "\n\n".join(f"## 节 {number}\n\n连接池 {number}" for number in range(1500))
    world = World(Document(1, "knowledge_base/api/1.md", "大", body, near={"连接池": 0.9}), lexical=True)
    for number, near in ((2, 0.8), (3, 0.7)):
        world.put(document(number, f"连接池的说明 {number}。", near))
    asked: list[int] = []
    search = world.store.search

    def counted(vector: Vector, top_k: int, **more: Any) -> Any:
        asked.append(top_k)
        return search(vector, top_k, **more)

    world.store.search = counted
    assert [world.look_up(QUESTION, session="s").served[0].document_id for _ in range(3)] == [1, 2, 3]
    assert max(asked) <= 256


def test_hundreds_of_disabled_documents_in_front_hide_no_other() -> None:
    world = World(*(document(number, f"连接池 {number}。", 0.9 - number / 10_000) for number in range(1, 700)))
    for number in range(1, 699):
        world.hide(number)
    assert world.look_up(QUESTION).served[0].document_id == 699


def test_a_deleted_document_is_found_by_its_words_no_more() -> None:
    world = World(POOL, lexical=True)
    world.hide(1)
    assert world.look_up(QUESTION).result.found is False


# ---- An embedder with lexical weights of its own ---------------------------------------------------------------------
MARKED = [document(1, "连接池甲甲。Quiz", 0.76), document(2, "连接池乙乙。Zoo", 0.8), QUEUE]


def own_words(**letters: float) -> tuple[World, OwnWords]:
    embedder = OwnWords(letters)
    return World(*MARKED, embedder=embedder, lexical=True), embedder


def test_the_weights_of_the_embedder_rank_where_it_makes_some() -> None:
    world, _embedder = own_words(Q=5.0)
    counted = World(*MARKED, lexical=True)
    assert counted.look_up("连接池 Quatsch").served[0].document_id == 2
    assert world.look_up("连接池 Quatsch").served[0].document_id == 1


def test_a_question_without_a_counted_word_is_searched_by_the_weights_of_the_embedder() -> None:
    world, embedder = own_words(h=5.0)
    world.put(document(1, "连接池甲甲。hyena", 0.6))
    assert query_terms("the") == []
    assert dict(ranked("the", world).lexical) == {(1, 2, 0): 25.0}
    assert embedder.asked_words == ["the"]


def test_the_words_that_are_counted_cover_the_question_still() -> None:
    embedder = OwnWords({"Q": 5.0})
    embedder.fit = Agreeing.fit
    own = World(document(1, POOL.body, 0.35), embedder=embedder, lexical=True)
    counted = World(document(1, POOL.body, 0.35), embedder=Agreeing(), lexical=True)
    assert ranked(QUESTION, own).query_weights == ranked(QUESTION, counted).query_weights != {}
    assert dict(ranked(QUESTION, own).lexical) == {}
    assert own.look_up(QUESTION).result.found is True
    assert own.look_up("怎样配置邮件告警的收件人").result.found is False


def test_a_cache_around_the_embedder_does_not_hide_its_weights() -> None:
    embedder = OwnWords({"Q": 5.0})
    world = World(*MARKED, embedder=embedder, lexical=True)
    world.embedder = CachedQueries(embedder)
    assert world.look_up("连接池 Quatsch").served[0].document_id == 1
    assert embedder.asked_words == ["连接池 Quatsch"]


def test_where_the_weights_fail_the_embedder_has_failed() -> None:
    world, embedder = own_words(Q=5.0)
    embedder.words_fail = ClientTimeout("BGE-M3 is busy with other texts.", code="embedder_busy")
    outcome = world.look_up("连接池 Quatsch")
    assert (outcome.degraded, outcome.served) == ("embedder", ())
    assert "embedder_busy" in outcome.error


def test_terms_of_counted_words_are_never_asked_by_the_weights_of_an_embedder() -> None:
    world = World(*MARKED, lexical=True)
    world.embedder = OwnWords({"Q": 5.0})
    outcome = world.look_up("连接池 Quatsch")
    assert outcome.degraded == "vector_store"
    assert "collection_mismatch" in outcome.error


def ranked(query: str, world: World) -> HybridRanking:
    return rank(
        embedded(query, world.embedder),
        embedder=world.embedder,
        store=world.store,
        source=world,
        rows=LiveRows(world),
        wanted=3,
    )
