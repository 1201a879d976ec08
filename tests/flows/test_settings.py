"""The environment is read in one file, documented in one file, and a bad value is refused with its name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READ = re.compile(r"""(?:env\.\w+|_path|_optional_float|_choice|_positive)\(\s*"([A-Z][A-Z0-9_]+)\"""")


def names_in_settings() -> set[str]:
    return set(READ.findall((ROOT / "kbsite" / "settings.py").read_text(encoding="utf-8")))


def names_in_example() -> set[str]:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return {line.lstrip("#").split("=")[0] for line in lines if re.match(r"^#?[A-Z][A-Z0-9_]+=", line)}


def test_the_example_lists_every_variable_that_the_settings_read_and_no_other() -> None:
    assert len(names_in_settings()) > 25
    assert names_in_example() == names_in_settings()


def test_no_other_module_reads_the_environment() -> None:
    reading = re.compile(r"os\.environ\.get\(|os\.getenv\(|os\.environ\[[^\]]+\](?!\s*=[^=])")
    readers = {
        path.relative_to(ROOT).as_posix()
        for app in ("kbsite", "clients", "retrieval", "documents", "agents", "observability")
        for path in (ROOT / app).rglob("*.py")
        if reading.search(path.read_text(encoding="utf-8"))
    }
    # It hides variables from a library that reads them at import, and puts them back.
    assert readers == {"clients/milvus_sdk.py"}


def run_settings(**variables: str) -> subprocess.CompletedProcess[str]:
    """Import the settings in a process of their own, as a start does."""
    environment = {"PATH": os.environ["PATH"], "SECRET_KEY": "x" * 60, **variables}
    return subprocess.run(
        [sys.executable, "-c", "import kbsite.settings as s; print(s.EMBEDDER, s.RETRIEVAL_REFERENCE_THRESHOLD)"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMBEDDER", "word2vec"),
        ("RETRIEVAL_REFERENCE_THRESHOLD", "1.5"),
        ("RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD", "high"),
        ("RETRIEVAL_DOMAIN_LIMIT", "strict"),
        ("RETRIEVAL_MAX_L2_DISTANCE", "0"),
        ("LOOKUP_BUDGET", "0"),
        ("UPLOAD_MAX_BYTES", "5MB"),
        ("LOOKUP_LANGUAGE", "fr"),
    ],
)
def test_a_bad_value_is_refused_with_its_name(name: str, value: str) -> None:
    outcome = run_settings(**{name: value})
    assert outcome.returncode != 0
    assert name in outcome.stderr.splitlines()[-1]


def test_zero_is_a_threshold_and_not_unset() -> None:
    outcome = run_settings(EMBEDDER="hashing", RETRIEVAL_REFERENCE_THRESHOLD="0")
    assert outcome.stdout.strip() == "hashing 0.0"
