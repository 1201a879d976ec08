"""Earlier revisions in the admin: compared with the present file, brought back after a question, undone again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from documents.models import ApiDocument, DocumentHistory
from documents.services import delete_document
from tests.documents.admin_pages import readable
from tests.documents.library import text, upload

pytestmark = pytest.mark.django_db
ONE, TWO = text("ONE", body="# Time-outs\n\nTen seconds.\n"), text("TWO", body="# Time-outs\n\nThirty seconds.\n")
LIST = reverse("admin:documents_documenthistory_changelist")


@pytest.fixture
def curator(alice: Any) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def newest() -> DocumentHistory:
    row = DocumentHistory.objects.order_by("-id").first()
    assert row is not None
    return row


def page(row: DocumentHistory) -> str:
    return reverse("admin:documents_documenthistory_change", args=[row.pk])


def restore(row: DocumentHistory) -> str:
    return reverse("admin:documents_history_restore", args=[row.pk])


def test_the_page_compares_with_the_present_file(knowledge_base: Path, curator: Client) -> None:
    upload(ONE)
    upload(TWO)
    assert "payment/timeouts.md" in readable(curator.get(LIST))
    words = readable(curator.get(page(newest())))
    assert "− Thirty seconds." in words
    assert "+ Ten seconds." in words
    assert "+ keywords: [ONE]" in words


def test_markup_of_a_document_is_shown_not_run(knowledge_base: Path, curator: Client) -> None:
    upload(text("ONE", body="<script>alert(1)</script>\n"))
    upload(TWO)
    assert b"<script>alert" not in curator.get(page(newest())).content


def test_restoring_asks_first_and_offers_the_way_back(knowledge_base: Path, curator: Client) -> None:
    document = upload(ONE).document
    upload(TWO)
    row = newest()
    assert "becomes the newest revision" in readable(curator.get(restore(row)))
    assert ApiDocument.objects.get().revision == 2
    answer = curator.post(restore(row), follow=True)
    assert answer.redirect_chain[-1][0] == reverse("admin:documents_apidocument_change", args=[document.pk])
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == ONE
    assert restore(newest()) in answer.content.decode()
    curator.post(restore(newest()))
    assert (knowledge_base / "payment" / "timeouts.md").read_text() == TWO


def test_a_deletion_in_the_admin_can_be_undone_from_its_message(knowledge_base: Path, curator: Client) -> None:
    document = upload(ONE).document
    answer = curator.post(
        reverse("admin:documents_apidocument_delete", args=[document.pk]), {"post": "yes"}, follow=True
    )
    undo = re.search(r'href="([^"]+/restore/)"', answer.content.decode())
    assert undo is not None
    assert "comes back at its path" in readable(curator.get(undo[1]))
    curator.post(undo[1])
    assert ApiDocument.objects.get().pk == document.pk


def test_an_edit_in_the_admin_can_be_undone_from_its_message(knowledge_base: Path, curator: Client) -> None:
    document = upload(ONE).document
    address = reverse("admin:documents_apidocument_change", args=[document.pk])
    answer = curator.post(address, {"enabled": "on", "text": TWO, "seen_revision": "1"}, follow=True)
    assert restore(newest()) in answer.content.decode()


def test_many_deletions_at_once_lead_to_the_list(knowledge_base: Path, curator: Client) -> None:
    ids = [upload(ONE, f"{number}.md").document.pk for number in range(6)]
    answer = curator.post(
        reverse("admin:documents_apidocument_changelist"),
        {"action": "delete_selected", "_selected_action": ids, "post": "yes"},
        follow=True,
    )
    assert f'href="{LIST}?reason__exact=deleted"' in answer.content.decode()
    assert "/restore/" not in answer.content.decode()


def test_a_taken_place_is_offered_as_a_revision_of_that_document(knowledge_base: Path, curator: Client) -> None:
    delete_document(document_id=upload(ONE).document.pk, user=None)
    row = newest()
    other = upload(TWO).document
    assert "as a revision of that document" in readable(curator.get(restore(row)))
    assert "is another document by now" in readable(curator.post(restore(row), follow=True))
    curator.post(restore(row), {"replace": "yes"})
    other.refresh_from_db()
    assert other.revision == 2


def test_bytes_that_are_gone_are_said_and_not_offered(knowledge_base: Path, curator: Client) -> None:
    upload(ONE)
    upload(TWO)
    row = newest()
    (knowledge_base / ".history" / row.stored_name).unlink()
    answer = curator.get(page(row))
    assert "cannot be restored" in readable(answer)
    assert restore(row) not in answer.content.decode()
    assert curator.get(page(row).replace(f"/{row.pk}/", "/99999/")).status_code == 404


def test_the_kept_file_can_be_downloaded(knowledge_base: Path, curator: Client) -> None:
    upload(ONE)
    upload(TWO)
    answer = curator.get(reverse("admin:documents_history_content", args=[newest().pk]))
    assert answer.content == ONE.encode()


def test_who_may_only_look_cannot_restore(knowledge_base: Path, bob: Any) -> None:
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_documenthistory"))
    client = Client()
    client.force_login(bob)
    upload(ONE)
    upload(TWO)
    row = newest()
    assert restore(row) not in client.get(page(row)).content.decode()
    assert client.post(restore(row)).status_code == 403
    assert ApiDocument.objects.get().revision == 2
