"""The curators' pages: upload, edit, retry, enable, delete go through the same protocol as the API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from documents import services
from documents.models import ApiDocument, ApiKey, DocumentHistory, KnowledgeDomain, ToolInvocation
from documents.source import get_keyword_index
from documents.worker import run_due_jobs

pytestmark = pytest.mark.django_db(transaction=True)
LIST = reverse("admin:documents_apidocument_changelist")
ADD = reverse("admin:documents_apidocument_add")
TEXT = "---\ntitle: Disk full\nkeywords: [ENOSPC, disk full]\n---\n\n# Disk full\n\nRotate the logs.\n"


@pytest.fixture
def curator(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


def upload(client: Client, name: str = "disk.md", text: str = TEXT, category: str = "infrastructure") -> Any:
    return client.post(ADD, {"category": category, "uploads": [SimpleUploadedFile(name, text.encode())]})


def change_url(document: ApiDocument) -> str:
    return reverse("admin:documents_apidocument_change", args=[document.pk])


def found_by(keyword: str) -> list[str]:
    get_keyword_index().refresh()
    return [match.entry.file_path for match in get_keyword_index().match(keyword)]


def test_an_upload_is_saved_and_found_by_its_keyword_at_once(curator: Client, knowledge_base: Path) -> None:
    page = upload(curator).content.decode()
    assert "found by keyword" in page
    assert (knowledge_base / "infrastructure" / "disk.md").read_text(encoding="utf-8") == TEXT
    assert found_by("ENOSPC") == ["knowledge_base/infrastructure/disk.md"]
    assert ApiDocument.objects.get().uploaded_by is not None


def test_each_file_has_its_own_result_and_a_refused_one_holds_up_no_other(curator: Client) -> None:
    files = [
        SimpleUploadedFile("good.md", TEXT.encode()),
        SimpleUploadedFile("table.docx", b"PK\x03\x04"),
        SimpleUploadedFile("broken.md", b"---\ntitle: x\nkeywords: [A\n---\nbody\n"),
    ]
    page = curator.post(ADD, {"category": "api", "uploads": files}).content.decode()
    assert page.count("k-prog") == 3
    assert "Not taken" in page
    assert {row.file_name for row in ApiDocument.objects.all()} == {"good.md", "broken.md"}
    assert ApiDocument.objects.get(file_name="broken.md").frontmatter_problem in page.replace("&#x27;", "'")


def test_the_same_file_again_is_said_to_be_unchanged(curator: Client) -> None:
    upload(curator)
    assert "Nothing changed" in upload(curator).content.decode()
    assert ApiDocument.objects.get().revision == 1


def test_without_a_file_the_form_says_so(curator: Client) -> None:
    page = curator.post(ADD, {"category": "api"}).content.decode()
    assert "Choose at least one .md file." in page
    assert not ApiDocument.objects.exists()


def test_editing_the_text_makes_a_new_revision_and_keeps_the_old_bytes(curator: Client, knowledge_base: Path) -> None:
    upload(curator)
    document = ApiDocument.objects.get()
    edited = TEXT.replace("ENOSPC", "E-DISK-9").replace("\n", "\r\n")
    answer = curator.post(change_url(document), {"enabled": "on", "text": edited, "seen_revision": "1"})
    assert answer.status_code == 302
    document.refresh_from_db()
    assert document.revision == 2
    assert (knowledge_base / "infrastructure" / "disk.md").read_bytes() == TEXT.replace("ENOSPC", "E-DISK-9").encode()
    assert found_by("E-DISK-9")
    assert not found_by("ENOSPC")
    assert DocumentHistory.objects.get().reason == DocumentHistory.Reason.REPLACED


def test_saving_without_a_change_makes_no_revision(curator: Client) -> None:
    upload(curator)
    document = ApiDocument.objects.get()
    curator.post(change_url(document), {"enabled": "on", "text": TEXT.replace("\n", "\r\n"), "seen_revision": "1"})
    document.refresh_from_db()
    assert document.revision == 1


def test_an_edit_of_a_revision_that_somebody_replaced_meanwhile_is_refused(curator: Client) -> None:
    upload(curator)
    document = ApiDocument.objects.get()
    upload(curator, text=TEXT + "More.\n")
    page = curator.post(change_url(document), {"enabled": "on", "text": "mine", "seen_revision": "1"})
    assert page.status_code == 200
    assert "Somebody else changed this document meanwhile" in page.content.decode()
    document.refresh_from_db()
    assert document.revision == 2


def test_an_edit_that_is_refused_is_said_on_the_page(curator: Client) -> None:
    upload(curator)
    document = ApiDocument.objects.get()
    page = curator.post(change_url(document), {"enabled": "on", "text": "  \n", "seen_revision": "1"}, follow=True)
    assert page.status_code == 200
    assert "errorlist" in page.content.decode() or "messagelist" in page.content.decode()
    document.refresh_from_db()
    assert document.revision == 1


def test_disabled_it_is_found_no_more_and_enabled_it_is_again(curator: Client) -> None:
    upload(curator)
    document = ApiDocument.objects.get()
    curator.post(LIST, {"action": "disable_selected", "_selected_action": [document.pk]})
    assert not found_by("ENOSPC")
    curator.post(LIST, {"action": "enable_selected", "_selected_action": [document.pk]})
    assert found_by("ENOSPC")


def test_deleting_asks_first_and_then_removes_file_row_and_entry(curator: Client, knowledge_base: Path) -> None:
    upload(curator)
    run_due_jobs()
    document = ApiDocument.objects.get()
    asked = curator.post(LIST, {"action": "delete_selected", "_selected_action": [document.pk]})
    assert "Disk full" in asked.content.decode()
    assert ApiDocument.objects.exists()
    curator.post(LIST, {"action": "delete_selected", "_selected_action": [document.pk], "post": "yes"})
    assert not ApiDocument.objects.exists()
    assert not (knowledge_base / "infrastructure" / "disk.md").exists()
    assert not found_by("ENOSPC")
    assert DocumentHistory.objects.get().reason == DocumentHistory.Reason.DELETED


def test_all_failed_documents_are_queued_again_with_one_button(curator: Client) -> None:
    upload(curator)
    ApiDocument.objects.update(status=ApiDocument.Status.FAILED, status_reason="The embedder did not answer.")
    assert "The embedder did not answer." in curator.get(LIST).content.decode()
    curator.post(reverse("admin:documents_retry_failed"))
    assert ApiDocument.objects.get().status == ApiDocument.Status.PENDING
    assert curator.get(reverse("admin:documents_retry_failed")).status_code == 405


def test_the_list_is_searched_by_keyword_too(curator: Client) -> None:
    upload(curator)
    upload(curator, name="other.md", text="# Other\n\nNothing.\n")
    page = curator.get(LIST, {"q": "ENOSPC"}).content.decode()
    assert "disk.md" in page
    assert "other.md" not in page


def test_a_broken_header_is_listed_with_its_reason(curator: Client) -> None:
    upload(curator, name="broken.md", text="---\ntitle: x\nkeywords: [A\n---\nbody\n")
    upload(curator)
    page = curator.get(LIST, {"header": "broken"}).content.decode()
    assert "broken.md" in page
    assert "infrastructure/disk.md" not in page


def test_the_progress_counts_follow_the_rows(curator: Client) -> None:
    upload(curator)
    before = curator.get(reverse("admin:documents_progress")).json()
    run_due_jobs()
    after = curator.get(reverse("admin:documents_progress")).json()
    assert (before["waiting"], before["indexed"]) == (1, 0)
    assert (after["waiting"], after["indexed"]) == (0, 1)


def test_a_file_put_into_the_folder_is_taken_in_by_the_scan_button(curator: Client, knowledge_base: Path) -> None:
    (knowledge_base / "api").mkdir()
    (knowledge_base / "api" / "new.md").write_text(TEXT, encoding="utf-8")
    curator.post(reverse("admin:documents_scan"))
    assert found_by("ENOSPC") == ["knowledge_base/api/new.md"]


def test_a_curator_without_the_right_to_add_or_delete_cannot(client: Client, bob: Any) -> None:
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_apidocument"))
    client.force_login(bob)
    assert client.get(LIST).status_code == 200
    assert upload(client).status_code == 403
    assert client.post(reverse("admin:documents_scan")).status_code == 403
    assert client.post(reverse("admin:documents_retry_failed")).status_code == 403


def test_a_domain_text_becomes_the_curators_and_emptied_is_the_programs_again(curator: Client) -> None:
    upload(curator)
    domain = KnowledgeDomain.objects.get(domain_id="infrastructure")
    url = reverse("admin:documents_knowledgedomain_change", args=[domain.pk])
    curator.post(url, {"description": "Hosts and disks", "when_to_retrieve": domain.when_to_retrieve})
    domain.refresh_from_db()
    assert (domain.description, domain.description_source) == ("Hosts and disks", "curator")
    curator.post(url, {"description": "", "when_to_retrieve": domain.when_to_retrieve})
    domain.refresh_from_db()
    assert domain.description_source == "plain"


def test_recorded_calls_can_be_read_and_not_changed(curator: Client) -> None:
    row = ToolInvocation.objects.create(
        channel="api", tool_name="lookup_knowledge", query="<b>支付</b>", arguments={"query": "支付"}
    )
    page = curator.get(reverse("admin:documents_toolinvocation_change", args=[row.pk]))
    assert page.status_code == 200
    assert "支付" in page.content.decode()
    assert "<b>支付</b>" not in page.content.decode()
    assert curator.post(reverse("admin:documents_toolinvocation_change", args=[row.pk]), {}).status_code == 403
    assert curator.post(reverse("admin:documents_toolinvocation_delete", args=[row.pk])).status_code == 403


def test_a_key_is_made_with_scopes_and_shown_once(curator: Client) -> None:
    url = reverse("admin:documents_apikey_add")
    page = curator.post(url, {"name": "ci", "scopes": ["read", "write"]}, follow=True).content.decode()
    key = ApiKey.objects.get()
    assert key.scopes == "read write"
    shown = re.search(rf"{key.prefix}\.[A-Za-z0-9]{{20,}}", page)
    assert shown is not None
    assert ApiKey.objects.is_valid(shown.group())
    assert shown.group() not in curator.get(reverse("admin:documents_apikey_changelist")).content.decode()


def test_the_service_keeps_the_path_of_a_nested_document(curator: Client, knowledge_base: Path) -> None:
    (knowledge_base / "api" / "v2").mkdir(parents=True)
    (knowledge_base / "api" / "v2" / "x.md").write_text(TEXT, encoding="utf-8")
    curator.post(reverse("admin:documents_scan"))
    document = ApiDocument.objects.get()
    services.replace_text(document_id=document.pk, data=b"# New\n", revision=1, user=None)
    assert (knowledge_base / "api" / "v2" / "x.md").read_bytes() == b"# New\n"
    assert ApiDocument.objects.get().file_path == "knowledge_base/api/v2/x.md"
