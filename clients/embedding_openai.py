"""Any OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import openai

from clients.embedding_data import level_fit
from clients.embedding_vectors import cosines, strip_unencodable, unit_rows
from clients.interfaces import ClientError, ClientTimeout, Matrix, PartHealth, Vector

BATCH_TEXTS = 64
BATCH_CHARACTERS = 60_000
"""Endpoints limit the tokens of a request as well as its texts."""
_BLANK = "-"
"""Sent in place of a blank text, which endpoints refuse together with the rest of its batch."""


class OpenAIEmbedder:
    """``dimension`` is learnt from the first answer (asking for it before may call the endpoint) unless it is given.

    ``ClientError`` codes: ``embedder_unavailable`` (not configured), ``embedder_unreachable``,
    ``embedder_refused_key``, ``embedder_rate_limited``, ``embedder_error``, ``embedder_bad_answer``; a time-out is
    ``ClientTimeout`` with code ``embedder_timeout``.
    """

    name: str = "openai"
    lexical: bool = False
    own_level_space: bool = False

    def __init__(
        self,
        *,
        model: str,
        base_url: str = "",
        api_key: str = "",
        dimension: int | None = None,
        query_timeout: float = 5.0,
        documents_timeout: float = 60.0,
    ) -> None:
        self.version: str = model
        self.fit = level_fit("openai")
        self._dimension = dimension
        self._lock = threading.Lock()
        self._last_problem: ClientError | None = None
        # Local endpoints ask for no key, but the SDK insists on one. It reads OPENAI_BASE_URL where none is given.
        self._client = openai.OpenAI(base_url=base_url or None, api_key=api_key or "none")
        # A person waits for a question's vector; nobody for a document's.
        self._clients = {
            "query": self._client.with_options(timeout=query_timeout, max_retries=1),
            "documents": self._client.with_options(timeout=documents_timeout, max_retries=3),
        }

    @property
    def dimension(self) -> int:
        """Length of the vectors. Raises what a call to the endpoint raises, when nothing was embedded so far."""
        if self._dimension is None:
            with self._lock:
                if self._dimension is None:
                    self._dimension = len(self._ask([_BLANK], "query")[0])
        return self._dimension

    @dimension.setter
    def dimension(self, value: int) -> None:
        self._dimension = value

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of passages, in batches."""
        rows = [row for batch in _batches(texts) for row in self._ask(batch, "documents")]
        return self._checked(rows)

    def embed_query(self, text: str) -> Vector:
        """The vector of one question, in a time that a waiting person bears."""
        row: Vector = self._checked(self._ask([_sendable(text)], "query"))[0]
        return row

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """Plain cosines, shape ``(count,)``."""
        return cosines(query, documents)

    def health(self) -> PartHealth:
        """How the last call went; does not call the endpoint. Never raises."""
        problem = self._last_problem
        if not self.version:
            return PartHealth("down", _not_configured().hint)
        return PartHealth("degraded", f"{problem} {problem.hint}".strip()) if problem else PartHealth("ok")

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _checked(self, rows: list[list[float]]) -> Matrix:
        if self._dimension is None and rows:
            self._dimension = len(rows[0])
        return unit_rows(rows, count=len(rows), dimension=self.dimension, source=f"The endpoint's model {self.version}")

    def _ask(self, texts: list[str], purpose: str) -> list[list[float]]:
        if not self.version:
            raise _not_configured()
        try:
            answer = self._clients[purpose].embeddings.create(model=self.version, input=texts, encoding_format="float")
            rows = _rows_of(answer, len(texts))
        except openai.OpenAIError as error:
            self._last_problem = _translated(error)
            raise self._last_problem from error
        except ClientError as error:
            self._last_problem = error
            raise
        self._last_problem = None
        return rows


def _rows_of(answer: Any, count: int) -> list[list[float]]:
    """The vectors in the order of the texts; an endpoint may answer in another, or with anything at all."""
    try:
        ordered = sorted(answer.data, key=lambda item: item.index)
        rows = [list(item.embedding) for item in ordered]
        complete = [item.index for item in ordered] == list(range(count)) and all(rows)
    except (AttributeError, TypeError):
        complete, rows = False, []
    if not complete:
        raise ClientError(
            f"The embeddings endpoint did not answer with one vector for each of {count} texts",
            code="embedder_bad_answer",
            hint="Is OPENAI_BASE_URL an OpenAI-compatible API, and EMBEDDING_MODEL an embedding model?",
        )
    return rows


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in map(_sendable, texts):
        if batch and (len(batch) >= BATCH_TEXTS or characters + len(text) > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _sendable(text: str) -> str:
    cleaned = strip_unencodable(text)
    return cleaned if cleaned.strip() else _BLANK


def _not_configured() -> ClientError:
    return ClientError(
        "No embedding model is configured",
        code="embedder_unavailable",
        hint="EMBEDDER=openai needs EMBEDDING_MODEL, and OPENAI_BASE_URL and OPENAI_API_KEY of the endpoint.",
    )


def _translated(error: openai.OpenAIError) -> ClientError:
    """The one place where the vendor's errors become ours. The SDK has already tried again where that makes sense."""
    if isinstance(error, openai.APITimeoutError):
        return ClientTimeout("The embeddings endpoint did not answer in time", code="embedder_timeout")
    if isinstance(error, openai.APIConnectionError):
        return ClientError(
            "The embeddings endpoint cannot be reached",
            code="embedder_unreachable",
            retryable=True,
            hint="Look at OPENAI_BASE_URL and the network.",
        )
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return ClientError(
            "The embeddings endpoint refused the key", code="embedder_refused_key", hint="Look at OPENAI_API_KEY."
        )
    if isinstance(error, openai.RateLimitError):
        return ClientError("The embeddings endpoint asks to slow down", code="embedder_rate_limited", retryable=True)
    status = error.status_code if isinstance(error, openai.APIStatusError) else None
    reason = " ".join(str(error).split())[:200]
    return ClientError(
        f"The embeddings endpoint failed ({status or type(error).__name__}): {reason}",
        code="embedder_error",
        retryable=status is not None and status >= 500,
        hint="Look at EMBEDDING_MODEL and at the endpoint's own log.",
    )
