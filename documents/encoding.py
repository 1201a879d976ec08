"""Bytes to text (FM-7, DOC-6): UTF-8, UTF-16 and GBK are read, everything else is refused with its name.

Pure. A wrong guess would put mojibake into the index, so a guess by charset-normalizer counts only when the text that
it gives looks like writing; what stays in doubt is refused, with the advice to save the file as UTF-8.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from dataclasses import dataclass
from unicodedata import category

from charset_normalizer import from_bytes

_SAMPLE = 64 * 1024
"""Bytes that the detection looks at; the decoding is strict over all of them."""

_MAGIC = (
    (b"PK\x03\x04", "a ZIP archive (or a Word, Excel or EPUB file)"),
    (b"PK\x05\x06", "a ZIP archive"),
    (b"%PDF-", "a PDF file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"BZh9", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a Windows program"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Word or Excel file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"{\\rtf", "an RTF document"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_HANZI = re.compile(r"[\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
# The commonest characters of Chinese prose and of technical writing: real text is full of them, mojibake is not.
_COMMON_HANZI = frozenset(
    "的一是不了在人有我他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好"
    "都然没日于起还发成事只作当想看文无开手用主行方又如前所本见经头面公同已老从动两长知样现分将外但身些与高意进法此"
    "使用户设置请求系统配置服务器数据库文件错误代码类型参数返回信息问题处理支付接口检查启动运行方式部署版本"
)
_FAMILIES = {
    "cp949": "Korean (EUC-KR)",
    "johab": "Korean (Johab)",
    "euc_kr": "Korean (EUC-KR)",
    "euc_jp": "Japanese (EUC-JP)",
    "euc_jis_2004": "Japanese (EUC-JP)",
    "cp932": "Japanese (Shift-JIS)",
    "shift_jis": "Japanese (Shift-JIS)",
    "shift_jis_2004": "Japanese (Shift-JIS)",
    "big5": "traditional Chinese (Big5)",
    "cp950": "traditional Chinese (Big5)",
    "big5hkscs": "traditional Chinese (Big5)",
    "koi8_r": "Cyrillic (KOI8-R)",
    "cp1251": "Cyrillic (Windows-1251)",
    "cp1252": "Western European (Windows-1252 or ISO-8859-1)",
    "latin_1": "Western European (Windows-1252 or ISO-8859-1)",
    "cp1250": "European, one byte a character (Windows-1250, Windows-1252 or ISO-8859-1)",
}


@dataclass(frozen=True)
class Decoded:
    """Text without its byte-order mark; ``bom`` is the mark as it stood in the file (b"" where there was none).

    ``encoding`` is one of ``utf-8``, ``utf-16-le``, ``utf-16-be``, ``gb18030`` (a superset of GBK and GB2312).
    """

    text: str
    encoding: str
    bom: bytes = b""


class UnreadableText(ValueError):  # noqa: N818 (it names the text, which is what is at fault)
    """The bytes are no text in an encoding that is read; ``reason`` is a clause that names what was found."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(data: bytes) -> Decoded:
    """The text of a file, or UnreadableText with the reason. Newlines are left as they are."""
    for mark in (BOM_UTF32_LE, BOM_UTF32_BE):
        if data.startswith(mark):
            raise UnreadableText("the file is UTF-32; save it as UTF-8")
    for magic, what in _MAGIC:
        if data.startswith(magic):
            raise UnreadableText(f"the file is {what}, not text")
    for mark, encoding in ((BOM_UTF8, "utf-8"), (BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return Decoded(_marked_text(data[len(mark) :], encoding), encoding, mark)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _detected(data, error)
    if "\x00" in text:
        return _utf16_without_mark(data)
    return Decoded(text, "utf-8")


def _marked_text(data: bytes, encoding: str) -> str:
    """The bytes behind a byte-order mark; the mark says the encoding, so an error is damage."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableText(f"the file begins as {encoding.upper()} but is damaged at byte {error.start}") from error
    if "\x00" in text:
        raise UnreadableText("the file holds NUL characters, so it is no text")
    return text


def _detected(data: bytes, error: UnicodeDecodeError) -> Decoded:
    """Text that is not UTF-8: GBK where the library and the text itself say so."""
    if b"\x00" in data:
        return _utf16_without_mark(data)
    found = [match.encoding for match in from_bytes(_sample(data))]
    text = _strict(data, "gb18030")
    if text is not None and _is_chinese(text, sure=found[:1] == ["gb18030"], possible="gb18030" in found):
        return Decoded(text, "gb18030")
    if found:
        name = _FAMILIES.get(found[0], found[0].replace("_", "-"))
        raise UnreadableText(f"the encoding looks like {name}; save the file as UTF-8")
    raise UnreadableText(
        f"the file is neither UTF-8 (byte {error.start} does not fit), UTF-16 nor GBK text; save it as UTF-8"
    )


def _utf16_without_mark(data: bytes) -> Decoded:
    """Bytes with NULs among them: UTF-16 when exactly one byte order gives writing, else no text."""
    readings: list[Decoded] = []
    if len(data) % 2 == 0 and any(match.encoding.startswith("utf_16") for match in from_bytes(_sample(data))):
        for encoding in ("utf-16-le", "utf-16-be"):
            text = _strict(data, encoding)
            if text is not None and _is_writing(text):
                readings.append(Decoded(text, encoding))
    if len(readings) == 1:
        return readings[0]
    if len(data) % 4 == 0 and (_strict(data, "utf-32-le") or _strict(data, "utf-32-be")) is not None:
        raise UnreadableText("the file is UTF-32; save it as UTF-8")
    raise UnreadableText("the file holds NUL bytes, so it is binary or damaged; save it as UTF-8 text")


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _sample(data: bytes) -> bytes:
    """The beginning of the data, cut behind a newline (or at an even byte) so that no character is torn."""
    if len(data) <= _SAMPLE:
        return data
    if b"\x00" in data[:_SAMPLE]:
        return data[:_SAMPLE]
    end = max(data.rfind(b"\n", 0, _SAMPLE), data.rfind(b"\r", 0, _SAMPLE))
    return data[: end + 1] if end > 0 else data


def _is_writing(text: str) -> bool:
    """Whether a UTF-16 reading is plausible: some ASCII, no control or unassigned characters, known scripts."""
    sample = text[:_SAMPLE]
    if _CONTROL.search(text) or any(category(character) in ("Cn", "Co", "Cs") for character in set(sample)):
        return False
    usual = sum(
        1
        for character in sample
        if character < "\u0250"
        or "\u2010" <= character <= "\u2027"
        or "\u3000" <= character <= "\u30ff"
        or "\u4e00" <= character <= "\u9fff"
        or "\uff00" <= character <= "\uffef"
    )
    return usual >= 0.9 * len(sample) and any(character < "\x7f" for character in sample)


def _is_chinese(text: str, *, sure: bool, possible: bool) -> bool:
    """Whether a GBK reading is Chinese. ``sure``: the library's first guess; ``possible``: among its guesses."""
    sample = text[:_SAMPLE]
    if not (sure or possible) or _CONTROL.search(text):
        return False
    foreign = [character for character in sample if character > "\x7f"]
    hanzi = _HANZI.findall(sample)
    marks = sum(1 for character in foreign if "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef")
    if len(hanzi) + marks < 0.7 * len(foreign) or len(_KANA.findall(sample)) > 0.2 * len(foreign):
        return False
    # A text of a few characters says nothing about itself: of the encodings that are read, only GBK can be meant.
    if sure or len(hanzi) < 20:
        return True
    return sum(1 for character in hanzi if character in _COMMON_HANZI) >= 0.12 * len(hanzi)
