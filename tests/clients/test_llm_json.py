"""The JSON object in a model's answer: what is forgiven, and what is not."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.llm_json import DEEPEST, LARGEST_ANSWER, NoObjectError, object_in

FOUND = {"title": "Pay {1}", "tags": ["a", "b"]}
PLAIN = json.dumps(FOUND)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"\ufeff{PLAIN}",
        f"```json\n{PLAIN}\n```",
        f"Here it is:\n\n```\n{PLAIN}\n```\nAnything else?",
        f"Sure! The {{fields}} are {PLAIN} as asked.",
        f"Empty braces {'{ }'[:2]} of prose, then {PLAIN}",
        f"[{PLAIN}]",
        f"[{PLAIN},]",
        '{"title": "Pay {1}", "tags": ["a", "b",],}',
        '{"title": "Pay {1}" , "tags": ["a", "b" , ] , }',
        f"{PLAIN} {{}}",
        f"{PLAIN}\n{PLAIN}",
    ],
)
def test_odd_wrapping_is_forgiven(text: str) -> None:
    assert object_in(text) == FOUND


def test_what_looks_like_a_fault_within_a_string_is_left_alone() -> None:
    for value in ("a,}", "a,]", '\\"},{', "}{", "[", "\n, }", "\\", "```json", "NaN"):
        assert object_in(json.dumps({"x": value, "y": [value]})) == {"x": value, "y": [value]}
    assert object_in('{"x": "first line\nsecond\tline"}') == {"x": "first line\nsecond\tline"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no JSON object"),
        ("I cannot do that.", "holds no JSON object"),
        ("[1, 2]", "holds no JSON object"),
        ('"title"', "holds no JSON object"),
        ("null", "holds no JSON object"),
        ('{"title": "Pay', "ends before its JSON object is closed"),
        ('{"title": "x", "inner": {"a": 1}', "ends before its JSON object is closed"),
        ('{"title": "x"} and {"title', None),
        ('{"a": 1, "a": 2}', "has the key 'a' twice"),
        ('{"a": {"b": 1, "b": 1}}', "has the key 'b' twice"),
        ('{"a": NaN, "b": {"c": 1}}', "holds NaN"),
        ('{"a": -Infinity}', "holds -Infinity"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5_000 + "}", "too long"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("{'a': 1}", "holds no JSON object"),
        ('{"a": undefined}', "is not valid JSON"),
        ('{"a": 1} // x', None),
        (f"[{PLAIN}, {PLAIN}]", "several objects"),
        ('{"a": ' * 200 + "1" + "}" * 200, f"more than {DEEPEST} levels"),
        ('{"a": ' + "[" * 100_000 + "}", f"more than {DEEPEST} levels"),
        ('{"a": "' + "x" * LARGEST_ANSWER + '"}', "longer than"),
    ],
)
def test_what_the_data_is_must_be_clear(text: str, reason: str | None) -> None:
    if reason is None:
        assert object_in(text)
        return
    with pytest.raises(NoObjectError, match=reason) as caught:
        object_in(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("piece", ['{"', '{"a":', '"', "\\", "{", "[{", '{"a" ', ",}", '{"a": "\\', "} "])
def test_hostile_answers_are_read_in_no_time(piece: str) -> None:
    began = time.process_time()
    with pytest.raises(NoObjectError):
        object_in((piece * LARGEST_ANSWER)[:LARGEST_ANSWER])
    assert time.process_time() - began < 10  # a patience: quadratic time takes minutes


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_string_that_is_never_closed_is_read_once(end: str) -> None:
    began = time.process_time()
    with pytest.raises(NoObjectError, match="ends before"):
        object_in('{"title": "' + '\\"' * 90_000 + end)
    assert time.process_time() - began < 5


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _JSON), st.booleans())
def test_every_object_is_read_as_json_reads_it(value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert object_in(f"Here:\n```json\n{text}\n```\n") == json.loads(text)


@given(st.text(alphabet=st.sampled_from('{}[]",:\\ a1\n') | st.characters(), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(NoObjectError):
        assert isinstance(object_in(text), dict)
