"""The PRECISE check: which unique matches may tell an agent to stop."""

from __future__ import annotations

import pytest

from retrieval.lookup_types import RetrievalSettings
from retrieval.precise import covered_share, may_be_precise
from tests.retrieval.fakes import Document, World


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        ("支付失败，日志里反复出现 ERR_TIMEOUT，应该怎么办？", ["ERR_TIMEOUT"]),
        ("what does RDS-EVENT-0001 mean for a replica that is far behind", ["RDS-EVENT-0001"]),
        ("集群里 code=10001 是什么意思，需要重启整个任务吗", ["code=10001"]),
        ("the console shows 8005 for every write since this morning", ["8005"]),
        ("支付网关的问题", ["支付网关"]),
        ("支付网关超时怎么处理", ["支付网关", "超时"]),
        ("连接池", ["连接池"]),
        ("支付", ["支付网关"]),  # a partial match holds the whole query
        ("为什么", ["为什么"]),
        ("How do I configure health checks?", ["health check"]),
    ],
)
def test_an_identifier_or_most_of_the_query_is_precise(query: str, keywords: list[str]) -> None:
    assert may_be_precise(query, keywords)


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        ("为什么我们的应用在升级之后日志里面没有任何新的记录产生", ["日志"]),
        ("which version of the agent supports rolling back a failed migration", ["version"]),
        ("在 2013 年发布的版本里怎么迁移旧的数据库", ["2013"]),
        ("ＡＢ 在 ２０１３ 年发布的版本里怎么迁移旧的数据库", ["2013"]),
        ("为什么", ["如何"]),
        ("", []),
    ],
)
def test_an_everyday_word_in_a_long_question_is_not(query: str, keywords: list[str]) -> None:
    assert not may_be_precise(query, keywords)


def test_the_share_is_of_content_characters_and_overlaps_count_once() -> None:
    # 怎么 and 的 carry nothing; 12 characters are left of which 4 and 2 are covered.
    assert covered_share("支付网关的超时怎么处理重试队列", ["支付网关", "超时"]) == pytest.approx(6 / 12)
    assert covered_share("支付网关", ["支付", "付网", "支付"]) == pytest.approx(3 / 4)
    assert covered_share("restart restart now", ["restart"]) == pytest.approx(14 / 17)


LOGS = Document(
    1, "knowledge_base/api/logs.md", "日志级别", "# 日志\n\n级别。\n", keywords=("日志",), near={"级别": 0.6}
)
UPGRADE = Document(2, "knowledge_base/api/up.md", "升级", "# 升级\n\n升级后的检查。\n", near={"检查": 0.8})
QUESTION = "为什么我们的应用在升级之后日志里面没有任何新的记录产生"


def test_a_unique_match_that_fails_the_check_counts_as_one_of_several() -> None:
    world = World(LOGS, UPGRADE)
    outcome = world.look_up(QUESTION)
    answer = outcome.result.as_dict()
    assert outcome.l0_match_count == 1
    assert answer["relevanceLevel"] == "HIGHLY_RELEVANT"
    assert (answer["primary"]["source"], answer["primary"]["confidence"]) == (LOGS.path, "low")
    assert answer["supplement"]["source"] == UPGRADE.path
    assert world.embedder.asked == 1


def test_with_the_check_off_the_literal_rule_holds() -> None:
    world = World(LOGS, UPGRADE)
    answer = world.look_up(QUESTION, settings=RetrievalSettings(precise_check=False)).result.as_dict()
    assert (answer["relevanceLevel"], answer["supplement"]) == ("PRECISE", None)
    assert world.embedder.asked == 0
