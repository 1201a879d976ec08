"""The normal form of keywords and queries, and which characters bind to their neighbours."""

from __future__ import annotations

import unicodedata

import pytest

from retrieval.normalise import has_cjk, is_cjk, is_word, normalise, word_flags
from tests.retrieval import literal_keyword_rules as literal


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("ERR_TIMEOUT", "err_timeout"),
        ("ＥＲＲ＿ＴＩＭＥＯＵＴ", "err_timeout"),
        ("ＲＤＳ－ＥＶＥＮＴ－０１６２", "rds-event-0162"),
        ("  lock \t\n wait　timeout\u00a0", "lock wait timeout"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("Straße", "strasse"),
        ("①", "1"),
        ("支付网关", "支付网关"),
        ("\u3000 \t", ""),
        ("", ""),
    ],
)
def test_width_case_and_white_space_do_not_matter(text: str, normal: str) -> None:
    assert normalise(text) == normal


def test_composed_and_decomposed_letters_are_the_same() -> None:
    assert normalise("cafe\u0301") == normalise("café")
    assert normalise("ガ") == normalise("カ\u3099")


def test_accents_and_the_turkish_dot_are_kept() -> None:
    assert normalise("café") != normalise("cafe")
    assert normalise("İstanbul") != normalise("istanbul")
    assert normalise("İSTANBUL") == normalise("İstanbul")


@pytest.mark.parametrize("character", list("支々〇かカーー한ㄅ𠀀ｶ"))
def test_chinese_kana_and_hangul_are_cjk_and_bind_nothing(character: str) -> None:
    assert is_cjk(character)
    assert has_cjk(f"a{character}")
    assert not is_word(character)


@pytest.mark.parametrize("character", [*"aZ9_éßяλक٣", "\u0307", "\u093e"])
def test_letters_digits_and_marks_of_other_scripts_bind(character: str) -> None:
    assert is_word(character)
    assert not is_cjk(character)


@pytest.mark.parametrize("character", [*" -.:=/+。、，・「…☃", "\ufe0f", "\U000e0100"])
def test_punctuation_and_glyph_selectors_bind_nothing(character: str) -> None:
    assert not is_word(character)
    assert not is_cjk(character)


def test_flags_say_for_each_character_whether_it_binds() -> None:
    assert word_flags("a_-1") == bytes([1, 1, 0, 1, 0])
    assert word_flags("a_-1", underscore=False) == bytes([1, 0, 0, 1, 0])
    assert word_flags("é支_") == bytes([1, 0, 1, 0])
    assert word_flags("é支_", underscore=False) == bytes([1, 0, 0, 0])
    assert word_flags("") == b"\0"


def test_every_character_is_of_the_kind_that_its_name_says() -> None:
    assigned = (chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in {"Cn", "Cs", "Co"})
    folded = {one for character in assigned for one in unicodedata.normalize("NFKC", character).casefold()}
    assert {one for one in folded if is_cjk(one) != literal.cjk(one)} == set()
    assert {one for one in folded if is_word(one) != literal.binds(one)} == set()
