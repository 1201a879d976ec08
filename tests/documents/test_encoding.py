"""Bytes to text (FM-7, DOC-6): UTF-8, UTF-16 and GBK are read right, everything else is refused by name."""

from __future__ import annotations

import codecs
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.encoding import UnreadableText, decode

CHINESE = (
    "---\ntitle: 支付超时\nkeywords: [支付, 超时]\n---\n"
    "# 支付超时的处理\n\n当支付网关返回超时的时候，请检查下列各项。\n"
)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="\x00\ufeff", exclude_categories=["Cs"])))
def test_utf_8_is_read_exactly_with_and_without_a_mark(text: str) -> None:
    plain = text.encode()
    if not plain.startswith((b"MZ", b"GIF8", b"BZh", b"PK", b"%PDF", b"{\\rtf", b"7z", b"Rar!", b"\x1f", b"SQLite")):
        assert decode(plain).text == text
    marked = decode(codecs.BOM_UTF8 + plain)
    assert (marked.text, marked.encoding, marked.bom) == (text, "utf-8", codecs.BOM_UTF8)


@pytest.mark.parametrize("text", [CHINESE, "plain ASCII\r\n", "emoji 😀\n", ""])
@pytest.mark.parametrize(("mark", "encoding"), [(codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")])
def test_utf_16_with_a_mark_is_read(text: str, mark: bytes, encoding: str) -> None:
    decoded = decode(mark + text.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.bom) == (text, encoding, mark)


@pytest.mark.parametrize("text", [CHINESE, "hello world\nthis is plain text\n", "# 标题\n\n正文很短。\n"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_read_when_only_one_byte_order_gives_writing(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.bom) == (text, encoding, b"")


@pytest.mark.parametrize("encoding", ["gb2312", "gbk", "gb18030"])
@pytest.mark.parametrize("text", [CHINESE, "# 你好，世界\n", "标题", CHINESE * 3000, "repair 维修 server\n"])
def test_gbk_is_read(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.encoding) == (text, "gb18030")


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ("é um gerador de websites estáticos".encode("latin-1"), "Windows-1252"),
        (("L'été dernier, les élèves étaient très fatigués. " * 9).encode("latin-1"), "ISO-8859-1"),
        (("Привет мир, это обычный русский текст. " * 9).encode("koi8-r"), "KOI8-R"),
        (("Привет мир, это обычный русский текст. " * 9).encode("cp1251"), "Windows-1251"),
        (("안녕하세요 세계 이것은 한국어 텍스트입니다. " * 9).encode("euc-kr"), "Korean"),
        (("これは日本語のテキストです。文字コードの検出。" * 9).encode("euc-jp"), "Japanese"),
        (("這是一個繁體中文的文件，請檢查下列各項設定。" * 9).encode("big5"), "Big5"),
    ],
)
def test_text_in_another_encoding_is_refused_by_name_instead_of_becoming_mojibake(data: bytes, named: str) -> None:
    with pytest.raises(UnreadableText) as refused:
        decode(data)
    assert named in refused.value.reason
    assert "UTF-8" in refused.value.reason


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"PK\x03\x04rest", "ZIP"),
        (b"%PDF-1.7\nrest", "PDF"),
        (b"\x89PNG\r\n\x1a\nrest", "PNG"),
        (b"\x7fELFrest", "program"),
        ("hello 世界\n".encode("utf-32"), "UTF-32"),
        ("hello 世界\n".encode("utf-32-be"), "UTF-32"),
        ("hello 世界\n".encode("utf-32-le"), "UTF-32"),
        (b"text\x00with NUL", "NUL"),
        (codecs.BOM_UTF8 + b"text\x00with NUL", "NUL"),
        (codecs.BOM_UTF16_LE + "text\x00".encode("utf-16-le"), "NUL"),
        (codecs.BOM_UTF16_LE + b"odd", "damaged"),
        (codecs.BOM_UTF8 + b"\xff\xfe", "damaged"),
        (bytes(range(256)) * 9, "NUL"),
    ],
)
def test_what_is_no_text_is_refused_by_name(data: bytes, named: str) -> None:
    with pytest.raises(UnreadableText) as refused:
        decode(data)
    assert named in refused.value.reason


def test_random_bytes_are_refused() -> None:
    for seed in range(5):
        with pytest.raises(UnreadableText):
            decode(b"\xff" + random.Random(seed).randbytes(4000).replace(b"\x00", b"\x01"))


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_give_text_that_encodes_back_or_a_reason(data: bytes) -> None:
    try:
        decoded = decode(data)
    except UnreadableText:
        return
    assert "\x00" not in decoded.text
    if decoded.encoding != "gb18030":
        assert decoded.bom + decoded.text.encode(decoded.encoding) == data
