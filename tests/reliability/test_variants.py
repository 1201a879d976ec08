"""Each program that is wrong on purpose is caught, by an interleaving that the right one passes."""

from __future__ import annotations

import pytest

from tests.reliability.interleavings import Interleaving
from tests.reliability.site import Places
from tests.reliability.variants import EVERY, Variant

pytestmark = pytest.mark.django_db(transaction=True)
CASES = [(variant, check) for variant in EVERY for check in variant.caught_by]


@pytest.mark.parametrize(
    ("variant", "check"), CASES, ids=[f"{variant.name} is caught by {check.__name__}" for variant, check in CASES]
)
def test_a_mistake(variant: Variant, check: Interleaving, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    variant.make(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        check(places)
    # Caught by what it did, not because it never came by the place or hung there.
    assert not any(words in str(caught.value) for words in ("nobody came by", "it ended before", "it hangs"))
