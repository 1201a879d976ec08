"""One shared instance of each client in a process, made on first use from ``settings.CLIENTS``."""

from __future__ import annotations

import threading
from typing import Any, cast

from django.conf import settings
from django.utils.module_loading import import_string

from clients.embedding_cache import CachedQueries
from clients.interfaces import LLM, Embedder, SessionMemory, VectorStore

_lock = threading.RLock()
_instances: dict[str, Any] = {}


def _get(name: str) -> Any:
    instance = _instances.get(name)
    if instance is None:
        with _lock:
            instance = _instances.get(name)
            if instance is None:
                instance = _made(settings.CLIENTS[name])
                _instances[name] = instance
    return instance


def _made(chosen: dict[str, Any]) -> Any:
    """An instance of ``BACKEND``; with ``QUERY_CACHE``, an embedder that keeps the vectors of its last questions."""
    instance = import_string(chosen["BACKEND"])(**chosen.get("OPTIONS", {}))
    return CachedQueries(instance, **chosen["QUERY_CACHE"]) if "QUERY_CACHE" in chosen else instance


def get_embedder() -> Embedder:
    """The embedder that questions are embedded with."""
    return cast(Embedder, _get("embedder"))


def get_vector_store() -> VectorStore:
    """The shared vector store; it opens itself on first use."""
    return cast(VectorStore, _get("vector_store"))


def get_session_memory() -> SessionMemory:
    """Where the action memory is kept."""
    return cast(SessionMemory, _get("session_memory"))


def get_llm() -> LLM:
    """The chat model, or its stand-in when none is configured."""
    return cast(LLM, _get("llm"))


def reset_clients() -> None:
    """Close and forget every instance: at shutdown, and between tests that change settings."""
    with _lock:
        for instance in _instances.values():
            close = getattr(instance, "close", None)
            if close is not None:
                close()
        _instances.clear()
