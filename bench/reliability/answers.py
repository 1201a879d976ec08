"""Lookups while documents are deleted; writes that contend for SQLite; a restart with many documents."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.reliability.journal import code_of, text_of
from bench.reliability.people import path_of, upload
from bench.site_process import SiteProcess


@dataclass
class Deletions:
    """What :func:`lookups_while_deleting` came to."""

    lookups: int
    deleted: int
    after_an_answer: int
    returned: list[str]


def lookups_while_deleting(sites: list[SiteProcess], *, lookups: int, deletions: int) -> Deletions:
    """Ask for documents by their keyword, on each process in turn, while each of them is deleted.

    A lookup that starts after a deletion was answered must not return that document, whichever process it asks.
    """
    names = [f"going-{number}" for number in range(deletions)]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda n: upload(sites[n % len(sites)], "going", names[n], text_of(names[n], 1)),
                                range(deletions)))  # fmt: skip
    ids = {name: document["id"] for name, (_status, document) in zip(names, made, strict=True)}
    gone: dict[str, float] = {}
    asked = [0] * 4

    def delete_all() -> None:
        for number, name in enumerate(names):
            while sum(asked) < number * lookups // deletions:  # over the whole time, not all at its beginning
                time.sleep(0.002)
            status, answer = sites[number % len(sites)].call("DELETE", f"/api/v1/documents/{ids[name]}/")
            if status not in (202, 204):
                raise RuntimeError(f"{status}: {answer}")
            gone[name] = time.monotonic()

    counter, returned, late = itertools.count(), list[str](), itertools.count()

    def ask(share: int, person: int) -> None:
        for number in range(share):
            asked[person] += 1
            # What has just gone, or is about to.
            at = min(max(len(gone) - number % 4, 0), deletions - 1)
            name, site = names[at], sites[next(counter) % len(sites)]
            was_gone = name in gone
            answer = _asked(site, code_of(name, 1))
            if was_gone:
                next(late)
                if path_of(name) in [answer[role]["source"] for role in ("primary", "supplement") if answer[role]]:
                    returned.append(name)

    with ThreadPoolExecutor(5) as threads:
        work = [threads.submit(delete_all), *(threads.submit(ask, lookups // 4, n) for n in range(4))]
        for one in work:
            one.result()
    return Deletions(next(counter), len(gone), next(late), returned)


def _asked(site: SiteProcess, query: str) -> dict[str, Any]:
    """One lookup; where the site's rate is reached, the same again in a moment."""
    while True:
        status, answer = site.call("POST", "/api/v1/lookup/", {"query": query})
        if status == 200:
            return dict(answer)
        if status != 429:
            raise RuntimeError(f"{status}: {answer}")
        time.sleep(0.5)


def contended_writes(site: SiteProcess, *, writes: int) -> list[str]:
    """Eight clients write at once: uploads, replacements, switches, deletions. What failed."""
    failed: list[str] = []

    def write(client: int) -> None:
        for step in range(writes // 8 // 4):
            name = f"contended-{client}x{step % 3}"
            for version in (2 * step + 1, 2 * step + 2):
                status, answer = upload(site, "contended", name, text_of(name, version))
                failed.extend([f"{name}: {status} {answer}"] if status >= 400 else [])
            address = f"/api/v1/documents/{answer.get('id', 0)}/"
            for method, body in (("PATCH", {"enabled": False}), ("DELETE", None)):
                status, answer = site.call(method, address, body)
                failed.extend([f"{method} {name}: {status} {answer}"] if status >= 400 else [])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    return failed


def restart(site: SiteProcess, *, documents: int, again: Callable[[], None]) -> tuple[float, str, str]:
    """``again`` serves anew a site with so many documents: seconds until /readyz says ok of every part, and what a
    keyword and a question find then. (Of the stand-in that embeds by letters it never says ok.)"""
    began = time.monotonic()
    again()
    site.wait_until(lambda: _is_ready(site), seconds=120, what="ok")
    seconds = time.monotonic() - began
    exact = site.lookup(code_of("many-7", 1))
    meant = site.lookup("the words of which page speak of marmalade and lighthouses")
    return seconds, _first(exact), _first(meant)


def _is_ready(site: SiteProcess) -> bool:
    if site.status("/readyz") != 200:
        return False
    parts = site.ready()["parts"]
    return all(
        part["status"] == "ok" or (name == "embedder" and "letters" in part["hint"]) for name, part in parts.items()
    )


def _first(answer: dict[str, Any]) -> str:
    found = answer["primary"] or answer["supplement"]
    return str(found["source"]) if found else ""
