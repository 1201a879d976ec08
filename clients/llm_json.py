"""The JSON object in a model's answer: read leniently where only the wrapping is odd, strictly where the data is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

LARGEST_ANSWER = 200_000
"""Characters; a structured answer has some thousand."""
DEEPEST = 40
"""Objects and lists within each other; the parser would fail at about a thousand."""
_CANDIDATES = 20

# One that is never closed goes to the end: else each quote in it would begin another search for its end.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_BEGINS = re.compile(r'\{(?=\s*["}])')  # not the braces of prose, as in {this}
_TOKEN = re.compile(_STRING + r"|[{}\[\]]", re.DOTALL)
_TRAILING_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_MORE_IN_LIST = re.compile(r"\s*,\s*[^\s\]]")


class NoObjectError(ValueError):
    """The text holds no JSON object that can be used; the message says why, as the end of "The answer …"."""


def object_in(text: str) -> dict[str, Any]:
    """The first JSON object in a text: prose, code fences and a list of one around it, trailing commas, line breaks
    within strings and a byte order mark do no harm. Raises ``NoObjectError`` for anything else, also for what JSON
    leaves open: the same key twice, NaN, numbers beyond a float, half a surrogate pair.
    """
    if len(text) > LARGEST_ANSWER:
        raise NoObjectError(f"is longer than {LARGEST_ANSWER} characters")
    place, reason = 0, "holds no JSON object"
    for _ in range(_CANDIDATES):
        begin = _BEGINS.search(text, place)
        if begin is None:
            break
        place = _end_of_object(text, begin.start())
        try:
            found = _strictly(text[begin.start() : place])
        except NoObjectError as error:
            reason = str(error)
            continue
        if text[: begin.start()].rstrip().endswith("[") and _MORE_IN_LIST.match(text, place):
            raise NoObjectError("is a list of several objects, and one object was asked for")
        return found
    raise NoObjectError(reason)


def _end_of_object(text: str, begin: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, begin):
        if token[0] in ("{", "["):
            depth += 1
            if depth > DEEPEST:
                raise NoObjectError(f"is nested more than {DEEPEST} levels deep")
        elif token[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
    # What lies within is only a part of the object: it must not be taken for the whole.
    raise NoObjectError("ends before its JSON object is closed")


def _strictly(raw: str) -> dict[str, Any]:
    plain = _TRAILING_COMMA.sub(lambda found: found[0] if found[0] != "," else "", raw)
    try:
        found: dict[str, Any] = json.loads(
            plain, strict=False, object_pairs_hook=_once_each, parse_constant=_refused, parse_float=_finite
        )
        json.dumps(found, ensure_ascii=False).encode()
    except NoObjectError:
        raise
    except UnicodeEncodeError as error:
        raise NoObjectError("holds half a surrogate pair, which is no character") from error
    except json.JSONDecodeError as error:
        raise NoObjectError(f"is not valid JSON ({error.msg} at character {error.pos})") from error
    except ValueError as error:  # a whole number of more than 4,300 digits
        raise NoObjectError("holds a number that is too long") from error
    return found


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NoObjectError(f"has the key {key[:60]!r} twice")
        found[key] = value
    return found


def _refused(constant: str) -> Any:
    raise NoObjectError(f"holds {constant}, which is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NoObjectError(f"holds the number {digits[:30]}, which is too large")
    return number
