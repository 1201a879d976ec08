"""Lexical weights that an embedder makes itself (BGE-M3 does), beside its vectors and in the same pass.

A hybrid ranking uses them in place of weights from counted words: a chunk is stored with
``ChunkVector(..., terms=weights)``, ``VectorStore.search_lexical(lexical_query(question), top_k)`` finds by the inner
product, which is how BGE-M3 compares them. They need no counts over the store. Their term ids are token ids of the
model's vocabulary and mean something else than the ids of counted words: a collection holds the ones or the others,
never both (:func:`identity_of`), and changing over takes ``manage.py reindex --all``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from clients.interfaces import COUNTED_TERMS, CollectionIdentity, Embedder, Matrix


@runtime_checkable
class OwnLexicalWeights(Protocol):
    """Token ids with weights above 0, special tokens left out; empty for a text without known tokens.

    Raises what ``embed_documents`` and ``embed_query`` raise.
    """

    @property
    def has_lexical(self) -> bool:
        """False where this one cannot give them, as BGE-M3 from a folder without its lexical part."""
        ...

    def lexical_documents(self, texts: Sequence[str]) -> list[dict[int, float]]:
        """Weights of passages, in order."""
        ...

    def lexical_query(self, text: str) -> dict[int, float]:
        """Weights of one question. Costs nothing after ``embed_query`` of the same text."""
        ...

    def embed_documents_with_lexical(self, texts: Sequence[str]) -> tuple[Matrix, list[dict[int, float]]]:
        """Vectors and weights of passages, in one pass over the model."""
        ...


def own_lexical_weights(embedder: Embedder) -> OwnLexicalWeights | None:
    """The embedder's own weights, also of one that a cache is wrapped around; None where it makes none."""
    while (inner := getattr(embedder, "wrapped", None)) is not None:
        embedder = inner
    return embedder if isinstance(embedder, OwnLexicalWeights) and embedder.has_lexical else None


def identity_of(embedder: Embedder) -> CollectionIdentity:
    """What a collection is made by whose vectors, and terms where it makes them, come from this embedder."""
    terms = COUNTED_TERMS if own_lexical_weights(embedder) is None else embedder.name
    return CollectionIdentity(embedder.name, embedder.version, embedder.dimension, terms)
