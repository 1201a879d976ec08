"""Every row of SPEC's two tables, on the whole lookup: levels, and the cases with their shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from retrieval.lookup_types import LookupOutcome, RetrievalSettings
from tests.retrieval.fakes import BrokenStore, Document, World

PRECISE_HINT = "知识库中不存在比上述结果更精准的文档"
HIGH_HINT = "当前结果已高度相关，继续检索不太可能找到更精准的文档"
REFERENCE_HINT = "当前结果为相关参考，如需更精准信息请明确缺少的具体维度"

ERRORS = Document(
    1,
    "knowledge_base/api/payment-errors.md",
    "支付网关错误码定义",
    "# 错误码\n\nERR_TIMEOUT 表示上游超时。\n",
    keywords=("ERR_TIMEOUT", "超时"),
)
RETRY = Document(
    2, "knowledge_base/payment/retry.md", "重试", "# 重试\n\n超时后重试三次。\n", "payment", keywords=("超时",)
)


def meaning(similarity: float, document_id: int = 3, domain: str = "infrastructure") -> Document:
    return Document(
        document_id,
        f"knowledge_base/{domain}/pool-{document_id}.md",
        f"连接池 {document_id}",
        "# 连接池\n\n连接池大小的配置方法。\n",
        domain,
        near={"连接池": similarity},
    )


def scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from scalars(item)
    else:
        yield value


def assert_shape(outcome: LookupOutcome) -> dict[str, Any]:
    """The one shape of every case; no number anywhere in it."""
    seen = outcome.result.as_dict()
    assert list(seen) == [
        "found",
        "primary",
        "supplement",
        "relevanceLevel",
        "completenessHint",
        "retrievedDomainsThisSession",
        "message",
    ]
    assert isinstance(seen["found"], bool)
    assert isinstance(seen["retrievedDomainsThisSession"], list)
    if seen["primary"] is not None:
        assert list(seen["primary"]) == ["content", "source", "matchType", "confidence", "availableSections"]
    if seen["supplement"] is not None:
        assert list(seen["supplement"]) == ["content", "source", "matchType"]
    for scalar in scalars(seen):
        assert scalar is None or isinstance(scalar, str | bool), f"a model must see no number: {scalar!r}"
    return seen


# ---- Levels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "query", "level", "asks_meaning"),
    [
        ([ERRORS, RETRY, meaning(0.95)], "ERR_TIMEOUT", "PRECISE", False),
        ([ERRORS, RETRY, meaning(0.76)], "超时", "HIGHLY_RELEVANT", True),
        ([ERRORS, RETRY, meaning(0.74)], "超时", "REFERENCE", True),
        ([ERRORS, RETRY, meaning(0.2)], "超时", "REFERENCE", True),
        ([meaning(0.76)], "怎么优化", "HIGHLY_RELEVANT", True),
        ([meaning(0.74)], "怎么优化", "REFERENCE", True),
        ([meaning(0.51)], "怎么优化", "REFERENCE", True),
        ([meaning(0.49)], "怎么优化", None, True),
        ([], "怎么优化", None, True),
    ],
)
def test_every_row_of_the_table_of_levels(
    documents: list[Document], query: str, level: str | None, asks_meaning: bool
) -> None:
    world = World(*documents)
    outcome = world.look_up(query)
    seen = assert_shape(outcome)
    assert seen["relevanceLevel"] == level
    assert seen["found"] is (level is not None)
    assert (world.embedder.asked == 1) is asks_meaning
    hints = {"PRECISE": PRECISE_HINT, "HIGHLY_RELEVANT": HIGH_HINT, "REFERENCE": REFERENCE_HINT, None: None}
    assert seen["completenessHint"] == hints[level]


def test_several_exact_matches_are_a_reference_while_the_store_is_down() -> None:
    world = World(ERRORS, RETRY)
    world.store = BrokenStore()
    seen = assert_shape(world.look_up("超时"))
    assert seen["relevanceLevel"] == "REFERENCE"
    assert seen["found"] is True


def test_the_operators_thresholds_win_over_the_embedders() -> None:
    world = World(meaning(0.3))
    assert world.look_up("怎么优化").result.found is False
    low = RetrievalSettings(highly_relevant_threshold=0.25, reference_threshold=0.1)
    assert world.look_up("怎么优化", settings=low).result.relevance_level == "HIGHLY_RELEVANT"
    nought = RetrievalSettings(highly_relevant_threshold=0.9, reference_threshold=0.0)
    assert world.look_up("怎么优化", settings=nought).result.relevance_level == "REFERENCE"


def test_the_primary_counts_for_the_level_where_the_search_found_it_too() -> None:
    near = Document(
        2, "knowledge_base/payment/retry.md", "重试", "# 重试\n\n超时。\n", "payment", ("超时",), {"重试": 0.9}
    )
    world = World(near, Document(5, "knowledge_base/api/z.md", "别的", "# 别的\n", keywords=("超时",)))
    outcome = world.look_up("超时")
    assert outcome.result.primary is not None
    assert outcome.result.primary.source == "knowledge_base/payment/retry.md"
    assert outcome.result.supplement is None
    assert outcome.result.relevance_level == "HIGHLY_RELEVANT"


# ---- LK-1 ------------------------------------------------------------------------------------------------------------


def test_a_unique_exact_match_is_served_alone_with_high_confidence() -> None:
    seen = assert_shape(World(ERRORS, meaning(0.9)).look_up("ERR_TIMEOUT 是什么？"))
    assert seen["primary"] == {
        "content": ERRORS.body,
        "source": "knowledge_base/api/payment-errors.md",
        "matchType": "exact_L0",
        "confidence": "high",
        "availableSections": None,
    }
    assert seen["supplement"] is None
    assert seen["message"] is None
    assert seen["retrievedDomainsThisSession"] == ["api"]


def test_of_several_exact_matches_the_first_is_served_with_the_best_passage_of_another_document() -> None:
    seen = assert_shape(World(RETRY, ERRORS, meaning(0.6)).look_up("超时"))
    assert seen["primary"]["source"] == ERRORS.path
    assert seen["primary"]["confidence"] == "low"
    assert seen["supplement"] == {
        "content": "# 连接池\n\n连接池大小的配置方法。\n",
        "source": "knowledge_base/infrastructure/pool-3.md",
        "matchType": "semantic_L1",
    }
    assert seen["retrievedDomainsThisSession"] == ["api", "infrastructure"]


def test_the_supplement_is_never_of_the_primarys_document() -> None:
    first = Document(1, "knowledge_base/api/a.md", "甲", "# 甲\n\n超时\n", keywords=("超时",), near={"甲": 0.9})
    second = Document(2, "knowledge_base/api/b.md", "乙", "# 乙\n\n超时\n", keywords=("超时",), near={"乙": 0.6})
    seen = assert_shape(World(first, second).look_up("超时"))
    assert seen["primary"]["source"] == first.path
    assert seen["supplement"]["source"] == second.path


def test_without_an_exact_match_the_best_passage_is_the_supplement() -> None:
    seen = assert_shape(World(ERRORS, meaning(0.6), meaning(0.7, 4)).look_up("怎么优化"))
    assert seen["primary"] is None
    assert seen["supplement"]["source"] == "knowledge_base/infrastructure/pool-4.md"


def test_nothing_below_the_reference_is_served_beside_an_exact_match() -> None:
    seen = assert_shape(World(ERRORS, RETRY, meaning(0.49)).look_up("超时"))
    assert seen["supplement"] is None


# ---- The table of cases ----------------------------------------------------------------------------------------------


def test_a_miss_says_that_the_knowledge_base_has_nothing() -> None:
    outcome = World(ERRORS).look_up("完全不存在的内容XYZ")
    seen = assert_shape(outcome)
    assert seen == {
        "found": False,
        "primary": None,
        "supplement": None,
        "relevanceLevel": None,
        "completenessHint": None,
        "retrievedDomainsThisSession": [],
        "message": "知识库中没有与此相关的内容。请如实说明知识库未收录，并指出还缺少哪方面的信息。",
    }
    assert outcome.dedup_reason is None
    assert outcome.best is None


def test_a_miss_while_the_search_is_down_says_that_it_was_unavailable() -> None:
    world = World(ERRORS)
    world.store = BrokenStore()
    outcome = world.look_up("完全不存在的内容XYZ")
    seen = assert_shape(outcome)
    assert seen["found"] is False
    assert seen["relevanceLevel"] is None
    assert "语义检索暂时不可用" in seen["message"]
    assert outcome.degraded == "vector_store"
    assert "no route to the store" in outcome.error


def test_what_was_given_before_is_answered_deduped() -> None:
    world = World(ERRORS)
    world.look_up("ERR_TIMEOUT", session="s")
    outcome = world.look_up("ERR_TIMEOUT", session="s")
    seen = assert_shape(outcome)
    assert seen["found"] is True
    assert seen["primary"] is None
    assert seen["supplement"] is None
    assert seen["relevanceLevel"] == "DEDUPED"
    assert seen["completenessHint"] is None
    assert seen["retrievedDomainsThisSession"] == ["api"]
    assert "《支付网关错误码定义》（knowledge_base/api/payment-errors.md）" in seen["message"]
    assert "ERR_TIMEOUT" not in seen["message"]
    assert outcome.dedup_reason == "doc_retrieved"
    assert outcome.best is not None
    assert (outcome.best.document_id, outcome.best.domain) == (1, "api")


def test_a_retrieved_domain_is_withheld_only_under_the_hard_limit() -> None:
    world = World(meaning(0.7), meaning(0.6, 4))
    hard = RetrievalSettings(domain_limit="hard")
    assert world.look_up("怎么优化", session="s").result.found
    outcome = world.look_up("还能怎么优化", session="s", settings=hard)
    seen = assert_shape(outcome)
    assert seen["found"] is True
    assert seen["relevanceLevel"] == "DEDUPED"
    assert seen["primary"] is None
    assert seen["supplement"] is None
    assert outcome.dedup_reason == "domain_retrieved"
    assert "infrastructure" in seen["message"]
    assert "《连接池 3》" in seen["message"]


@pytest.mark.parametrize("limit", ["off", "soft"])
def test_the_other_domain_limits_serve_what_is_left_of_a_domain(limit: Any) -> None:
    world = World(meaning(0.7), meaning(0.6, 4))
    world.settings = RetrievalSettings(domain_limit=limit)
    world.look_up("怎么优化", session="s")
    seen = assert_shape(world.look_up("还能怎么优化", session="s"))
    assert seen["supplement"]["source"] == "knowledge_base/infrastructure/pool-4.md"
    assert seen["retrievedDomainsThisSession"] == ["infrastructure"]


def test_a_used_up_budget_is_answered_without_searching() -> None:
    world = World(ERRORS, meaning(0.6))
    world.look_up("ERR_TIMEOUT", session="run", budget=2)
    world.look_up("ERR_TIMEOUT", session="run", budget=2)
    asked, checked = world.embedder.asked, len(world.states_asked)
    outcome = world.look_up("怎么优化", session="run", budget=2)
    seen = assert_shape(outcome)
    assert seen["found"] is True
    assert seen["relevanceLevel"] == "DEDUPED"
    assert outcome.dedup_reason == "budget_exhausted"
    assert "《支付网关错误码定义》" in seen["message"]
    assert seen["retrievedDomainsThisSession"] == ["api"]
    assert world.embedder.asked == asked
    assert len(world.states_asked) == checked


def test_a_used_up_budget_is_not_found_when_nothing_was_ever_served() -> None:
    world = World(ERRORS)
    world.look_up("没有的东西", session="run", budget=1)
    outcome = world.look_up("ERR_TIMEOUT", session="run", budget=1)
    seen = assert_shape(outcome)
    assert seen["found"] is False
    assert seen["relevanceLevel"] == "DEDUPED"
    assert outcome.dedup_reason == "budget_exhausted"


def test_an_unknown_section_is_answered_with_the_titles_and_marks_nothing() -> None:
    world = World(
        Document(1, "knowledge_base/api/a.md", "手册", "# 手册\n\n## 安装\n\n一\n\n## 升级\n\n二\n", keywords=("手册",))
    )
    outcome = world.look_up("手册", section_title="卸载", session="s")
    seen = assert_shape(outcome)
    assert seen["found"] is True
    assert seen["primary"] is None
    assert seen["supplement"] is None
    assert seen["relevanceLevel"] == "PRECISE"
    assert seen["completenessHint"] == PRECISE_HINT
    assert "“安装”" in seen["message"]
    assert "“升级”" in seen["message"]
    assert "卸载" not in seen["message"]
    assert seen["retrievedDomainsThisSession"] == []
    assert outcome.served == ()
    assert world.look_up("手册", session="s").result.relevance_level == "PRECISE"


# ---- What is recorded ------------------------------------------------------------------------------------------------


def test_the_details_hold_every_agreed_key_and_the_raw_scores() -> None:
    outcome = World(ERRORS, RETRY, meaning(0.6), meaning(0.3, 4)).look_up("超时", session="s")
    details = outcome.details
    assert list(details) == [
        "l0_match_count",
        "l0_titles",
        "l0_matched_keywords",
        "l1_match_count",
        "l1_scores",
        "l1_top_score",
        "l1_top_similarity",
        "metric",
        "embedder",
        "relevance_level",
        "completeness_hint",
        "retrieved_domains",
        "dedup_reason",
    ]
    assert details["l0_match_count"] == 2
    assert details["l0_titles"] == ["支付网关错误码定义", "重试"]
    assert details["l0_matched_keywords"] == ["超时"]
    assert details["l1_match_count"] == 1
    assert details["l1_scores"][:2] == pytest.approx([0.8, 1.4], abs=1e-5)
    assert details["l1_top_score"] == pytest.approx(0.8, abs=1e-5)
    assert details["l1_top_similarity"] == pytest.approx(0.6, abs=1e-5)
    assert details["metric"] == "L2"
    assert details["embedder"] == "fixed"
    assert details["relevance_level"] == "REFERENCE"
    assert details["retrieved_domains"] == ["api", "infrastructure"]
    assert details["dedup_reason"] is None


def test_a_lookup_that_did_not_ask_for_meaning_has_no_scores() -> None:
    outcome = World(ERRORS, meaning(0.9)).look_up("ERR_TIMEOUT")
    assert outcome.details["l1_scores"] == []
    assert outcome.details["l1_top_score"] is None
    assert outcome.l1_top_similarity is None
    assert outcome.timings.embed_ms is None
    assert outcome.timings.l1_ms is None
    assert outcome.timings.l0_ms is not None


def test_a_miss_keeps_the_best_similarity_for_whoever_tunes_the_thresholds() -> None:
    outcome = World(meaning(0.4)).look_up("怎么优化")
    assert outcome.result.found is False
    assert outcome.l1_top_similarity == pytest.approx(0.4, abs=1e-5)
    assert outcome.details["l1_match_count"] == 0


def test_every_document_served_is_named_with_role_section_and_similarity() -> None:
    outcome = World(ERRORS, RETRY, meaning(0.6)).look_up("超时")
    primary, supplement = outcome.served
    assert (primary.document_id, primary.role, primary.section, primary.match_type) == (1, "primary", "", "exact_L0")
    assert (supplement.document_id, supplement.role, supplement.section) == (3, "supplement", "连接池")
    assert supplement.match_type == "semantic_L1"
    assert supplement.similarity == pytest.approx(0.6, abs=1e-5)
    assert supplement.domain == "infrastructure"
