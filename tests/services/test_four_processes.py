"""Two web processes and two workers on MariaDB and Redis: whichever one is asked, they answer as one site."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.services.conftest import four_processes
from tests.services.fleet import Fleet, WebProcess, until

TEXT = "---\ntitle: Note {0}\nkeywords: [NOTE_{0}X]\n---\n# Note {0}\n\nRestart the consumer group number {0}.\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Fleet]:
    """The four processes."""
    with four_processes(tmp_path_factory.mktemp("four"), redis_url) as fleet:
        yield fleet


def put(web: WebProcess, name: str, category: str = "payment") -> dict[str, Any]:
    """A document, saved."""
    status, document = web.upload(f"{name}.md", TEXT.format(name), category)
    assert status == 202, document
    return dict(document)


def ask(web: WebProcess, _number: int, *, session: str) -> dict[str, Any]:
    """One of many lookups in a session."""
    return web.lookup("NOTE_BX", session_id=session)


def sources(web: WebProcess, name: str) -> list[str]:
    """What one process finds by the document's keyword."""
    return found(web, f"NOTE_{name}X")


def found(web: WebProcess, query: str) -> list[str]:
    """The documents of one lookup."""
    answer = web.lookup(query)
    return [answer[role]["source"] for role in ("primary", "supplement") if answer[role]]


def counted(web: WebProcess, category: str) -> Counter[str]:
    """Documents of a category by status."""
    _status, page = web.call("GET", f"/api/v1/documents/?category={category}&page_size=100")
    return Counter(document["status"] for document in page["results"])


def test_what_one_process_saves_changes_or_removes_every_process_sees_at_its_next_lookup(site: Fleet) -> None:
    for number, (one, other) in enumerate([site.webs, site.webs[::-1]] * 3):
        document = put(one, f"A{number}")
        assert sources(other, f"A{number}") == [document["file_path"]]
        assert sources(one, f"A{number}") == [document["file_path"]]
        assert other.call("PATCH", f"/api/v1/documents/{document['id']}/", {"enabled": False})[0] == 200
        assert sources(one, f"A{number}") == []
        assert other.call("PATCH", f"/api/v1/documents/{document['id']}/", {"enabled": True})[0] == 200
        assert sources(one, f"A{number}") == [document["file_path"]]
        assert other.call("DELETE", f"/api/v1/documents/{document['id']}/")[0] in (202, 204)
        assert sources(one, f"A{number}") == []


def test_of_fifty_parallel_lookups_in_one_session_one_is_served(site: Fleet) -> None:
    put(site.webs[0], "B")
    for session in ("s1", "s2", "s3"):
        answers = site.at_once(50, partial(ask, session=session))
        levels = Counter(answer["relevanceLevel"] for answer in answers)
        assert levels == {"PRECISE": 1, "DEDUPED": 49}
        assert sum(answer["primary"] is not None for answer in answers) == 1


def test_a_rate_holds_for_all_processes_together(site: Fleet) -> None:
    answers = site.at_once(60, lambda web, _: web.call("POST", "/api/v1/chat/", {"message": ""})[0])
    assert Counter(answers) == {400: 20, 429: 40}


def test_a_call_sent_many_times_with_one_key_is_done_once(site: Fleet) -> None:
    text = TEXT.format("C")
    answers = site.at_once(20, lambda web, _: web.upload("C.md", text, **{"Idempotency-Key": "once"}))
    assert {status for status, _ in answers} <= {202, 409}
    ids = {body["id"] for status, body in answers if status == 202}
    assert len(ids) == 1
    for web in site.webs:
        status, body = web.upload("C.md", text, **{"Idempotency-Key": "once"})
        assert (status, body["id"], body["revision"]) == (202, *ids, 1)


def test_documents_that_are_deleted_while_they_are_indexed_are_gone(site: Fleet) -> None:
    def put_and_delete(web: WebProcess, number: int) -> int:
        document = put(web, f"G{number}", "gone")
        return web.call("DELETE", f"/api/v1/documents/{document['id']}/")[0]

    assert set(site.at_once(40, put_and_delete)) <= {202, 204}
    until(lambda: not counted(site.webs[0], "gone"), "every row has gone")
    assert not list((site.folder / "knowledge_base" / "gone").glob("*.md"))


def test_uploads_at_once_are_each_saved_and_indexed_once(site: Fleet) -> None:
    answers = site.at_once(40, lambda web, n: put(web, f"D{n}", "many"))
    assert len({document["id"] for document in answers}) == 40
    until(lambda: counted(site.webs[0], "many") == {"INDEXED": 40}, "all are INDEXED")
    # A worker says so after it has written it.
    until(lambda: indexed_in(site, "many").total() >= 40, "the logs name all of them")
    assert indexed_in(site, "many") == {f"many/D{n}.md": 1 for n in range(40)}


def indexed_in(site: Fleet, folder: str) -> Counter[str]:
    """How often the processes' logs say of each document of a domain that it was indexed."""
    lines = [line for child in site.children for line in child.log.read_text().splitlines() if ": indexed, " in line]
    return Counter(line.split("knowledge_base/")[1].split(":")[0] for line in lines if f"/{folder}/" in line)


def test_replacements_of_one_document_at_once_come_one_after_the_other(site: Fleet) -> None:
    texts = [TEXT.format("E") + f"\nVersion {n}.\n" for n in range(16)]
    answers = site.at_once(16, lambda web, n: web.upload("E.md", texts[n], "one"))
    assert {status for status, _ in answers} == {202}
    until(lambda: counted(site.webs[0], "one") == {"INDEXED": 1}, "it is INDEXED")
    _status, now = site.webs[1].call("GET", f"/api/v1/documents/{answers[0][1]['id']}/")
    assert now["revision"] == 16  # none was lost, none counted twice
    published = (site.folder / "knowledge_base" / "one" / "E.md").read_bytes()
    assert published.decode() in texts
    assert now["content_hash"] == hashlib.sha256(published).hexdigest()


def test_what_a_worker_indexed_every_process_finds_by_meaning(site: Fleet) -> None:
    text = "# Lighthouses\n\nThe keeper trims the wick of the lamp at dusk and polishes its lenses.\n"
    status, document = site.webs[0].upload(
        "keeper.md",
        text,
        "coast",
    )
    assert status == 202
    until(lambda: counted(site.webs[0], "coast") == {"INDEXED": 1}, "it is INDEXED")

    def finds(web: WebProcess) -> bool:
        return document["file_path"] in found(web, "keeper trims the wick of the lamp")

    for web in site.webs:  # a server's readers may be a moment behind its writer
        until(partial(finds, web), "it is found")


def test_every_process_says_that_it_is_ready(site: Fleet) -> None:
    for web in site.webs:
        parts = web.ready()["parts"]
        wanted = ("database", "keyword_index", "memory", "worker")
        assert {name: parts[name]["status"] for name in wanted} == dict.fromkeys(wanted, "ok")
        store = parts["vector_store"]
        assert store["status"] == "ok" or (site.milvus and "Lexical search is off" in store["hint"])
