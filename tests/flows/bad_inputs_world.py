"""What the checks of bad inputs share: callers, a form sent as raw bytes, and a look at every place for leftovers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from django.test.client import BOUNDARY, MULTIPART_CONTENT
from rest_framework.test import APIClient

from clients.registry import get_vector_store
from documents.models import ApiDocument
from documents.source import get_keyword_index
from documents.worker import run_due_jobs
from tests.doors import DOCUMENTS, program

LOOKUP = "/api/v1/lookup/"
CHAT = "/api/v1/chat/"
TEXT = b"# Time-outs\n\nThe gateway gives up after thirty seconds.\n"


@dataclass
class World:
    """A site for one case: its folders, its people, a program that may do everything."""

    folder: Path
    around: Path
    spool: Path
    settings: Any
    monkeypatch: Any
    caplog: Any
    people: Mapping[str, Any]
    client: APIClient = field(init=False)

    def __post_init__(self) -> None:
        # An answer of 500 is what is looked for: the test client must not raise in its place.
        self.client = program("read", "chat", "write", "ops", raise_request_exception=False)

    # ---- Sending -----------------------------------------------------------------------------------------------------
    def upload(
        self,
        data: bytes = TEXT,
        *,
        name: str = "timeouts.md",
        category: str = "payment",
        query: str = "",
        plain_name: bool = False,
    ) -> Any:
        """``POST /documents/`` as it goes over the wire. Unless ``plain_name``, the name is sent percent-encoded
        (``filename*``), by which any character arrives as it is."""
        return self.send_form(form(name, data=data, category=category.encode(), plain_name=plain_name), query)

    def send_form(self, body: bytes, query: str = "") -> Any:
        return self.client.generic("POST", DOCUMENTS + query, cast(Any, body), content_type=MULTIPART_CONTENT)

    def lookup(self, query: Any, **more: Any) -> Any:
        return self.client.post(LOOKUP, {"query": query, **more}, format="json")

    def found(self, query: str) -> dict[str, Any]:
        """The result of a lookup that must be answered."""
        answer = self.lookup(query)
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    def ask(self, message: str) -> dict[str, Any]:
        answer = self.client.post(CHAT, {"message": message}, format="json")
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    # ---- Looking -----------------------------------------------------------------------------------------------------
    def places(self) -> dict[str, Any]:
        """Every place where a document can be."""
        return {
            "rows": sorted(ApiDocument.objects.values_list("file_path", "revision", "content_hash")),
            "files": sorted(str(path) for path in self.around.rglob("*") if path.is_file() and not _is_data(path)),
            "vectors": get_vector_store().counts(),
            "keywords": len(get_keyword_index()) if get_keyword_index().refresh() else -1,
        }

    def refused(
        self, before: Mapping[str, Any], answer: Any, *, field: str = "", status: tuple[int, ...] = (400,)
    ) -> None:
        """A problem of this status that names the field; nothing anywhere but what was there before."""
        assert answer.status_code in status, (answer.status_code, answer.content)
        assert answer["Content-Type"] == "application/problem+json"
        problem = answer.json()
        assert problem["code"], problem
        assert problem["detail"], problem
        assert not field or [error["field"] for error in problem["errors"]] == [field], problem
        run_due_jobs()
        assert self.places() == before
        self.tidy()

    def accepted(self, answer: Any, data: bytes = TEXT) -> dict[str, Any]:
        """Taken, indexed, given back byte for byte, in its folder and nowhere else; staging empty."""
        assert answer.status_code in {200, 202}, (answer.status_code, answer.content)
        run_due_jobs()
        document = self.document(answer.json()["id"])
        assert document["status"] == "INDEXED", document["status_reason"]
        assert self.content(document) == data
        on_disk = self.folder / document["category"] / document["file_name"]
        assert on_disk.read_bytes() == data
        assert on_disk.resolve().is_relative_to(self.folder.resolve())
        self.tidy()
        return document

    def document(self, document_id: int) -> dict[str, Any]:
        answer = self.client.get(f"{DOCUMENTS}{document_id}/")
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    def content(self, document: Mapping[str, Any]) -> bytes:
        answer = self.client.get(f"{DOCUMENTS}{document['id']}/content/")
        assert answer.status_code == 200, answer.content
        return bytes(answer.content)

    def chunks(self, document: Mapping[str, Any]) -> str:
        answer = self.client.get(f"{DOCUMENTS}{document['id']}/chunks/?page_size=200")
        return "\n".join(chunk["text"] for chunk in answer.json()["results"])

    def tidy(self) -> None:
        """Nothing waits in staging, no temporary file of an upload is left."""
        staging = self.folder / ".staging"
        assert [path for path in staging.rglob("*") if path.is_file()] == []
        assert list(self.spool.iterdir()) == []


def form(name: str, *, data: bytes = TEXT, category: bytes = b"payment", plain_name: bool = False) -> bytes:
    """A form with the fields ``category`` and ``file``."""
    disposition = (
        f'filename="{name}"' if plain_name else f"filename*=UTF-8''{quote(name, safe='', errors='surrogatepass')}"
    )
    return raw_form(disposition.encode("utf-8", "surrogatepass"), data=data, category=category)


def raw_form(disposition: bytes, *, data: bytes = TEXT, category: bytes = b"payment") -> bytes:
    """A form whose file part says exactly ``disposition`` of its name."""
    line = b"--" + BOUNDARY.encode()
    parts = [
        line,
        b'Content-Disposition: form-data; name="category"',
        b"",
        category,
        line,
        b'Content-Disposition: form-data; name="file"; ' + disposition,
        b"Content-Type: text/markdown",
        b"",
        data,
        line + b"--",
        b"",
    ]
    return b"\r\n".join(parts)


def read_cases(data: Path) -> dict[str, dict[str, Any]]:
    """The cases of ``bad_inputs.json`` by id."""
    cases = json.loads((data / "bad_inputs.json").read_text(encoding="utf-8"))["cases"]
    return {case["id"]: case for case in cases}


def _is_data(path: Path) -> bool:
    return path.name.startswith("test.sqlite3")
