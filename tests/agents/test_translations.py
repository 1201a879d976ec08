"""The Chinese catalogue: compiled from what is written, complete, its placeholders kept."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.conf import settings
from django.utils.translation.template import templatize

FOLDER = Path(settings.BASE_DIR) / "locale" / "zh_Hans" / "LC_MESSAGES"
CALLS = ("gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "_")
APPS = ("agents", "clients", "documents", "kbsite", "observability", "retrieval")
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%\(\w+\)\.\d+f|\{\w+\}")


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    with (FOLDER / "django.po").open("rb") as file:
        return read_po(file, locale="zh_Hans")


def texts(message: Message) -> tuple[str, str]:
    """The English (its plural, where there is one) and the Chinese."""
    english = message.id[-1] if isinstance(message.id, tuple) else message.id
    chinese = message.string[0] if isinstance(message.string, tuple) else message.string
    return str(english), str(chinese)


def written() -> Iterator[tuple[str, str]]:
    """Every translatable text of the code and of the templates, with its file."""
    base = Path(settings.BASE_DIR)
    for path in sorted(each for app in APPS for each in (base / app).rglob("*.py") if "migrations" not in each.parts):
        yield from _found(path.read_bytes(), path)
    for path in sorted((base / "templates").rglob("*.html")):
        yield from _found(templatize(path.read_text(encoding="utf-8")).encode(), path)


def _found(source: bytes, path: Path) -> Iterator[tuple[str, str]]:
    # Babel gives one text, or all arguments of the call.
    calls: list[Any] = [each[2] for each in extract_python(io.BytesIO(source), dict.fromkeys(CALLS), [], {})]
    for found in calls:
        text = found if isinstance(found, str) else found[0]
        if text:
            yield text, path.name


def test_no_text_is_left_untranslated(catalogue: Catalog) -> None:
    known = {message.id[0] if isinstance(message.id, tuple) else message.id for message in catalogue}
    assert sorted({f"{name}: {text}" for text, name in written() if text not in known}) == []


def test_every_text_has_its_chinese(catalogue: Catalog) -> None:
    open_ones = [message.id for message in catalogue if message.id and (message.fuzzy or not texts(message)[1])]
    assert open_ones == []


def test_placeholders_survive_the_translation(catalogue: Catalog) -> None:
    for message in catalogue:
        if message.id:
            english, chinese = texts(message)
            assert sorted(set(PLACEHOLDER.findall(chinese))) == sorted(set(PLACEHOLDER.findall(english))), english


def test_the_compiled_catalogue_is_the_written_one(catalogue: Catalog) -> None:
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    fresh = (FOLDER / "django.mo").read_bytes() == compiled.getvalue()
    assert fresh, "run: pybabel compile -d locale -D django -l zh_Hans"


def test_chinese_words_follow_the_house(catalogue: Catalog) -> None:
    for message in catalogue:
        if message.id:
            chinese = texts(message)[1]
            assert not re.search(r"[你您]", chinese), chinese
            assert not re.search(r"[\u4e00-\u9fff][,;!?]", chinese), chinese
