"""Orders of two things at once that kills do not hit: nothing is lost, nothing comes back, the stores agree."""

from __future__ import annotations

import pytest

from tests.reliability.interleavings import EVERY, Interleaving
from tests.reliability.site import Places

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("interleaving", EVERY, ids=lambda one: one.__name__)
def test_file_row_index_and_vectors_agree_when_it_is(interleaving: Interleaving, places: Places) -> None:
    interleaving(places)
