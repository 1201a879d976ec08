"""The thresholds that levels are decided by at present, for the lines in the similarity chart."""

from __future__ import annotations

from django.conf import settings

from clients.interfaces import Embedder


def level_thresholds(embedder: Embedder) -> dict[str, float]:
    """The environment's where set, else the embedder's shipped fit (SPEC section 7)."""
    high, reference = settings.RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD, settings.RETRIEVAL_REFERENCE_THRESHOLD
    return {
        "highly_relevant": embedder.fit.highly_relevant if high is None else high,
        "reference": embedder.fit.reference if reference is None else reference,
    }
