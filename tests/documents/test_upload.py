"""Uploading a document: what is on disk and in the row once it is answered, and what is refused (DOC-1, DOC-6)."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from documents import storage
from documents.errors import DocumentError
from documents.models import ApiDocument, KnowledgeDomain
from documents.services import upload_document
from tests.documents.library import files, text, upload

pytestmark = pytest.mark.django_db


def test_the_bytes_are_saved_identical_under_their_category(knowledge_base: Path, alice: Any) -> None:
    data = "\ufeff---\r\ntitle: 支付超时\r\nkeywords: [超时, ERR_TIMEOUT]\r\n---\r\n正文\r\n".encode()
    outcome = upload(data, "超时 说明.md", "payment", alice)
    assert (outcome.created, outcome.unchanged) == (True, False)
    assert (knowledge_base / "payment" / "超时 说明.md").read_bytes() == data
    document = outcome.document
    assert document.file_path == "knowledge_base/payment/超时 说明.md"
    assert (document.title, document.category, document.size) == ("支付超时", "payment", len(data))
    assert document.metadata == {"title": "支付超时", "keywords": ["超时", "ERR_TIMEOUT"]}
    assert document.content_hash == storage.content_hash(data)
    assert document.uploaded_by == alice
    assert (document.status, document.revision, document.published_revision) == ("PENDING", 1, 1)


def test_nothing_stays_in_staging_once_it_is_published(knowledge_base: Path) -> None:
    upload(text())
    assert files(knowledge_base) == ["payment/timeouts.md"]


def test_a_document_without_a_header_has_no_metadata_and_the_title_of_its_first_heading(knowledge_base: Path) -> None:
    document = upload("# 回滚步骤\n\n先停流量。\n", "rollback.md", "release").document
    assert document.metadata is None
    assert (document.title, document.frontmatter_problem) == ("回滚步骤", "")


def test_a_broken_header_is_taken_with_a_reason(knowledge_base: Path) -> None:
    document = upload("---\ntitle: [a\n---\nbody\n").document
    assert document.metadata is None
    assert document.frontmatter_problem


def test_a_document_of_no_category_lies_at_the_root(knowledge_base: Path) -> None:
    document = upload(text(), "notes.md", "uncategorised").document
    assert document.file_path == "knowledge_base/notes.md"
    assert (knowledge_base / "notes.md").exists()


def test_an_upload_makes_its_domain(knowledge_base: Path) -> None:
    upload(text())
    upload(text("OTHER"), "other.md")
    assert list(KnowledgeDomain.objects.values_list("domain_id", flat=True)) == ["payment"]


@pytest.mark.parametrize(
    ("content", "code", "status"),
    [
        (b"", "empty_file", 400),
        (b" \n\t", "empty_file", 400),
        (b"PK\x03\x04" + b"\x00" * 40, "unreadable_text", 400),
        ("text".encode("utf-32"), "unreadable_text", 400),
        (b"a\x00b\x00\xff\xfe\x00", "unreadable_text", 400),
    ],
)
def test_what_is_no_text_is_refused_and_leaves_nothing(
    knowledge_base: Path, content: bytes, code: str, status: int
) -> None:
    with pytest.raises(DocumentError) as refusal:
        upload(content)
    assert (refusal.value.code, refusal.value.status, refusal.value.field) == (code, status, "file")
    assert files(knowledge_base) == []
    assert not ApiDocument.objects.exists()


class Endless(io.RawIOBase):
    """A file that never ends, and counts what is taken from it."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0, "read without a bound"
        self.taken += size
        return b"x" * size


def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole(knowledge_base: Path, settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = 1_000_000
    endless = Endless()
    with pytest.raises(DocumentError) as refusal:
        upload_document(file=endless, file_name="big.md", category="api", user=None)  # type: ignore[arg-type]
    assert (refusal.value.code, refusal.value.status) == ("file_too_large", 413)
    assert endless.taken <= 1_000_001
    assert files(knowledge_base) == []


def test_a_file_of_exactly_the_limit_is_taken(knowledge_base: Path, settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = 1_000
    assert upload(b"x" * 1_000).document.size == 1_000
    with pytest.raises(DocumentError):
        upload(b"x" * 1_001, "larger.md")


def test_a_name_that_differs_only_by_case_is_refused_with_the_other_named(knowledge_base: Path) -> None:
    upload(text(), "Readme.md")
    with pytest.raises(DocumentError) as refusal:
        upload(text("X"), "README.md")
    assert (refusal.value.code, refusal.value.status) == ("name_twin", 409)
    assert "knowledge_base/payment/Readme.md" in refusal.value.detail
    assert files(knowledge_base) == ["payment/Readme.md"]


def test_a_category_that_differs_only_by_case_is_refused(knowledge_base: Path) -> None:
    upload(text(), category="payment")
    with pytest.raises(DocumentError) as refusal:
        upload(text(), "b.md", category="Payment")
    assert refusal.value.code == "category_twin"
    assert "payment" in refusal.value.detail
    assert not (knowledge_base / "Payment").exists()


def test_both_unicode_forms_of_a_name_are_one_document(knowledge_base: Path) -> None:
    upload(text(), "cafe\u0301.md")
    outcome = upload(text("NEW"), "caf\u00e9.md")
    assert not outcome.created
    assert files(knowledge_base)[-1:] == ["payment/caf\u00e9.md"]
    assert ApiDocument.objects.count() == 1


def test_a_category_folder_that_is_a_link_is_refused(knowledge_base: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (knowledge_base / "payment").symlink_to(outside)
    with pytest.raises(DocumentError) as refusal:
        upload(text())
    assert refusal.value.code == "unsafe_path"
    assert list(outside.iterdir()) == []
    assert not ApiDocument.objects.exists()


def test_a_link_in_the_place_of_the_file_is_replaced_and_its_target_untouched(
    knowledge_base: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("keep me")
    (knowledge_base / "payment").mkdir()
    (knowledge_base / "payment" / "timeouts.md").symlink_to(secret)
    with pytest.raises(DocumentError):
        upload(text())
    assert secret.read_text() == "keep me"
    assert not ApiDocument.objects.exists()


def test_a_staging_folder_that_is_a_link_is_refused(knowledge_base: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (knowledge_base / ".staging").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DocumentError):
        upload(text())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_folder_is_made_when_it_is_missing(knowledge_base: Path) -> None:
    knowledge_base.rmdir()
    upload(text())
    assert files(knowledge_base) == ["payment/timeouts.md"]


def test_the_file_keeps_the_usual_permissions(knowledge_base: Path) -> None:
    umask = os.umask(0o022)
    try:
        upload(text())
    finally:
        os.umask(umask)
    assert (knowledge_base / "payment" / "timeouts.md").stat().st_mode & 0o777 == 0o644
