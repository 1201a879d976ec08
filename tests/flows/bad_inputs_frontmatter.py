"""Checks of frontmatter through the doors: always taken, its metadata as read, its body in the chunks, found or not."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from django.test import Client

from retrieval.chunking import chunk_body
from tests.flows.bad_inputs_uploads import Check
from tests.flows.bad_inputs_world import World

INVOCATIONS = "/api/v1/invocations/"


def warnings(world: World) -> list[str]:
    """What the reader of frontmatter warned of."""
    records = world.caplog.records
    return [
        each.getMessage()
        for each in records
        if each.name == "documents.frontmatter" and each.levelno >= logging.WARNING
    ]


def taken(world: World, text: str) -> dict[str, Any]:
    """Uploaded and indexed; its metadata are JSON of the strictest reading."""
    world.caplog.clear()
    data = text.encode()
    document = world.accepted(world.upload(data), data)
    answer = world.client.get(f"/api/v1/documents/{document['id']}/")
    json.loads(answer.content, parse_constant=_no_constant)
    return document


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def malformed(world: World, given: str) -> None:
    """Metadata null, one warning that names file and line, the whole text in the chunks, found by meaning alone."""
    document = taken(world, given)
    assert document["metadata"] is None
    (warning,) = warnings(world)
    assert document["file_path"] in warning
    assert "line " in warning
    assert world.chunks(document) == "\n".join(chunk.text for chunk in chunk_body(given))
    admin = Client()
    admin.force_login(world.people["alice"])
    assert admin.get(f"/admin/documents/apidocument/{document['id']}/change/").status_code == 200


def body_only(world: World, given: str) -> None:
    """No header at all: nothing is said, everything is body."""
    document = taken(world, given)
    assert document["metadata"] is None
    assert warnings(world) == []
    assert "".join(world.chunks(document).split()) == "".join(given.split())


def _read(fields: dict[str, Any], *, warned: int = 0) -> Check:
    def check(world: World, given: str) -> None:
        document = taken(world, given)
        assert document["metadata"] == fields
        assert len(warnings(world)) == warned
        assert document["title"] == fields.get("title", "timeouts")
        assert "---" not in world.chunks(document).splitlines()[:1]

    return check


def empty_header(world: World, given: str) -> None:
    assert taken(world, given)["metadata"] in (None, {})


def python_object(world: World, given: str) -> None:
    malformed(world, given)
    assert not Path("/tmp/pwned").exists()  # noqa: S108 (the case names it)


def second_header(world: World, given: str) -> None:
    document = taken(world, given)
    assert document["metadata"] == {"a": "1"}
    assert "b: 2" in world.chunks(document)


def _keywords(*keywords: str) -> Check:
    def check(world: World, given: str) -> None:
        taken(world, given)
        for keyword in keywords:
            assert exact(world, keyword) == 1, keyword

    return check


def exact(world: World, query: str) -> int:
    """How many documents match the query by keyword, as recorded."""
    world.found(query)
    answer = world.client.get(INVOCATIONS + "?page_size=1").json()
    return int(answer["results"][0]["retrieval_details"]["l0_match_count"])


def string_keyword(world: World, given: str) -> None:
    _keywords("abc")(world, given)
    assert exact(world, "a b c") == 0


def empty_keywords(world: World, given: str) -> None:
    taken(world, given)
    assert [exact(world, query) for query in ("anything", "支付网关", "a")] == [0, 0, 0]


def keyword_of_one_character(world: World, given: str) -> None:
    taken(world, given)
    assert exact(world, "is a payment a debt") == 0
    assert exact(world, "a") == 1


def stuffed_keywords(world: World, given: str) -> None:
    """Words that every question holds do match; among several documents they make no match unique."""
    taken(world, given)
    world.accepted(world.upload(b"---\nkeywords: [ERR_REAL]\n---\n# Real\n\ntext\n", name="real.md"),
                   b"---\nkeywords: [ERR_REAL]\n---\n# Real\n\ntext\n")  # fmt: skip
    assert exact(world, "how is ERR_REAL to be mended") == 2
    assert world.found("how is ERR_REAL to be mended")["relevanceLevel"] != "PRECISE"


def formula_as_title(world: World, given: str) -> None:
    document = taken(world, given)
    assert document["title"] == '=HYPERLINK("http://x")'
    world.found("=HYPERLINK")
    for address in (INVOCATIONS + "?format=csv", "/dashboards/panels/relevance-levels.csv"):
        answer = world.client.get(address)
        assert answer.status_code == 200
        cells = [cell.strip('"') for line in answer.content.decode().splitlines() for cell in line.split(",")]
        assert [cell for cell in cells if cell[:1] in "=+-@" and cell[:1]] == []


def alias_bomb(world: World, given: str) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 10)]
    malformed(world, "---\n" + "\n".join(levels) + "\n---\n# Body\n")


def deep(world: World, given: str) -> None:
    malformed(world, "---\na: " + "{a: " * 3000 + "x" + "}" * 3000 + "\n---\n# Body\n")


def many_keywords(world: World, given: str) -> None:
    """200 of a document are used; a header over 64 KiB is not read at all (FM-8)."""
    some = [f"k{number:04d}" for number in range(9_000)]
    document = taken(world, "---\nkeywords: [" + ", ".join(some) + "]\n---\n# Body\n")
    assert (exact(world, "k0199"), exact(world, "k0200")) == (1, 0)
    assert len(warnings(world)) == 1
    assert document["status_reason"] == ""
    more = ", ".join(f"keyword-{number}" for number in range(10_000))
    assert taken(world, f"---\nkeywords: [{more}]\n---\n# Body\n")["metadata"] is None


def long_keyword(world: World, given: str) -> None:
    """One of more than 200 characters is left out, the others stay."""
    taken(world, f"---\nkeywords: [{'x' * 10_000}, {'y' * 201}, {'z' * 200}, ERR_KEPT]\n---\n# Body\n")
    assert [exact(world, query) for query in ("ERR_KEPT", "z" * 200, "y" * 201, "x" * 2_000)] == [1, 1, 0, 0]


CHECKS: dict[str, Check] = {
    **{f"upload.frontmatter-{number}": malformed for number in ("01", "02", "06", "07", "19", "20")},
    **{f"upload.frontmatter-{number}": body_only for number in ("09", "48", "49")},
    "upload.frontmatter-08": empty_header,
    "upload.frontmatter-10": _read({"title": "a", "date": "2024-01-01"}),
    "upload.frontmatter-12": _keywords("yes", "no", "on", "0x1F", "1:30", "1_000"),
    "upload.frontmatter-13": _read({"x": ".nan", "y": ".inf"}),
    "upload.frontmatter-17": python_object,
    # An ordinary anchor is fine (SPEC FM-8), and so is what merges it.
    "upload.frontmatter-22": _read({"a": {"k": "1"}, "b": {"k": "1"}}),
    "upload.frontmatter-23": _read({"1": "a", "true": "b"}),
    "upload.frontmatter-24": _read({"title": "t", "content": "x"}),
    "upload.frontmatter-27": _read({"title": "b"}, warned=1),
    "upload.frontmatter-28": string_keyword,
    "upload.frontmatter-29": _keywords("a", "b"),
    "upload.frontmatter-31": empty_keywords,
    "upload.frontmatter-32": keyword_of_one_character,
    "upload.frontmatter-33": stuffed_keywords,
    "upload.frontmatter-37": _read({"title": "ab"}),
    "upload.frontmatter-40": formula_as_title,
    "upload.frontmatter-50": _read({"title": "a"}),
    "upload.frontmatter-51": second_header,
    "upload.frontmatter-52": alias_bomb,
    "upload.frontmatter-55": deep,
    "upload.frontmatter-58": many_keywords,
    "upload.frontmatter-59": long_keyword,
}
