"""What a start loads, and what it does with it afterwards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from clients.interfaces import ClientError
from kbsite import startup


@pytest.mark.parametrize("fault", [None, ClientError("in use by another process", code="store_locked")])
def test_collections_pass_by_what_the_start_loaded(monkeypatch: pytest.MonkeyPatch, fault: ClientError | None) -> None:
    done: list[str] = []

    def step(name: str) -> SimpleNamespace:
        return SimpleNamespace(**{name: lambda: done.append(name)})

    def opened() -> None:
        done.append("open")
        if fault is not None:
            raise fault

    monkeypatch.setattr(startup, "close_old_connections", lambda: None)  # the other tests' connection is in this thread
    monkeypatch.setattr(startup, "get_keyword_index", lambda: step("refresh"))
    monkeypatch.setattr(startup, "get_vector_store", lambda: SimpleNamespace(open=opened))
    monkeypatch.setattr(startup, "gc", SimpleNamespace(collect=step("collect").collect, freeze=step("freeze").freeze))
    startup._warm_up()
    assert done == ["refresh", "open", "collect", "freeze"]
