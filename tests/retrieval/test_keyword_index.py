"""What the keyword index finds, by the examples of SPEC L0-1 to L0-6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from retrieval.keyword_index import KeywordEntry, KeywordIndex
from retrieval.keyword_matching import is_identifier_like


def entry(document_id: int, *keywords: str, title: str = "") -> KeywordEntry:
    return KeywordEntry(document_id, f"knowledge_base/api/{document_id}.md", title, keywords, "s", "api")


def index_of(*keywords: str | tuple[str, ...]) -> KeywordIndex:
    """Documents 1, 2, … with these keywords."""
    index = KeywordIndex()
    for number, given in enumerate(keywords, start=1):
        index.put(entry(number, *((given,) if isinstance(given, str) else given)))
    return index


def found(index: KeywordIndex, query: str) -> list[str]:
    return [keyword for match in index.match(query) for keyword in match.keywords]


class Rows:
    """A row check that remembers what it was asked."""

    def __init__(self, *hidden: int) -> None:
        self.hidden = set(hidden)
        self.asked: list[list[int]] = []

    def __call__(self, ids: Sequence[int]) -> Iterable[int]:
        self.asked.append(list(ids))
        return set(ids) - self.hidden


SEED = ("ERR_TIMEOUT", "超时", "支付网关", "wait_timeout", "innodb_lock_wait_timeout")


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        ("ERR_TIMEOUT", ["ERR_TIMEOUT"]),
        ("err_timeout", ["ERR_TIMEOUT"]),
        ("ＥＲＲ_ＴＩＭＥＯＵＴ", ["ERR_TIMEOUT"]),
        ("支付网关超时问题", ["超时", "支付网关"]),
        ("支付", ["支付网关"]),
        ("限流", []),
        ("wait_timeout", ["wait_timeout"]),
        ("报ERR_TIMEOUT错误", ["ERR_TIMEOUT"]),
        ("ERR_TIMEOUT_RETRY", []),
        ("timeout", ["ERR_TIMEOUT", "wait_timeout", "innodb_lock_wait_timeout"]),
        ("lock_wait", ["innodb_lock_wait_timeout"]),
        ("ERR_", ["ERR_TIMEOUT"]),
        ("time", []),
        ("", []),
        ("　 ", []),
    ],
)
def test_the_examples_of_the_specification(query: str, keywords: list[str]) -> None:
    assert found(index_of(*SEED), query) == keywords


@pytest.mark.parametrize(
    ("keyword", "query", "matches"),
    [
        ("api", "rapid", False),
        ("api", "api网关", True),
        ("api", "接api口", True),
        ("api", "ラapiア", True),
        ("api", "한api글", True),
        ("api", "apiя", False),
        ("api", "éapi", False),
        ("api", "e\u0301api", False),
        ("api", "api_key", False),
        ("ERR_1", "ERR_10", False),
        ("ERR_1", "ERR_1。", True),
        ("café", "le café noir", True),
        ("café", "cafés", False),
        ("stanbul", "İstanbul", False),
        ("付网", "支付网关", True),
        ("c++", "c++11", True),
        ("lock wait", "a lock   wait\ttimeout", True),
    ],
)
def test_the_edges_of_a_match(keyword: str, query: str, matches: bool) -> None:
    assert found(index_of(keyword), query) == ([keyword] if matches else [])


@pytest.mark.parametrize(
    ("keyword", "query", "matches"),
    [
        ("R01", "R01-B", False),
        ("R01", "B-R01", False),
        ("R01", "v1.R01", False),
        ("R01", "ns:R01", False),
        ("R01", "R01:x", False),
        ("R01", "R01-类", True),
        ("R01", "R01. Then retry", True),
        ("R01", "see R01.", True),
        ("R01", "错误：R01", True),
        ("R01", "code=R01", True),
        ("R01", "R01/R02", True),
        ("R01", "--R01", True),
        ("R01", "R01-é", True),
        ("R01", "Ｒ０１－Ｂ", False),
        ("Ｒ０１", "R01-B", False),
        ("sync-log", "raftstore.sync-log", False),
        ("Redis", "redis-cluster", True),
        ("API", "api-key", False),
        ("api", "api-key", True),
        ("8005", "1.8005", False),
        ("8005", "18005", False),
    ],
)
def test_identifiers_are_continued_by_joined_letters_and_digits(keyword: str, query: str, matches: bool) -> None:
    assert found(index_of(keyword), query) == ([keyword] if matches else [])


@pytest.mark.parametrize(
    "spelling", ["R01", "404", "a_b", "_x", "sync-log", "a.b", "a:b", "code=x", "a/b", "API", "iOS", "ＡＰＩ", " R1 "]
)
def test_what_looks_like_an_identifier(spelling: str) -> None:
    assert is_identifier_like(spelling)


@pytest.mark.parametrize(
    "spelling", ["Redis", "redis", "-v", "end.", "c++", "", " ", "R 01", "支付R01", "É1", "一", "A", ":a", "a/"]
)
def test_what_does_not(spelling: str) -> None:
    assert not is_identifier_like(spelling)


def test_one_spelling_may_be_an_identifier_where_another_is_none() -> None:
    index = index_of("API", "api")
    assert found(index, "api") == ["API", "api"]
    assert found(index, "API-key") == ["api"]


def test_a_match_inside_a_longer_identifier_does_not_count() -> None:
    index = index_of("10001", "code=10001", "timeout", "ERR-TIMEOUT", "R01", "R01=x")
    assert found(index, "code=10001") == ["code=10001"]
    assert found(index, "code=10001 or 10001") == ["10001", "code=10001"]
    assert found(index, "err-timeout") == ["ERR-TIMEOUT"]
    assert found(index, "r01=x") == ["R01=x"]
    assert found(index, "r01=y") == ["R01"]


def test_a_longer_match_that_is_no_identifier_hides_nothing() -> None:
    assert found(index_of("支付", "支付网关", "lock", "lock wait"), "支付网关 lock wait") == [
        "支付", "支付网关", "lock", "lock wait",
    ]  # fmt: skip


def test_within_one_document_the_longer_identifier_is_the_keyword_that_matched() -> None:
    (match,) = index_of(("10001", "网关", "code=10001")).match("网关报code=10001")
    assert match.keywords == ("网关", "code=10001")


def test_a_document_that_fails_its_row_check_hides_nothing() -> None:
    index = index_of("10001", "code=10001")
    assert [match.entry.document_id for match in index.match("code=10001", Rows())] == [2]
    assert [match.entry.document_id for match in index.match("code=10001", Rows(2))] == [1]
    assert list(index.match("code=10001", Rows(1, 2))) == []


def test_one_living_holder_of_the_longer_identifier_is_enough_to_hide() -> None:
    index = index_of("10001", *["code=10001"] * 120)
    hidden = Rows(*range(2, 121))
    assert [match.entry.document_id for match in index.match("code=10001", hidden)] == [121]
    assert sorted(number for ids in hidden.asked for number in ids) == list(range(2, 122))


def test_partial_matches_answer_where_every_exact_one_fails_its_row_check() -> None:
    index = index_of("支付", "支付网关")
    assert [match.entry.document_id for match in index.match("支付", Rows())] == [1]
    assert [match.entry.document_id for match in index.match("支付", Rows(1))] == [2]


@pytest.mark.parametrize(
    ("keyword", "query", "matches"),
    [
        ("支", "支", True),
        ("支", "支付", False),
        ("R", "r", True),
        ("R", "plan R", False),
        ("支付网关", "支", False),
        ("支付网关", "付网", True),
        ("a支付", "a支", True),
        ("ab-cd", "ab", False),
        ("abc-cd", "abc", True),
        ("한국어", "한국", True),
        ("ガイド", "ガイ", True),
    ],
)
def test_the_shortest_useful_match(keyword: str, query: str, matches: bool) -> None:
    assert found(index_of(keyword), query) == ([keyword] if matches else [])


def test_exact_matches_come_alone() -> None:
    assert found(index_of("支付", "支付网关", "ERR_支付"), "支付") == ["支付"]


def test_matches_are_in_order_of_their_ids_and_a_replacement_keeps_its_place() -> None:
    index = KeywordIndex()
    for number in (30, 4, 200, 0):
        index.put(entry(number, "网关"))
    index.put(entry(30, "网关", "新", title="replaced"))
    assert [match.entry.document_id for match in index.match("网关")] == [0, 4, 30, 200]
    assert index.match("网关")[2].entry.title == "replaced"


def test_a_match_says_everything_about_its_document() -> None:
    given = KeywordEntry(7, "knowledge_base/api/a.md", "Title", ("限流", " ", "R01", "限流"), "Summary", "api")
    index = KeywordIndex()
    index.put(given)
    (match,) = index.match("R01限流")
    assert (match.entry.document_id, match.entry.file_path, match.entry.title) == (7, given.file_path, "Title")
    assert (match.entry.summary, match.entry.category) == ("Summary", "api")
    assert match.entry.keywords == match.keywords == ("限流", "R01")


def test_a_replaced_document_is_found_by_its_new_keywords_only() -> None:
    index = index_of("old", "old")
    index.put(entry(1, "new"))
    assert [match.entry.document_id for match in index.match("old new")] == [1, 2]
    assert [match.entry.document_id for match in index.match("old")] == [2]


def test_a_removed_document_is_not_found_and_may_be_removed_twice() -> None:
    index = index_of("网关", "网关")
    assert index.remove(1)
    assert not index.remove(1)
    assert [match.entry.document_id for match in index.match("网关")] == [2]
    assert len(index) == 1
    assert 1 not in index


def test_a_document_without_keywords_is_not_in_the_index() -> None:
    index = index_of("网关")
    index.put(entry(2))
    index.put(entry(3, " ", "\u3000"))
    index.put(entry(1))
    assert (len(index), index.keyword_count) == (0, 0)


def test_a_negative_id_is_refused_and_changes_nothing() -> None:
    index = index_of("网关")
    with pytest.raises(ValueError, match="document_id must be 0 or more, not -1"):
        index.put(entry(-1, "网关"))
    assert len(index.match("网关")) == 1


def test_very_large_ids_are_kept_in_order() -> None:
    index = KeywordIndex()
    ids = [2**40 + number for number in range(40)] + [3, 2**63]
    for number in reversed(ids):
        index.put(entry(number, "网关"))
    assert [match.entry.document_id for match in index.match("网关")] == sorted(ids)


def test_a_lookup_checks_rows_50_at_a_time_until_it_has_what_it_serves() -> None:
    index = index_of(*["网关"] * 180)
    rows = Rows(*range(1, 60))
    found = index.find("网关", rows, wanted=2)
    assert [len(ids) for ids in rows.asked] == [50, 50]
    assert [match.entry.document_id for match in found.matches] == list(range(60, 101))
    assert found.total == 41 + 80
    assert found.more()
    assert (len(found.matches), found.total) == (91, 121)
    assert found.more()
    assert not found.more()
    assert (len(found.matches), found.total) == (121, 121)


def test_a_hidden_second_match_leaves_a_unique_one() -> None:
    found = index_of("网关", "网关").find("网关", Rows(1), wanted=2)
    assert ([match.entry.document_id for match in found.matches], found.total) == ([2], 1)


def test_what_was_found_is_not_changed_by_later_changes() -> None:
    for count in (60, 1500):
        index = index_of(*["网关"] * count)
        found, matches = index.find("网关", wanted=1), index.match("网关")
        for number in range(1, count + 1):
            index.remove(number)
        index.put(entry(1, "别的"))
        while found.more():
            pass
        assert len(found.matches) == count
        assert [match.entry.document_id for match in matches] == list(range(1, count + 1))
        assert {match.keywords for match in matches} == {("网关",)}


def test_the_row_check_may_change_the_index() -> None:
    index = index_of("网关", "网关")

    def drop(ids: Sequence[int]) -> list[int]:
        for number in ids:
            index.remove(number)
        return []

    assert list(index.match("网关", drop)) == []
    assert len(index) == 0


def test_very_many_matches_read_like_a_list() -> None:
    index = index_of(*[("网关", f"R{number}") if number % 2 else ("网关",) for number in range(3000)])
    many = index.match("网关")
    few = index_of(("网关", "R0")).match("网关")
    assert len(many) == 3000
    assert many[0] == few[0]._replace(entry=many[0].entry)
    assert [match.entry.document_id for match in many[-2:]] == [2999, 3000]
    assert many == list(many)
    assert many != list(many)[:-1]
    assert many == index.match("网关", Rows())
    assert [match.entry.document_id for match in index.match("网关", Rows(1))][:2] == [2, 3]
    assert bool(many)
    with pytest.raises(IndexError):
        many[3000]
