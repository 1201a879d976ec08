"""Bad inputs of our own, of the kinds that the shared list names: no 5xx, no hang, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from documents.worker import run_due_jobs
from tests.flows.bad_inputs_world import World, raw_form

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(
    knowledge_base: Path, tmp_path: Path, settings: Any, monkeypatch: Any, caplog: Any, alice: Any, bob: Any
) -> World:
    cache.clear()
    rates = {"lookup": "100000/min", "chat": "100000/min", "upload": "100000/min"}
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": rates}
    spool = tmp_path / "spool"
    spool.mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = str(spool)
    return World(knowledge_base, tmp_path, spool, settings, monkeypatch, caplog, {"alice": alice, "bob": bob})


@pytest.fixture
def staff(world: World) -> APIClient:
    """Alice's browser, without CSRF, telling a 500 instead of raising it."""
    client = APIClient(raise_request_exception=False)
    client.force_login(world.people["alice"])
    return client


# ---- Names -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        "a\u202egpj.md",  # right-to-left override
        "a\u2066b\u2069.md",
        "\ufeffa.md",
        "a\u00adb.md",  # soft hyphen
        "a\u2028b.md",
        "a\x85b.md",
        "a\u3164b.md",  # Hangul filler
        "a\U000e0041b.md",  # tag
        "a\ue0fe\uffff.md",
        "\ud800.md",
        "a\u2215b\\c.md",
        "...md",
        "..md",
        "./a.md",
        "a/../b.md",
        "//server/share/a.md",
        "a.md/",
        "a.md\\",
        "a.md:stream",
        "CON.md",
        "com1.x.md",
        "lpt\u00b9.md",
        "aux .md",
        "a.md.",
        "a.md\t\x0b.txt",
        "a.markdown",
        "a.mD\u0130",
        "md",
        "\u0301.md\x00.txt",
        "~/.ssh/a.md",
    ],
)
def test_a_name_that_pretends_is_refused(name: str, world: World) -> None:
    before = world.places()
    world.refused(before, world.upload(name=name), field="file")


@pytest.mark.parametrize("name", ["%2e%2e%2fevil.md", "~a.md", "$(id).md", "a|b&c;d.md", "*.md", "\u200f"[:0] + "א.md"])
def test_a_name_that_only_looks_odd_is_taken_word_for_word(name: str, world: World) -> None:
    assert world.accepted(world.upload(name=name))["file_name"] == name


@pytest.mark.parametrize(
    "disposition",
    [
        b"",
        b'filename="',
        b'filename="a.md"; filename="../b.md"',
        b"filename*=UTF-8''%FF%FE.md",
        b"filename*=nope''a.md",
        b"filename*=UTF-16''%00a%00.%00m%00d",
        b"filename*=a.md",
        b"filename*=''",
        b'filename="=?utf-8?b?Li4vYS5tZA==?="',
        b'filename="' + b"a" * 5_000 + b'.md"',
        b'filename="a.md"\r\nContent-Transfer-Encoding: base64',
        b'filename="a.md"\r\nContent-Transfer-Encoding: nope',
        b'filename="a.md"\r\n' + b"X: y\r\n" * 500,
    ],
)
def test_a_broken_part_of_a_form_never_fails_the_site(disposition: bytes, world: World) -> None:
    answer = world.send_form(raw_form(disposition))
    assert answer.status_code in {200, 202, 400}, answer.content
    run_due_jobs()
    world.tidy()
    assert all(path.is_relative_to(world.folder / "payment") for path in world.folder.rglob("*.md"))


# ---- Contents --------------------------------------------------------------------------------------------------------
JAPANESE = "支払いゲートウェイのタイムアウトについて。三十秒で終わります。再試行してください。" * 5
TRADITIONAL = "支付閘道逾時時，請先檢查網路連線，再查詢訂單的狀態，不要馬上退款。" * 5
KOREAN = "결제 게이트웨이 시간 초과가 발생하면 먼저 네트워크 연결을 확인하십시오. " * 5
FRENCH = "Dépassement du délai : vérifiez d'abord la connexion réseau, puis réessayez très vite. " * 5
RUSSIAN = "Если платёжный шлюз не отвечает, сначала проверьте сетевое соединение. " * 5


@pytest.mark.parametrize(
    "data",
    [
        JAPANESE.encode("shift_jis"),
        JAPANESE.encode("euc_jp"),
        JAPANESE.encode("iso2022_jp") + b"\x00",
        TRADITIONAL.encode("big5"),
        KOREAN.encode("euc_kr"),
        FRENCH.encode("cp1252"),
        RUSSIAN.encode("koi8_r"),
        RUSSIAN.encode("cp1251"),
        FRENCH.encode("utf-32-be"),
        FRENCH.encode("utf-32-le"),
        FRENCH.encode("cp500"),  # EBCDIC
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
        b"\x1f\x8b\x08" + bytes(100),
        b"\xca\xfe\xba\xbe" + bytes(range(256)),
        b"\x00asm\x01\x00\x00\x00" + bytes(range(256)),
        b"RIFF\x24\x00\x00\x00WEBPVP8 " + bytes(range(256)),
        b"OggS" + bytes(200),
        b"\x00" * 4096,
        b"\xff" * 4096,
        bytes(range(256)) * 16,
        b"text and then\x00a hole",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xff\xfea",
        b"\xfe\xff\xd8\x00\x00a",
        "\u3000\u2003\u00a0".encode(),
        b"\xed\xa0\x80 surrogate",
        b"\xf4\x90\x80\x80 beyond",
    ],
)
def test_what_is_no_text_of_an_encoding_that_is_read_is_refused(data: bytes, world: World) -> None:
    before = world.places()
    world.refused(before, world.upload(data), field="file", status=(400,))


def _bomb(shape: str) -> str:
    """Headers that cost far more than they weigh, or nest without end."""
    doubling = [f"a{number}: &a{number} {{x: *a{number - 1}, y: *a{number - 1}}}" for number in range(1, 40)]
    merging = [f"a{number}: &a{number} {{<<: [*a{number - 1}, *a{number - 1}]}}" for number in range(1, 40)]
    long_text = "x" * 5_000
    return {
        "doubling": "a0: &a0 {x: 1}\n" + "\n".join(doubling),
        "merging": "a0: &a0 {x: 1}\n" + "\n".join(merging),
        "text": f"a: &a {long_text}\nb: [{', '.join(['*a'] * 1_000)}]",
        "flow": "a: " + "[" * 5_000 + "]" * 5_000,
        "flow without end": "a: " + "{a: [" * 3_000,
        "blocks": "\n".join(" " * number + f"k{number}:" for number in range(300)),
        "dashes": "a:\n" + "- " * 5_000 + "x",
        "keys": "? " * 5_000 + "x",
        "anchors": "\n".join(f"k{number}: &k{number} v" for number in range(4_000)),
        "tags": "a: " + "!!set {x}\nb: !!omap [x: 1]\nc: !!binary aGk=",
        "directive": "%YAML 9.9\na: 1",
        "number": "a: " + "9" * 60_000,
        "float": "a: 1e999999999\nb: -.inf\nc: 0x" + "f" * 10_000 + "\nd: 190:20:30.15",
        "too large": "a: " + "y" * 70_000,
        "quotes": 'a: "' + "\\x" * 5_000,
        "escapes": 'a: "' + "\\U0010FFFF\\0\\e\\_" * 500 + '"',
        "surrogate": 'a: "\\uD800"',
        "many": "\n".join(f"k{number}: {number}" for number in range(5_000)),
        "recursive key": "&a [*a]: 1",
        "unicode": "\u2028a: b\u2029\n\u0085c: d\ne\ufeff: f",
    }[shape]


SHAPES = [
    *["doubling", "merging", "text", "flow", "flow without end", "blocks", "dashes", "keys", "anchors", "tags"],
    *[
        "directive",
        "number",
        "float",
        "too large",
        "quotes",
        "escapes",
        "surrogate",
        "many",
        "recursive key",
        "unicode",
    ],
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_header_that_is_a_bomb_is_taken_and_its_body_kept(shape: str, world: World) -> None:
    data = f"---\n{_bomb(shape)}\n---\n# Body\n\nThe body of it stays.\n".encode("utf-8", "surrogatepass")
    document = world.accepted(world.upload(data), data)
    assert "The body of it stays." in world.chunks(document)
    assert len(json.dumps(document["metadata"])) < 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "#" * 100_000,
        "```" * 50_000,
        "[" * 50_000,
        "> " * 20_000 + "x",
        "- " * 20_000 + "x",
        "|" * 100_000 + "\n" + "|-" * 50_000 + "|",
        "*" * 50_000 + "a" + "_" * 50_000,
        "![" * 20_000 + "](" * 20_000,
        "<" * 100_000,
        "\\" * 100_000,
        "&#x" * 50_000,
        "\n" * 100_000 + "x",
        "x\r" * 50_000,
        "---\n" * 50_000,
        "# " + "a" * 200_000,
        "=\n" * 50_000,
    ],
)
def test_markdown_made_to_be_slow_is_indexed_and_shown(text: str, world: World, staff: APIClient) -> None:
    data = f"---\nkeywords: [SLOW_1X]\n---\n{text}\n\nSLOW_1X\n".encode()
    answer = world.upload(data)
    assert answer.status_code == 202
    run_due_jobs()
    document = world.document(answer.json()["id"])
    assert document["status"] in {"INDEXED", "FAILED"}
    assert staff.get(f"/documents/{document['id']}/").status_code == 200
    assert world.lookup("SLOW_1X").status_code == 200
