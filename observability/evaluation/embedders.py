"""The embedder to evaluate: the site's own, or another one by its name."""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string

from clients.interfaces import Embedder
from clients.registry import get_embedder
from observability.evaluation.data import EvaluationError


def embedder_named(name: str = "") -> Embedder:
    """The site's embedder where ``name`` is empty or its name, else one as the settings would make it.

    :class:`EvaluationError` for a name there is not. Another one than the site's keeps no vectors of questions.
    """
    if not name or name == settings.EMBEDDER:
        return get_embedder()
    if name not in settings.EMBEDDERS:
        raise EvaluationError(f'There is no embedder "{name}"; there are {", ".join(settings.EMBEDDERS)}.')
    chosen = settings.EMBEDDERS[name]
    made: Embedder = import_string(chosen["BACKEND"])(**chosen.get("OPTIONS", {}))
    return made
