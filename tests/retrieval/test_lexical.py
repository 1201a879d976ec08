"""The analyser: text to terms, the same for documents and questions."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical import analyse, content_characters, is_cjk_text, stem
from retrieval.stop_words import CHINESE, ENGLISH


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("How do I restart the pods?", ["restart", "pod"]),
        ("支付网关怎么配置", ["支付", "付网", "网关", "配置"]),
        ("innodb_lock_wait_timeout", ["innodb_lock_wait_timeout", "innodb", "lock", "wait", "timeout"]),
        ("raftstore.sync-log", ["raftstore.sync-log", "raftstor", "sync", "log"]),
        ("KubePodNotReady", ["kubepodnotready", "kube", "pod", "ready"]),
        ("报ERR_10错误", ["报", "err_10", "err", "10", "错误"]),
        ("ＥＲＲ＿１０", ["err_10", "err", "10"]),
        ("Café naïve", ["café", "naïve"]),
        ("的 了 the of", []),
        ("。，!?", []),
        ("", []),
        ("限", ["限"]),
        ("end. Next", ["end", "next"]),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


@pytest.mark.parametrize("forms", ["policy policies", "restart restarts restarted restarting", "stop stopped stopping",
                                   "cache caches cached caching", "class classes", "index indexes"])  # fmt: skip
def test_forms_of_one_english_word_are_one_term(forms: str) -> None:
    assert len({stem(word) for word in forms.split()}) == 1


@pytest.mark.parametrize("word", ["status", "dns", "tls", "redis", "is", "process", "sing", "red", "k8s"])
def test_words_that_only_look_inflected_stay(word: str) -> None:
    assert stem(word) in (word, word.rstrip("e"))


def test_a_chinese_question_meets_a_text_that_words_it_otherwise() -> None:
    question = set(analyse("数据库连接池耗尽了应该怎么办"))
    text = set(analyse("连接池耗尽时先看数据库的最大连接数"))
    assert {"连接", "耗尽", "数据库"} <= question & text


def test_what_carries_content_is_marked_by_character() -> None:
    text = "how to 扩容 的 pods?"
    marked = "".join(c for c, keep in zip(text, content_characters(text), strict=True) if keep)
    assert marked == "扩容pods"


def test_stop_words_are_spelled_as_the_analyser_meets_them() -> None:
    assert all(word == word.casefold() and word.isalpha() for word in ENGLISH | CHINESE)


@given(st.text(max_size=200))
def test_any_text_has_bounded_terms_and_no_stop_words(text: str) -> None:
    terms = analyse(text)
    assert len(terms) <= 2 * len(text) * 18 + 2  # one character may stand for eighteen
    assert all(0 < len(term) <= 64 for term in terms)
    assert len(content_characters(text)) == len(text)


@given(st.lists(st.sampled_from([*string.ascii_letters, *"0123456789_-.支付网关 "]), max_size=40))
def test_case_and_width_make_no_difference_to_a_lower_case_text(letters: list[str]) -> None:
    text = "".join(letters).lower()
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)
    assert analyse(wide) == analyse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("支付网关", True), ("在 KubePodNotReady 时先看日志", True), ("Look at the logs", False),
     ("the 中 sign in a long text", False),
     ("", False), ("12345", False), ("コンテナ", True)],
)  # fmt: skip
def test_a_text_is_in_cjk_when_a_tenth_of_its_letters_are(text: str, expected: bool) -> None:
    assert is_cjk_text(text) is expected
