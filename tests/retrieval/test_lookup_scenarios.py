"""The scenarios of the four design documents, on the whole lookup."""

from __future__ import annotations

from typing import Any

from clients.embedding_hashing import HashingEmbedder
from retrieval.lookup_types import RetrievalSettings
from tests.retrieval.fakes import Document, World

GATEWAY = Document(
    1,
    "knowledge_base/api/payment-errors.md",
    "支付网关错误码定义",
    "# 支付网关错误码\n\nERR_TIMEOUT：上游超时，先看网关日志。\n",
    keywords=("ERR_TIMEOUT", "超时", "支付网关"),
)
ORDERS = Document(
    2, "knowledge_base/api/orders.md", "下单接口", "# 下单\n\n下单超时后的补偿。\n", keywords=("下单", "超时")
)
TIMEOUTS = Document(
    3,
    "knowledge_base/troubleshooting/timeout.md",
    "超时排查",
    "# 超时排查\n\n按链路逐段检查。\n",
    "troubleshooting",
    ("超时",),
)
POOL = Document(
    4,
    "knowledge_base/infrastructure/pool.md",
    "MySQL 数据库连接池配置",
    "# 连接池\n\n数据库连接池的大小与超时设置。\n\n"
    "## HikariCP 参数\n\nmaximumPoolSize。\n\n## 连接池耗尽\n\n排查步骤。\n",
    "infrastructure",
    near={"数据库连接池": 0.8085, "maximumPoolSize": 0.7, "排查步骤": 0.6},
)
CACHE = Document(
    5,
    "knowledge_base/infrastructure/cache.md",
    "Redis 缓存配置指南",
    "# 缓存\n\n缓存的淘汰策略。\n",
    "infrastructure",
    near={"淘汰策略": 0.5498},
)


def seen(world: World, query: str, **more: Any) -> Any:
    return world.look_up(query, **more).result.as_dict()


def test_an_error_code_is_answered_by_its_one_document_and_no_vector_is_asked() -> None:
    world = World(GATEWAY, ORDERS, TIMEOUTS, POOL)
    for query in ("ERR_TIMEOUT", "err_timeout", "ＥＲＲ_ＴＩＭＥＯＵＴ 是什么？", "支付网关的问题"):
        answer = seen(world, query)
        assert answer["relevanceLevel"] == "PRECISE"
        assert answer["primary"]["source"] == GATEWAY.path
        assert answer["primary"]["confidence"] == "high"
        assert answer["supplement"] is None
    assert world.embedder.asked == 0


def test_a_part_of_a_keyword_finds_its_document() -> None:
    assert seen(World(GATEWAY), "支付")["primary"]["source"] == GATEWAY.path
    assert seen(World(GATEWAY), "限流")["found"] is False


def test_three_matches_give_the_first_with_low_confidence_and_the_best_passage() -> None:
    answer = seen(World(GATEWAY, ORDERS, TIMEOUTS, POOL), "超时")
    assert answer["primary"]["source"] == GATEWAY.path
    assert answer["primary"]["confidence"] == "low"
    assert answer["supplement"]["source"] == POOL.path
    assert answer["relevanceLevel"] == "HIGHLY_RELEVANT"
    assert answer["retrievedDomainsThisSession"] == ["api", "infrastructure"]


def test_an_open_question_is_answered_by_meaning_with_the_distances_of_the_design() -> None:
    outcome = World(POOL, CACHE).look_up("数据库连接怎么配置", session="s")
    assert outcome.result.relevance_level == "HIGHLY_RELEVANT"
    assert outcome.result.retrieved_domains == ("infrastructure",)
    assert [round(score, 3) for score in outcome.details["l1_scores"]] == [0.383, 0.9]
    assert round(outcome.details["l1_top_similarity"], 4) == 0.8085


def test_the_action_memory_shows_the_domains_and_ends_the_repetition() -> None:
    world = World(POOL, CACHE)
    world.settings = RetrievalSettings(text_limit=40)  # as if the document were a long one
    first = seen(world, "数据库连接怎么配置", session="run")
    assert first["supplement"]["source"] == POOL.path
    second = seen(world, "连接数配置", session="run")
    assert second["supplement"]["source"] == CACHE.path
    assert second["relevanceLevel"] == "REFERENCE"
    third = world.look_up("连接怎么排查", session="run")
    assert third.dedup_reason == "doc_retrieved"
    assert third.result.retrieved_domains == ("infrastructure",)
    assert "“HikariCP 参数”" in str(third.result.message)
    section = seen(world, "连接怎么排查", session="run", section_title="HikariCP 参数")
    assert section["supplement"]["content"] == "## HikariCP 参数\n\nmaximumPoolSize。"


def test_an_executor_that_rewords_twenty_times_is_always_answered_and_never_fed_without_end() -> None:
    world = World(GATEWAY, ORDERS, TIMEOUTS, POOL, CACHE)
    outcomes = [world.look_up(f"超时 第 {turn} 种说法", session="run", budget=6) for turn in range(20)]
    assert [outcome.case for outcome in outcomes].count("served") == 3
    assert all(outcome.result.found for outcome in outcomes)
    assert all(outcome.result.message for outcome in outcomes if outcome.case == "deduped")
    assert [outcome.dedup_reason for outcome in outcomes].count("budget_exhausted") == 14


def test_the_lexical_embedder_finds_a_document_by_its_words() -> None:
    documents = [
        Document(1, "knowledge_base/api/a.md", "限流", "# 限流\n\n令牌桶限流的配置方法。\n"),
        Document(2, "knowledge_base/api/b.md", "Cache", "# Cache\n\nHow the cache evicts old entries.\n"),
    ]
    world = World(*documents, embedder=HashingEmbedder())
    assert seen(world, "令牌桶限流怎么配置")["supplement"]["source"] == "knowledge_base/api/a.md"
    assert seen(world, "how does the cache evict entries")["supplement"]["source"] == "knowledge_base/api/b.md"
