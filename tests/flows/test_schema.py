"""The OpenAPI description: valid, complete, the one that is kept, and a page that the security policy lets work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client
from django.urls import URLResolver, get_resolver

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("schema") / "openapi.yaml"
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(target))
    return target


@pytest.fixture
def schema(generated: Path) -> Any:
    return yaml.safe_load(generated.read_text(encoding="utf-8"))


def test_the_kept_description_is_the_present_one(generated: Path) -> None:
    kept = (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8")
    assert generated.read_text(encoding="utf-8") == kept, (
        "the API changed: run `make schema` and look at the difference"
    )


def test_it_is_openapi_3_1_and_names_the_key(schema: Any) -> None:
    assert schema["openapi"].startswith("3.1")
    schemes = schema["components"]["securitySchemes"]
    assert {"type": "http", "scheme": "bearer"}.items() <= schemes["apiKey"].items()


def test_every_rest_route_is_described(schema: Any) -> None:
    def rest(patterns: Any, prefix: str = "") -> Any:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from rest(pattern.url_patterns, route)
            elif route.startswith("api/v1/"):
                yield "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)

    assert set(rest(get_resolver().url_patterns)) == set(schema["paths"])


def test_no_internal_route_is_described(schema: Any) -> None:
    assert not [path for path in schema["paths"] if not path.startswith("/api/v1/")]


def test_every_operation_says_what_it_does_and_how_it_fails(schema: Any) -> None:
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            said = f"{method} {path}"
            assert operation.get("summary"), said
            assert "default" in operation["responses"], said
            assert operation["security"], said


@pytest.mark.django_db
def test_the_schema_and_its_page_are_public() -> None:
    client = Client()
    assert client.get("/api/schema/").status_code == 200
    page = client.get("/api/docs/")
    assert page.status_code == 200
    policy = page["Content-Security-Policy"]
    assert "unsafe" not in policy


@pytest.mark.django_db
def test_the_page_of_the_schema_runs_under_the_security_policy() -> None:
    """No inline script or style, and every file comes from this site."""
    client = Client()
    html = client.get("/api/docs/").content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", html) == []
    assert re.findall(r"<style|\bstyle=|\bon\w+=", html) == []
    addresses = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert len(addresses) >= 4
    for address in addresses:
        assert address.startswith("/"), address
        if address.startswith("/static/"):
            assert finders.find(address.removeprefix("/static/")), address
        else:
            script = client.get(address.replace("&amp;", "&"))
            assert script.status_code == 200
            assert "javascript" in script["Content-Type"]
