"""``manage.py create_api_key``."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from documents.models import ApiKey
from tests.doors import DOCUMENTS, with_key

pytestmark = pytest.mark.django_db


def create(*arguments: str) -> list[str]:
    out = io.StringIO()
    call_command("create_api_key", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_the_last_line_is_the_key_alone_and_it_works() -> None:
    key = create("reporting")[-1]
    assert key == key.strip()
    assert with_key(key).get(DOCUMENTS).status_code == 200
    assert ApiKey.objects.get().scopes == "read"


def test_scopes_may_be_repeated(bob: Any) -> None:
    create("curation", "--scope", "write", "--scope", "chat", "--scope", "write", "--days", "30", "--user", "bob")
    row = ApiKey.objects.get()
    assert row.scopes == "write chat"
    assert row.user == bob
    assert row.expiry_date is not None
    assert 29 <= (row.expiry_date - timezone.now()).days <= 30


@pytest.mark.parametrize(
    "arguments",
    [
        ["x", "--scope", "admin"],
        ["x", "--days", "0"],
        ["x", "--days", "-3"],
        ["x", "--days", "99999999"],
        ["x", "--user", "nobody"],
        [" "],
        ["x" * 51],
    ],
)
def test_a_wrong_argument_is_one_line_and_makes_no_key(arguments: list[str]) -> None:
    with pytest.raises(CommandError) as refusal:
        create(*arguments)
    assert "\n" not in str(refusal.value)
    assert not ApiKey.objects.exists()
