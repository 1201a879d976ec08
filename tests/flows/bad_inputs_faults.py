"""Checks of stores that fail, and of addresses that lead where they should not."""

from __future__ import annotations

import socket
from typing import Any

from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from clients.fakes import InMemoryVectorStore
from clients.interfaces import ClientTimeout
from clients.registry import get_vector_store
from clients.session_memory import InProcessSessionMemory
from documents.models import ApiDocument, ToolInvocation
from documents.scan import scan
from documents.source import read_document
from documents.worker import run_due_jobs
from tests.doors import DOCUMENTS
from tests.flows.bad_inputs_uploads import Check
from tests.flows.bad_inputs_world import CHAT, World

TEXT = b"---\ntitle: Lanterns\nkeywords: [ERR_LANTERN]\n---\n# Lanterns\n\nA lantern goes out after thirty seconds.\n"


def _down(*args: Any, **kwargs: Any) -> Any:
    raise ClientTimeout("The vector store does not answer.", hint="Start it.")


# ---- The database ----------------------------------------------------------------------------------------------------
def database_down_at_insert(world: World, given: str) -> None:
    before = world.places()
    with world.monkeypatch.context() as patch:
        patch.setattr(ApiDocument, "save", _fails("unable to open database file"))
        answer = world.upload(TEXT)
    world.refused(before, answer, status=(503,))
    assert answer["Retry-After"]
    world.accepted(world.upload(TEXT), TEXT)


def database_locked(world: World, given: str) -> None:
    """Whoever holds the lock too long: 503 with nothing kept, or done; and the same call again succeeds."""
    before = world.places()
    with world.monkeypatch.context() as patch:
        patch.setattr(connection, "commit", _fails("database is locked"))
        answer = world.upload(TEXT)
    world.refused(before, answer, status=(503,))
    world.accepted(world.upload(TEXT), TEXT)


def _fails(words: str) -> Any:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OperationalError(words)

    return fail


# ---- Vectors, memory -------------------------------------------------------------------------------------------------
def store_down_at_upload(world: World, given: str) -> None:
    with world.monkeypatch.context() as patch:
        patch.setattr(InMemoryVectorStore, "upsert", _down)
        answer = world.upload(TEXT)
        assert (answer.status_code, answer.json()["status"]) == (202, "PENDING")
        run_due_jobs()
        waiting = world.document(answer.json()["id"])
        assert waiting["status"] in {"PENDING", "FAILED"}
        assert waiting["status_reason"]
        assert world.found("ERR_LANTERN")["found"] is True
    ApiDocument.objects.update(next_attempt_at=timezone.now())
    run_due_jobs()
    assert world.document(answer.json()["id"])["status"] == "INDEXED"


def store_down_at_lookup(world: World, given: str) -> None:
    world.accepted(world.upload(TEXT), TEXT)
    world.monkeypatch.setattr(InMemoryVectorStore, "search", _down)
    assert world.found("ERR_LANTERN")["primary"]["source"].endswith("timeouts.md")
    missed = world.found("how long does a light burn")
    assert missed["found"] is False
    assert missed["message"]
    assert "vector_store" in ToolInvocation.objects.latest("id").degraded


def store_lost(world: World, given: str) -> None:
    """Its collection is gone: exact lookups go on; a rebuild makes the vectors anew."""
    document = world.accepted(world.upload(TEXT), TEXT)
    vectors = get_vector_store().counts()
    get_vector_store().reset()
    assert world.found("ERR_LANTERN")["relevanceLevel"] == "PRECISE"
    assert world.client.post(f"{DOCUMENTS}{document['id']}/reindex/").status_code == 202
    run_due_jobs()
    assert get_vector_store().counts() == vectors


def memory_down(world: World, given: str) -> None:
    world.accepted(world.upload(TEXT), TEXT)
    for name in [
        name for name in vars(InProcessSessionMemory) if not name.startswith("_") and name not in {"health", "close"}
    ]:
        world.monkeypatch.setattr(InProcessSessionMemory, name, _down)
    assert world.ask("ERR_LANTERN")["citations"]
    answer = world.lookup("ERR_LANTERN", session_id="s-1")
    assert (answer.status_code, answer.json()["found"]) == (200, True)
    assert "memory" in ToolInvocation.objects.latest("id").degraded


# ---- The folder ------------------------------------------------------------------------------------------------------
def linked_file(world: World, given: str) -> None:
    secret = world.around / "passwd"
    secret.write_text("root:x:0:0 SECRET_OF_THE_HOST\n")
    (world.folder / "payment").mkdir()
    (world.folder / "payment" / "link.md").symlink_to(secret)
    scan()
    run_due_jobs()
    assert not ApiDocument.objects.exists()
    assert world.found("SECRET_OF_THE_HOST")["found"] is False
    assert read_document("knowledge_base/payment/link.md") is None


def linked_folder(world: World, given: str) -> None:
    outside = world.around / "outside"
    outside.mkdir()
    (outside / "a.md").write_bytes(TEXT)
    (world.folder / "dir").symlink_to(outside)
    scan()
    assert not ApiDocument.objects.exists()
    before = world.places()
    world.refused(before, world.upload(category="dir"), status=(400, 409))
    assert sorted(path.name for path in outside.iterdir()) == ["a.md"]


def looping_link(world: World, given: str) -> None:
    (world.folder / "a").symlink_to(world.folder / "a")
    (world.folder / "self").symlink_to(world.folder)
    (world.folder / "real").mkdir()
    (world.folder / "real" / "x.md").write_bytes(TEXT)
    scan()
    assert [row.file_path for row in ApiDocument.objects.all()] == ["knowledge_base/real/x.md"]


def vanished_file(world: World, given: str) -> None:
    document = world.accepted(world.upload(TEXT), TEXT)
    (world.folder / "payment" / "timeouts.md").unlink()
    assert read_document(document["file_path"]) is None
    for answer in (
        world.client.get(f"{DOCUMENTS}{document['id']}/content/"),
        world.client.get(f"{DOCUMENTS}{document['id']}/"),
        world.client.patch(f"{DOCUMENTS}{document['id']}/", {"metadata": {"title": "x"}}),
        world.client.post(f"{DOCUMENTS}{document['id']}/reindex/"),
        world.lookup("ERR_LANTERN"),
        world.client.post(CHAT, {"message": "ERR_LANTERN"}),
    ):
        assert answer.status_code < 500, answer.content
    scan()
    assert ApiDocument.objects.get().missing_since is not None
    assert world.found("ERR_LANTERN")["found"] is False


# ---- Addresses -------------------------------------------------------------------------------------------------------
def key_on_no_page(world: World, given: str) -> None:
    for name, value in (
        ("OPENAI_API_KEY", "sk-very-secret"),
        ("OPENAI_BASE_URL", "https://u:hidden-word@host.example/"),
    ):
        setattr(world.settings, name, value)
    alice = Client()
    alice.force_login(world.people["alice"])
    for address in ("/", "/setup/", "/admin/", "/dashboards/", "/readyz", "/healthz", "/api/schema/"):
        text = alice.get(address).content.decode()
        assert "sk-very-secret" not in text, address
        assert "hidden-word" not in text, address


def no_dump(world: World, given: str) -> None:
    for client in (Client(), world.client):
        for address in ("/debug", "/debug/", "/__debug__/", "/env", "/settings", "/.env", "/server-status"):
            assert client.get(address).status_code == 404, address
        for address in ("/readyz?format=api", f"{DOCUMENTS}?format=api", "/?format=json", "/nowhere?format=debug"):
            text = client.get(address).content.decode()
            assert world.settings.SECRET_KEY not in text
            assert "Traceback" not in text


def never_fetched(world: World, given: str) -> None:
    """Whatever addresses a document names, nobody calls them."""
    called: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        called.append(address)
        raise OSError("no network in this test")

    world.monkeypatch.setattr(socket.socket, "connect", refuse)
    data = b"---\nkeywords: [TRAP_1X]\nurl: http://169.254.169.254/\n---\nTRAP_1X ![a](http://169.254.169.254/latest/) http://[::1]/\n"
    document = world.accepted(world.upload(data), data)
    world.ask("TRAP_1X")
    bob = Client()
    bob.force_login(world.people["bob"])
    assert bob.get(f"/documents/{document['id']}/").status_code == 200
    assert called == []


CHECKS: dict[str, Check] = {
    "store.fault-04": database_down_at_insert,
    "store.fault-06": database_locked,
    "store.fault-07": store_down_at_upload,
    "store.fault-08": store_down_at_lookup,
    "store.fault-10": store_lost,
    "store.fault-13": memory_down,
    "store.fault-18": linked_file,
    "store.fault-19": linked_folder,
    "store.fault-20": looping_link,
    "store.fault-23": vanished_file,
    "settings.ssrf-12": key_on_no_page,
    "settings.ssrf-14": no_dump,
    "settings.ssrf-15": never_fetched,
}
