"""Checks of uploads: file names, categories, contents. Each takes the world and the case's input."""

from __future__ import annotations

import io
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest
from django.test import Client
from django.test.client import BOUNDARY
from django.utils.html import escape

from documents.errors import DocumentError
from documents.models import ApiDocument
from documents.services import upload_document
from documents.worker import run_due_jobs
from retrieval.chunking import chunk_body
from tests.flows.bad_inputs_world import TEXT, World, raw_form

Check = Callable[[World, str], None]


# ---- File names ------------------------------------------------------------------------------------------------------
def name_refused(world: World, given: str) -> None:
    """Refused in both spellings of the wire, and by the service itself."""
    before = world.places()
    world.refused(before, world.upload(name=given), field="file")
    plain = world.upload(name=given, plain_name=True)
    assert 400 <= plain.status_code < 500, plain.content
    assert world.places() == before
    with pytest.raises(DocumentError):
        upload_document(file=io.BytesIO(TEXT), file_name=given, category="payment", user=None)
    assert world.places() == before


def name_kept(world: World, given: str) -> None:
    document = world.accepted(world.upload(name=given))
    assert document["file_name"] == given
    answer = world.client.get(f"/api/v1/documents/{document['id']}/content/")
    header = Message()
    header["Content-Disposition"] = answer["Content-Disposition"]
    assert header.get_filename() == given
    _shown_in_the_admin(world, given)


def _shown_in_the_admin(world: World, name: str) -> None:
    admin = Client()
    admin.force_login(world.people["alice"])
    html = admin.get("/admin/documents/apidocument/").content.decode()
    assert escape(name) in html
    assert name == escape(name) or name not in html


def name_as_script(world: World, given: str) -> None:
    """The slashes in it make it a path; without them it is a name, escaped wherever it is shown."""
    name_refused(world, given)
    name_kept(world, given.replace("/", ""))


def name_trimmed(world: World, given: str) -> None:
    assert world.accepted(world.upload(name=given))["file_name"] == given.strip()


def name_in_nfc(world: World, given: str) -> None:
    assert world.accepted(world.upload(name=given))["file_name"] == "caf\u00e9.md"


def name_twin_in_another_form(world: World, given: str) -> None:
    first = world.accepted(world.upload(name="cafe\u0301.md"))
    again = world.accepted(world.upload(b"# Other\n\ntext\n", name=given), b"# Other\n\ntext\n")
    assert (again["id"], ApiDocument.objects.count()) == (first["id"], 1)


def _name_twin(first: str) -> Check:
    def check(world: World, given: str) -> None:
        world.accepted(world.upload(name=first))
        before = world.places()
        world.refused(before, world.upload(b"# Other\n\ntext\n", name=given), field="file", status=(409,))

    return check


def turkish_i(world: World, given: str) -> None:
    world.accepted(world.upload(name=given))
    before = world.places()
    world.refused(before, world.upload(b"# Other\n\ntext\n", name="i\u0307.md"), field="file", status=(409,))
    world.accepted(world.upload(name="i.md"))


def staging_as_a_name(world: World, given: str) -> None:
    name_refused(world, given)
    world.refused(world.places(), world.upload(category=given), field="category")


def no_name(world: World, given: str) -> None:
    before = world.places()
    world.refused(before, world.upload(name=given), field="file")
    world.refused(before, world.upload(name=given, plain_name=True), field="file")


def name_too_long(world: World, given: str) -> None:
    name_refused(world, "a" * 300 + ".md")


def path_at_its_limits(world: World, given: str) -> None:
    """200 characters in a category of 64 fit every disk; in Chinese such a name does not."""
    world.accepted(world.upload(name="n" * 200 + ".md", category="c" * 64))
    before = world.places()
    answer = world.upload(name="\u652f" * 200 + ".md", category="\u4ed8" * 64, plain_name=True)
    world.refused(before, answer, field="file")


def name_in_gbk(world: World, given: str) -> None:
    before = world.places()
    answer = world.send_form(raw_form(b'filename="' + "支付网关.md".encode("gbk") + b'"'))
    world.refused(before, answer, field="file")
    assert "UTF-8" in answer.json()["detail"]


FILE_NAMES: dict[str, Check] = {
    **{f"upload.filename-{number}": name_refused for number in ("01", "04", "05", "10", "11", "12", "17")},
    **{f"upload.filename-{number}": name_refused for number in ("25", "31", "32", "37", "49", "52")},
    **{f"upload.filename-{number}": name_kept for number in ("40", "43", "47", "50", "54")},
    "upload.filename-20": name_in_nfc,
    "upload.filename-21": name_twin_in_another_form,
    "upload.filename-22": _name_twin("a.md"),
    "upload.filename-23": turkish_i,
    "upload.filename-24": _name_twin("strasse.md"),
    "upload.filename-26": staging_as_a_name,
    "upload.filename-30": no_name,
    "upload.filename-34": name_trimmed,
    "upload.filename-45": name_as_script,
    "upload.filename-55": name_too_long,
    "upload.filename-58": path_at_its_limits,
    "upload.filename-59": name_in_gbk,
}


# ---- Categories ------------------------------------------------------------------------------------------------------
def category_refused(world: World, given: str) -> None:
    world.refused(world.places(), world.upload(category=given), field="category")


def category_trimmed(world: World, given: str) -> None:
    assert world.accepted(world.upload(category=given))["category"] == given.strip()


def category_twin(world: World, given: str) -> None:
    world.accepted(world.upload(category=given.lower()))
    before = world.places()
    answer = world.upload(name="other.md", category=given)
    world.refused(before, answer, field="category", status=(409,))
    assert given.lower() in answer.json()["detail"]


def category_too_long(world: World, given: str) -> None:
    category_refused(world, "x" * 65)


def category_of_64_chinese(world: World, given: str) -> None:
    category = "\u652f" * 64
    world.accepted(world.upload(b"---\nkeywords: [ERR_64]\n---\n# A\n\ntext\n", category=category),
                   b"---\nkeywords: [ERR_64]\n---\n# A\n\ntext\n")  # fmt: skip
    assert world.found("ERR_64")["retrievedDomainsThisSession"] == [category]


CATEGORIES: dict[str, Check] = {
    **{f"upload.category-{number}": category_refused for number in ("01", "04", "06", "11", "14", "15", "16", "18")},
    "upload.category-09": category_trimmed,
    "upload.category-10": category_twin,
    "upload.category-22": category_too_long,
    "upload.category-23": category_of_64_chinese,
}


# ---- Contents --------------------------------------------------------------------------------------------------------
def _content_refused(data: bytes, *status: int) -> Check:
    def check(world: World, given: str) -> None:
        world.refused(world.places(), world.upload(data), field="file", status=status or (400,))

    return check


def _content_taken(text: str) -> Check:
    def check(world: World, given: str) -> None:
        data = text.encode()
        document = world.accepted(world.upload(data), data)
        chunks = chunk_body(text)
        assert document["chunk_count"] == len(chunks) > 0
        assert world.chunks(document) == "\n".join(chunk.text for chunk in chunks)
        assert max(len(chunk.text) for chunk in chunks) <= 2_000

    return check


def header_alone(world: World, given: str) -> None:
    data = b"---\ntitle: a\nkeywords: [ERR_ALONE]\n---\n"
    document = world.accepted(world.upload(data), data)
    assert (document["title"], document["chunk_count"]) == ("a", 0)
    assert world.found("what is ERR_ALONE")["found"] is True


def gbk(world: World, given: str) -> None:
    text = "---\ntitle: 支付网关超时\n---\n# 支付网关超时的处理办法\n\n请检查网络连接，再查询订单的状态。\n"
    document = world.accepted(world.upload(text.encode("gbk")), text.encode("gbk"))
    assert document["title"] == "支付网关超时"
    assert "请检查网络连接" in world.chunks(document)


def control_characters(world: World, given: str) -> None:
    """Kept in the file, but on no page and in no title."""
    marks = "".join(map(chr, [*range(1, 9), 11, 12, *range(14, 32), 127]))
    data = f"---\nkeywords: [ERR_CONTROL]\n---\n# A{marks}B\n\nText {marks} goes on.\n".encode()
    document = world.accepted(world.upload(data), data)
    assert document["title"].replace(" ", "") == "AB"
    bob = Client()
    bob.force_login(world.people["bob"])
    page = bob.post("/ask/", {"message": "ERR_CONTROL"}, follow=True)
    for shown in (page, bob.get(f"/documents/{document['id']}/")):
        assert shown.status_code == 200
        assert [mark for mark in marks if mark in shown.content.decode()] == []
        assert "goes on." in shown.content.decode()


def svg(world: World, given: str) -> None:
    data = b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.__xss=1"></svg>\n'
    document = world.accepted(world.upload(data), data)
    answer = world.client.get(f"/api/v1/documents/{document['id']}/content/")
    assert answer["Content-Type"].startswith("text/markdown")
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]


def one_long_line(world: World, given: str) -> None:
    world.settings.UPLOAD_MAX_BYTES = 5 * 1024 * 1024
    line = b"word " * (5_000_000 // 5)
    assert world.upload(line).status_code == 202
    assert max(len(chunk.text) for chunk in chunk_body(line.decode())) <= 2_000
    world.tidy()
    ApiDocument.objects.all().delete()  # five million characters are embedded in the benchmarks, not here
    unbroken = b"x" * 300_000
    world.accepted(world.upload(unbroken, name="unbroken.md"), unbroken)


def a_million_headings(world: World, given: str) -> None:
    answer = world.upload(b"# a\n" * 1_000_000)
    assert answer.status_code == 202
    run_due_jobs()
    document = world.document(answer.json()["id"])
    assert document["status"] == "FAILED"
    assert "20000 passages" in document["status_reason"]
    world.tidy()


def one_byte_too_many(world: World, given: str) -> None:
    world.settings.UPLOAD_MAX_BYTES = 1024 * 1024
    before = world.places()
    world.refused(before, world.upload(b"x" * (1024 * 1024 + 1)), status=(413,))
    data = b"word " * (1024 * 1024 // 5) + b"x"
    assert len(data) == 1024 * 1024
    assert world.upload(data).status_code == 202


def form_without_a_file(world: World, given: str) -> None:
    before = world.places()
    line = b"--" + BOUNDARY.encode()
    body = b"\r\n".join([line, b'Content-Disposition: form-data; name="category"', b"", b"api", line + b"--", b""])
    world.refused(before, world.send_form(body), field="file")


def ten_thousand_fields(world: World, given: str) -> None:
    before = world.places()
    fields: Any = {f"f{number}": "x" for number in range(10_000)}
    answer = world.client.post("/api/v1/documents/", fields, format="multipart")
    world.refused(before, answer)


CONTENTS: dict[str, Check] = {
    "upload.content-02": _content_refused(b" \n\t"),
    "upload.content-03": header_alone,
    "upload.content-05": gbk,
    "upload.content-07": _content_refused("A text of some length, 支付。".encode("utf-32")),
    "upload.content-12": control_characters,
    "upload.content-13": _content_refused(b"PK\x03\x04" + bytes(range(256))),
    "upload.content-16": svg,
    "upload.content-19": one_long_line,
    "upload.content-20": a_million_headings,
    "upload.content-22": _content_taken("😀🧯👩‍👩‍👧‍👦" * 700),
    "upload.content-23": _content_taken("# مرحبا\n\nهذا نص باللغة العربية عن بوابة الدفع.\n"),
    "upload.content-24": _content_taken("# A\n\nz" + "\u0301\u0327\u0489" * 1000 + "algo\n"),
    "upload.content-26": one_byte_too_many,
    "upload.content-33": form_without_a_file,
    "upload.content-37": ten_thousand_fields,
}
