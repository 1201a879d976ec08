"""``POST /documents/``: what an upload answers, what is refused and why, and that a refusal leaves nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test.client import BOUNDARY, MULTIPART_CONTENT

from documents import services
from documents.models import ApiDocument
from documents.worker import run_due_jobs
from tests.doors import DOCUMENTS, MARKDOWN, program, upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer() -> Any:
    cache.clear()
    return program("write")


@pytest.fixture
def _worker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a call waits, the jobs are run, as the worker would."""
    monkeypatch.setattr(services, "wait_until_indexed", lambda document_id, seconds: run_due_jobs())


def raw_form(
    file_name: bytes, *, data: bytes = b"# A\n\nText.\n", category: bytes = b"api", extra: bytes = b""
) -> bytes:
    """A form as it goes over the wire, with a file name that no client library would let pass."""
    line = b"--" + BOUNDARY.encode()
    return b"\r\n".join(
        [
            line,
            b'Content-Disposition: form-data; name="category"',
            b"",
            category,
            line,
            b'Content-Disposition: form-data; name="file"; filename="' + file_name + b'"',
            b"Content-Type: text/markdown",
            b"",
            data,
            *([extra] if extra else []),
            line + b"--",
            b"",
        ]
    )


def post_raw(client: Any, body: bytes) -> Any:
    return client.generic("POST", DOCUMENTS, body, content_type=MULTIPART_CONTENT)


def nothing_left(folder: Path) -> bool:
    return not ApiDocument.objects.exists() and not [path for path in folder.rglob("*") if path.is_file()]


def test_an_upload_is_accepted_pending_with_its_location(writer: Any, knowledge_base: Path) -> None:
    answer = upload(writer)
    document = answer.json()
    assert answer.status_code == 202
    assert answer["Location"] == f"{DOCUMENTS}{document['id']}/"
    assert document["status"] == "PENDING"
    assert document["file_path"] == "knowledge_base/payment/payment.md"
    assert document["title"] == "Payment time-outs"
    assert document["metadata"]["keywords"] == ["ERR_TIMEOUT", "支付网关"]
    assert (knowledge_base / "payment" / "payment.md").read_bytes() == MARKDOWN.encode()


def test_a_document_has_exactly_the_fields_of_the_contract(writer: Any) -> None:
    assert list(upload(writer).json()) == [
        "id",
        "file_path",
        "file_name",
        "category",
        "title",
        "metadata",
        "generated_fields",
        "status",
        "status_reason",
        "enabled",
        "revision",
        "content_hash",
        "size",
        "chunk_count",
        "uploaded_by",
        "created_at",
        "updated_at",
        "indexed_at",
    ]


def test_json_is_utf8_and_not_escaped(writer: Any) -> None:
    assert "支付网关".encode() in upload(writer).content


def test_the_uploader_is_named(alice: Any) -> None:
    assert upload(program("write", user=alice)).json()["uploaded_by"] == "alice"
    assert upload(program("write"), name="b.md").json()["uploaded_by"] is None


@pytest.mark.usefixtures("_worker_runs")
def test_waiting_gives_201_for_a_new_document_and_200_for_a_replacement(writer: Any) -> None:
    first = upload(writer, query="?wait=1")
    assert (first.status_code, first.json()["status"]) == (201, "INDEXED")
    second = upload(writer, query="?wait=1", text="# Anew\n\nOther text.\n")
    assert (second.status_code, second.json()["status"]) == (200, "INDEXED")
    assert second.json()["id"] == first.json()["id"]
    assert second.json()["revision"] > first.json()["revision"]


def test_a_replacement_without_waiting_is_a_202(writer: Any) -> None:
    upload(writer)
    assert upload(writer, text="# Anew\n\nOther text.\n").status_code == 202


def test_the_same_bytes_again_are_a_200(writer: Any) -> None:
    first = upload(writer)
    again = upload(writer)
    assert again.status_code == 200
    assert again.json()["revision"] == first.json()["revision"]


def test_a_document_that_fails_while_one_waits_is_a_202_with_the_reason(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(document_id: int, seconds: float) -> None:
        ApiDocument.objects.filter(pk=document_id).update(status="FAILED", status_reason="the vector store is down")

    monkeypatch.setattr(services, "wait_until_indexed", fail)
    answer = upload(writer, query="?wait=1")
    assert answer.status_code == 202
    assert answer.json()["status_reason"] == "the vector store is down"


@pytest.mark.parametrize("wait", ["2", "maybe", "-1"])
def test_a_wait_that_is_neither_yes_nor_no_is_a_400(writer: Any, wait: str, knowledge_base: Path) -> None:
    assert upload(writer, query=f"?wait={wait}").status_code == 400
    assert nothing_left(knowledge_base)


@pytest.mark.parametrize(
    "name",
    [
        "../evil.md",
        "/etc/evil.md",
        "a/b.md",
        "C:\\\\dir\\\\evil.md",
        "..\\\\..\\\\evil.md",
        "a\0b.md",
        "a\u200bb.md",
        ".hidden.md",
        ".md",
        "   ",
        "nul.md",
        "a.md.exe",
        "a.txt",
        "a" * 300 + ".md",
        "‥/evil.md",
        "a\ufffdb.md",
    ],
)
def test_a_bad_file_name_is_refused_as_it_was_sent(writer: Any, name: str, knowledge_base: Path) -> None:
    answer = post_raw(writer, raw_form(name.encode()))
    assert answer.status_code in {400, 415}, answer.content
    assert answer.json()["errors"][0]["field"] in {"file", "file_name"}
    assert nothing_left(knowledge_base)


@pytest.mark.parametrize("name", ["-rf.md", "a`id`.md", "');alert(1);.md", "%s%n{0}.md", "a.exe.md", "中文 文档.MD"])
def test_an_odd_but_harmless_file_name_is_kept(writer: Any, name: str) -> None:
    answer = post_raw(writer, raw_form(name.encode()))
    assert answer.status_code == 202, answer.content
    assert answer.json()["file_name"] == name


def test_a_file_name_that_is_no_utf8_is_explained(writer: Any, knowledge_base: Path) -> None:
    answer = post_raw(writer, raw_form("支付.md".encode("gbk")))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "file"
    assert nothing_left(knowledge_base)


@pytest.mark.parametrize(
    "category", ["..", ".", "a/b", "", "   ", ".staging", 'x" or id != "', "<b>x</b>", "x" * 65, "a\0b"]
)
def test_a_bad_category_is_refused(writer: Any, category: str, knowledge_base: Path) -> None:
    answer = upload(writer, category=category)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "category"
    assert nothing_left(knowledge_base)


def test_a_form_without_a_file_or_a_category_is_a_400(writer: Any) -> None:
    no_file = writer.post(DOCUMENTS, {"category": "api"}, format="multipart")
    assert no_file.status_code == 400
    assert no_file.json()["errors"][0] == {
        "field": "file",
        "code": "required",
        "detail": no_file.json()["errors"][0]["detail"],
    }
    no_category = writer.post(DOCUMENTS, {"file": SimpleUploadedFile("a.md", b"# A\n")}, format="multipart")
    assert no_category.json()["errors"][0]["field"] == "category"
    assert writer.post(DOCUMENTS, {"file": "text, no file", "category": "api"}, format="multipart").status_code == 400


def test_unknown_fields_and_second_files_are_refused(writer: Any, knowledge_base: Path) -> None:
    form = {"file": SimpleUploadedFile("a.md", b"# A\n"), "category": "api", "status": "INDEXED"}
    answer = writer.post(DOCUMENTS, form, format="multipart")
    assert answer.json()["errors"][0] == {
        "field": "status",
        "code": "unknown_field",
        "detail": answer.json()["errors"][0]["detail"],
    }
    two = {"file": [SimpleUploadedFile("a.md", b"# A\n"), SimpleUploadedFile("b.md", b"# B\n")], "category": "api"}
    assert writer.post(DOCUMENTS, two, format="multipart").status_code == 400
    assert nothing_left(knowledge_base)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"PK\x03\x04" + bytes(range(256)), 400),
        ("text".encode("utf-32"), 400),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", 400),
    ],
)
def test_what_is_no_text_is_refused(writer: Any, data: bytes, status: int, knowledge_base: Path) -> None:
    answer = upload(writer, text=data)
    assert answer.status_code in {status, 415}
    assert nothing_left(knowledge_base)


def test_gbk_and_utf16_are_read(writer: Any) -> None:
    text = "---\ntitle: 支付网关超时\nkeywords: [支付网关]\n---\n# 支付网关超时的处理办法\n\n请检查网络连接。\n"
    for name, encoding in (("g.md", "gbk"), ("u.md", "utf-16")):
        answer = upload(writer, name=name, text=text.encode(encoding))
        assert (answer.status_code, answer.json()["title"]) == (202, "支付网关超时")


def test_json_instead_of_a_form_is_a_415(writer: Any) -> None:
    answer = writer.post(DOCUMENTS, {"category": "api"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("body", [b"", b"garbage", b"--" + BOUNDARY.encode() + b"\r\n\r\nhalf"])
def test_a_broken_form_is_a_400(writer: Any, body: bytes) -> None:
    assert post_raw(writer, body).status_code == 400


def test_a_form_of_ten_thousand_fields_is_a_400(writer: Any) -> None:
    answer = writer.post(DOCUMENTS, {f"f{number}": "x" for number in range(10_000)}, format="multipart")
    assert (answer.status_code, answer.json()["code"]) == (400, "too_many_fields")


def test_a_file_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    writer: Any, settings: Any, knowledge_base: Path
) -> None:
    settings.UPLOAD_MAX_BYTES = 100_000
    head = b"# A\n\n"
    over = upload(writer, text=head + b"x" * (100_000 - len(head) + 1))
    assert (over.status_code, over.json()["code"]) == (413, "file_too_large")
    assert nothing_left(knowledge_base)
    assert upload(writer, text=head + b"x" * (100_000 - len(head))).status_code == 202


def test_reading_stops_at_the_limit(writer: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a large body is neither read nor kept."""
    from documents.multipart import BoundedUploadHandler

    received: list[int] = []
    real = BoundedUploadHandler.receive_data_chunk

    def count(self: Any, raw_data: bytes, start: int) -> None:
        received.append(len(raw_data))
        return real(self, raw_data, start)

    monkeypatch.setattr(BoundedUploadHandler, "receive_data_chunk", count)
    settings.UPLOAD_MAX_BYTES = 100_000
    assert upload(writer, text=b"x" * 20_000_000).status_code == 413
    assert sum(received) < 300_000


def test_the_same_idempotency_key_is_answered_alike_and_done_once(writer: Any) -> None:
    first = upload(writer, **{"Idempotency-Key": "k-1"})
    ApiDocument.objects.filter(pk=first.json()["id"]).update(title="moved on")
    again = upload(writer, **{"Idempotency-Key": "k-1"})
    assert (again.status_code, again.json(), again["Location"]) == (202, first.json(), first["Location"])
    assert again["Idempotent-Replayed"] == "true"


def test_an_idempotency_key_belongs_to_its_caller_and_its_content(writer: Any) -> None:
    upload(writer, **{"Idempotency-Key": "k-1"})
    other = upload(writer, text="# Other\n\nText.\n", **{"Idempotency-Key": "k-1"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    somebody = upload(program("write"), **{"Idempotency-Key": "k-1"})
    assert somebody.status_code == 200
    assert "Idempotent-Replayed" not in somebody


def test_a_refused_call_may_be_sent_again_with_its_key(writer: Any) -> None:
    assert upload(writer, category="..", **{"Idempotency-Key": "k-2"}).status_code == 400
    assert upload(writer, **{"Idempotency-Key": "k-2"}).status_code == 202


def test_an_idempotency_key_in_use_is_a_409(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("documents.idempotency.cache", SimpleNamespace(get=cache.get, add=lambda *args: False))
    answer = upload(writer, **{"Idempotency-Key": "k-3"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_busy")
    assert upload(writer, **{"Idempotency-Key": "with blank"}).json()["code"] == "bad_idempotency_key"


def test_uploads_beyond_the_rate_are_a_429(writer: Any, settings: Any) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": {"upload": "2/min"}}
    assert [upload(writer, name=f"{number}.md").status_code for number in range(3)] == [202, 202, 429]
    last = upload(writer)
    assert last.json()["code"] == "throttled"
    assert int(last["Retry-After"]) >= 1
    assert writer.get(DOCUMENTS).status_code == 200
    assert upload(program("write"), name="other.md").status_code == 202


def test_a_clash_by_case_is_a_409_that_names_the_other(writer: Any) -> None:
    upload(writer, name="Readme.md")
    answer = upload(writer, name="README.md")
    assert answer.status_code == 409
    assert "Readme.md" in answer.json()["detail"]


def test_an_upload_that_somebody_deletes_at_once_is_answered_as_taken(writer: Any, monkeypatch: Any) -> None:
    taken = services.upload_document

    def taken_and_deleted(**arguments: Any) -> Any:
        outcome = taken(**arguments)
        services.delete_document(document_id=outcome.document.pk, user=None)
        return outcome

    monkeypatch.setattr(services, "upload_document", taken_and_deleted)
    for query in ("", "?wait=1"):
        answer = writer.post(
            f"{DOCUMENTS}{query}",
            {"file": SimpleUploadedFile("gone.md", MARKDOWN.encode()), "category": "api"},
            format="multipart",
        )
        assert answer.status_code == 202, answer.content
        assert answer.json()["file_path"] == "knowledge_base/api/gone.md"
    assert not ApiDocument.objects.exists()


def test_a_key_whose_first_call_has_just_ended_gets_its_answer(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call looks before the first one's answer is kept, and gets its turn after."""
    first = upload(writer, **{"Idempotency-Key": "k-4"})
    looked: list[str] = []

    def too_early(name: str) -> Any:
        looked.append(name)
        return None if len(looked) == 1 else cache.get(name)

    stand_in = SimpleNamespace(get=too_early, add=cache.add, set=cache.set, delete=cache.delete)
    monkeypatch.setattr("documents.idempotency.cache", stand_in)
    second = upload(writer, **{"Idempotency-Key": "k-4"})
    assert (second.json()["revision"], second["Idempotent-Replayed"]) == (first.json()["revision"], "true")
