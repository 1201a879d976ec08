"""Names of files, categories and paths (DOC-6): what is taken, as what it is kept, what counts as equal."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.errors import DocumentError
from documents.names import (
    category_key,
    check_category,
    check_file_name,
    check_scanned_path,
    document_path,
    path_key,
)


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("a.md", "a.md"),
        ("README.MD", "README.MD"),
        (" 支付 说明.md ", "支付 说明.md"),
        ("a.md\t", "a.md"),
        ("cafe\u0301.md", "caf\u00e9.md"),
        ("-rf.md", "-rf.md"),
        ("a`id`.md", "a`id`.md"),
        ('a"b.md', 'a"b.md'),
        ("%s%n{0}.md", "%s%n{0}.md"),
        ("a.exe.md", "a.exe.md"),
        ("v1..2.md", "v1..2.md"),
        ("发布说明 🚀.md", "发布说明 🚀.md"),
        ("console.md", "console.md"),
        ("a" * 200 + ".md", "a" * 200 + ".md"),
        ("支" * 84 + ".md", "支" * 84 + ".md"),
    ],
)
def test_a_usable_file_name_is_kept_in_nfc_and_trimmed(given_name: str, kept: str) -> None:
    assert check_file_name(given_name) == kept


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "file_name_empty"),
        ("   ", "file_name_empty"),
        (".md", "name_hidden"),
        (" .md", "name_hidden"),
        (".hidden.md", "name_hidden"),
        (".staging", "name_hidden"),
        ("..", "name_path"),
        ("../evil.md", "name_path"),
        ("/etc/evil.md", "name_path"),
        ("C:\\dir\\evil.md", "name_path"),
        ("..\\..\\evil.md", "name_path"),
        ("C:evil.md", "name_path"),
        ("\u2025/evil.md", "name_path"),
        ("a\x00b.md", "name_control_characters"),
        ("a\n.md", "name_control_characters"),
        ("a\x7f.md", "name_control_characters"),
        ("pay\u200bment.md", "name_control_characters"),
        ("pay\u202egnp.md", "name_control_characters"),
        ("\ufeffa.md", "name_control_characters"),
        ("a\u3164.md", "name_control_characters"),
        ("a\ud800.md", "name_control_characters"),
        ("nul.md", "name_reserved"),
        ("CON.md", "name_reserved"),
        ("Lpt1.md", "name_reserved"),
        ("aux.notes.md", "name_reserved"),
        ("a.txt", "file_type"),
        ("a.md.exe", "file_type"),
        ("md", "file_type"),
        ("a" * 201 + ".md", "file_name_too_long"),
        ("a" * 300 + ".md", "name_too_long"),
        ("支" * 85 + ".md", "name_too_long"),
    ],
)
def test_a_dangerous_or_foreign_file_name_is_refused_with_its_reason(name: str, code: str) -> None:
    with pytest.raises(DocumentError) as refused:
        check_file_name(name)
    assert (refused.value.code, refused.value.status, refused.value.field) == (code, 400, "file")
    assert refused.value.detail


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_either_refused_or_one_harmless_segment(text: str) -> None:
    for name in (text, text + ".md"):
        try:
            kept = check_file_name(name)
        except DocumentError:
            continue
        assert "/" not in kept
        assert "\\" not in kept
        assert not kept.startswith(".")
        assert kept.lower().endswith(".md")
        assert kept == check_file_name(kept)
        assert len(kept.encode()) <= 255


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("api", "api"),
        (" a ", "a"),
        ("支付", "支付"),
        ("支" * 64, "支" * 64),
        ("release 2.0", "release 2.0"),
        ("API", "API"),
        ("uncategorised", "uncategorised"),
        ("Uncategorised", "uncategorised"),
        ("cafe\u0301", "caf\u00e9"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_a_category_is_one_folder_name(given_name: str, kept: str) -> None:
    assert check_category(given_name) == kept


@pytest.mark.parametrize(
    "name",
    [
        "", " ", ".", "..", ".staging", ".history", "a/b", "a\\b", "/a", "a\x00", "a\nb", "a\u200bb", "nul", "con.x",
        'x" or id != "', "<b>x</b>", "a: &x [*x]", "{{x}}", "x" * 65, "𠀀" * 64, "a.", "a*", "a?b", "🚀",
    ],
)  # fmt: skip
def test_a_category_that_is_no_plain_folder_name_is_refused(name: str) -> None:
    with pytest.raises(DocumentError) as refused:
        check_category(name)
    assert (refused.value.status, refused.value.field) == (400, "category")


def test_categories_that_differ_by_case_or_form_have_one_key() -> None:
    assert category_key("API") == category_key("api")
    assert category_key("cafe\u0301") == category_key("CAF\u00c9")


def test_a_root_file_has_no_folder_in_its_path() -> None:
    assert document_path("uncategorised", "x.md") == "knowledge_base/x.md"
    assert document_path("api", "x.md") == "knowledge_base/api/x.md"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("knowledge_base/api/a.md", "knowledge_base/API/A.md"),
        ("knowledge_base/cafe\u0301.md", "knowledge_base/caf\u00e9.md"),
        ("knowledge_base/straße.md", "knowledge_base/STRASSE.md"),
        ("knowledge_base/Σας.md", "knowledge_base/ΣΑΣ.md"),
    ],
)
def test_paths_that_differ_by_case_or_form_have_one_key(one: str, other: str) -> None:
    assert path_key(one) == path_key(other)


def test_different_paths_have_different_keys() -> None:
    paths = ["a.md", "b.md", "a/b.md", "ab.md", "\u0130.md", "i.md", "\u0131.md", "café.md", "cafe.md"]
    keys = {path_key(path) for path in paths}
    assert len(keys) == len(paths)
    assert all(len(key) == 64 for key in keys)


def test_a_scanned_path_gives_the_first_folder_as_category_however_deep_it_lies() -> None:
    found = check_scanned_path("api/v2/cafe\u0301.md")
    assert (found.file_path, found.category, found.file_name) == (
        "knowledge_base/api/v2/caf\u00e9.md",
        "api",
        "caf\u00e9.md",
    )
    assert check_scanned_path("x.md").category == "uncategorised"


@pytest.mark.parametrize(
    "relative",
    [
        "uncategorised/x.md", "Uncategorised/x.md", ".staging/x.md", "api/.git/x.md", "api/../x.md", "/api/x.md",
        "api//x.md", "api/x.txt", "api/ x.md", "a\\b/x.md", "api/" + "long/" * 140 + "x.md", "api/a\nb/x.md",
    ],
)  # fmt: skip
def test_a_scanned_path_follows_the_same_rules(relative: str) -> None:
    with pytest.raises(DocumentError):
        check_scanned_path(relative)


def _literal_cases(data: Path, surface: str) -> list[dict[str, str]]:
    cases = json.loads((data / "bad_inputs.json").read_text(encoding="utf-8"))["cases"]
    return [case for case in cases if case["surface"] == surface and case["input_kind"] == "literal"]


# Of the shared cases, these names are taken as they are (or in NFC); every other one is refused with a 400.
_TAKEN = {"NFD", "NFC twin of NFD", "case twin", "turkish i", "sharp s", "trailing space", "dash", "backtick"}
_TAKEN |= {"format", "exe.md", "quote"}


def test_every_file_name_of_the_shared_cases_is_taken_or_refused_as_expected(shared_data: Path) -> None:
    cases = _literal_cases(shared_data, "upload.filename")
    assert len(cases) > 20
    for case in cases:
        if case["name"] in _TAKEN:
            assert check_file_name(case["input"]) == unicodedata.normalize("NFC", case["input"]).strip(), case["id"]
        else:
            with pytest.raises(DocumentError):
                check_file_name(case["input"])


def test_every_category_of_the_shared_cases_is_taken_or_refused_as_expected(shared_data: Path) -> None:
    cases = _literal_cases(shared_data, "upload.category")
    assert len(cases) > 8
    for case in cases:
        if case["name"] in {"padded", "case twin"}:
            assert check_category(case["input"]) == case["input"].strip()
        else:
            with pytest.raises(DocumentError):
                check_category(case["input"])
