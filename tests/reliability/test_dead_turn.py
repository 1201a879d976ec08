"""A reconcile whose process was killed holds nobody up where the next process knows that it is alone."""

from __future__ import annotations

from typing import Any

import pytest

from documents.models import ChangeCounter
from documents.reconcile_lease import one_at_a_time
from documents.worker import Housekeeping

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("alone", [True, False])
def test_the_turn_of_a_process_that_was_killed_is_free_at_the_next_start(alone: bool, settings: Any) -> None:
    settings.EMBEDDED = alone
    with one_at_a_time() as turn:
        assert turn is not None
        killed = ChangeCounter.objects.get(name="reconcile_until").value
    ChangeCounter.objects.filter(name="reconcile_until").update(value=killed)
    Housekeeping().round()
    with one_at_a_time() as turn:
        assert (turn is not None) == alone
