"""What this program asks of the outside, as Protocols and the frozen values that cross them.

Every implementation raises :class:`ClientError` (or :class:`ClientTimeout` below it) and nothing else, never hands out
a vendor's type, and passes the contract test of its Protocol in ``tests/clients``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""One embedding, shape ``(dimension,)``, unit length."""
Matrix = npt.NDArray[np.float32]
"""Several embeddings, shape ``(count, dimension)``, each row of unit length, rows in the order of the texts."""
SparseVector = Mapping[int, float]
"""Term ids (0 to 2**31 - 1) with their weights, all finite and above 0."""

COUNTED_TERMS = "bm25-1"
"""The terms of counted words, with the version of the analyser that makes them (``retrieval.lexical.VERSION``).

Term ids of another analyser, or of an embedder's own vocabulary, are numbers too and would match by chance.
"""

PartStatus = Literal["ok", "degraded", "down"]


class ClientError(Exception):
    """A service or library at the edge failed.

    ``code`` is stable and untranslated, ``retryable`` says whether the same call may work later, ``hint`` tells an
    operator what to do. The message is one line.
    """

    def __init__(self, message: str, *, code: str = "client_error", retryable: bool = False, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.hint = hint


class ClientTimeout(ClientError):  # noqa: N818 (as TimeoutError has it, without the repetition)
    """The service did not answer in time; always retryable."""

    def __init__(self, message: str, *, code: str = "client_timeout", hint: str = "") -> None:
        super().__init__(message, code=code, retryable=True, hint=hint)


@dataclass(frozen=True)
class PartHealth:
    """How one part of the site stands, as ``/readyz`` shows it."""

    status: PartStatus
    hint: str = ""


@dataclass(frozen=True)
class LevelFit:
    """Where an embedder's similarities begin to mean something (SPEC section 7).

    Thresholds are on ``similarity`` (0 to 1, bounds inclusive). ``covered_reference`` is the lower one that does where
    the text covers ``min_coverage`` of the question; ``agreement``, where set, is what HIGHLY_RELEVANT takes once the
    dense and the lexical search agree on the best document and its similarity and coverage add up to ``min_support``;
    without such agreement nothing is highly relevant.
    ``chunks`` is how many the store of the fit had. ``fitted_on`` and ``date`` say on what and when.
    """

    highly_relevant: float
    reference: float
    covered_reference: float | None = None
    min_coverage: float = 0.0
    agreement: float | None = None
    min_support: float = 0.0
    chunks: int = 0
    fitted_on: str = ""
    date: str = ""


class Embedder(Protocol):
    """Turns text into unit vectors.

    ``lexical`` is true where the vectors know letters and not meaning (``hashing``); the site says so.
    ``own_level_space`` is true where levels are computed by :meth:`level_cosines` from vectors read back from the
    store, false where the store's own squared distance serves (SPEC section 7).
    """

    name: str
    version: str
    dimension: int
    lexical: bool
    own_level_space: bool
    fit: LevelFit

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Ranking vectors of passages, in order. An empty list gives shape ``(0, dimension)``."""
        ...

    def embed_query(self, text: str) -> Vector:
        """The ranking vector of one question."""
        ...

    def level_cosines(self, query: Vector, documents: Matrix) -> Vector:
        """Cosines, shape ``(count,)``, in the space in which levels are decided."""
        ...


@dataclass(frozen=True)
class ChunkVector:
    """One chunk on its way into the store. ``number`` counts from 0 within its document's revision.

    ``terms`` is what the lexical search finds the chunk by; empty: it does not.
    """

    number: int
    domain: str
    vector: Vector
    terms: SparseVector = field(default_factory=dict)


@dataclass(frozen=True)
class VectorHit:
    """One chunk that the store found. ``squared_distance`` is the squared L2: 0 equal, 2 orthogonal, 4 opposite."""

    document_id: int
    revision: int
    number: int
    squared_distance: float
    vector: Vector | None = None


@dataclass(frozen=True)
class LexicalHit:
    """One chunk that the lexical search found. ``score``: inner product of query and chunk weights, above 0."""

    document_id: int
    revision: int
    number: int
    score: float


@dataclass(frozen=True)
class CollectionIdentity:
    """What the vectors of a collection were made by; a store with another identity refuses to serve (L1-4).

    ``terms`` names what the ids of its sparse vectors stand for.
    """

    embedder: str
    version: str
    dimension: int
    terms: str = COUNTED_TERMS


class VectorStore(Protocol):
    """Chunk vectors, keyed ``{document id}:{revision}:{number}``. Reads see every earlier write of this process.

    Opening is lazy and happens once under a lock; the first use of a store proves its metric (L1-2), loads the
    collection and compares its :class:`CollectionIdentity` (``ClientError`` with code ``collection_mismatch``,
    ``metric_mismatch``, ``store_locked`` or ``store_unavailable``).
    """

    metric: str

    @property
    def has_lexical(self) -> bool:
        """Whether this store holds sparse vectors; servers before Milvus 2.4 have none.

        Asking opens the store. False where that fails; the searches raise what is wrong.
        """
        ...

    def open(self) -> None:
        """Connect, make the collection if missing, prove the metric, load. Idempotent; raises what is wrong."""
        ...

    def upsert(self, document_id: int, revision: int, chunks: Sequence[ChunkVector]) -> None:
        """Write the vectors of one revision. Vectors are checked: finite, non-zero, unit length, right dimension.

        Terms are checked too, and left out by a store without sparse vectors.
        """
        ...

    def search(
        self,
        vector: Vector,
        top_k: int,
        *,
        domain: str | None = None,
        without: Sequence[int] = (),
        with_vectors: bool = False,
    ) -> list[VectorHit]:
        """The nearest chunks, nearest first. ``domain`` narrows to one category, ``without`` leaves documents out."""
        ...

    def search_lexical(
        self, query: SparseVector, top_k: int, *, domain: str | None = None, without: Sequence[int] = ()
    ) -> list[LexicalHit]:
        """The chunks of the highest inner product, best first, equal ones by key.

        What scores nothing is not returned, so an empty query finds nothing; nor does a store without sparse vectors.
        Which of several equal chunks come last within ``top_k`` is up to the store.
        """
        ...

    def vectors(self, keys: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int, int], Vector]:
        """The dense vectors of chunks, by (document id, revision, number); unknown keys are missing from the answer.

        For chunks that only the lexical search found: some hundreds at most.
        """
        ...

    def delete(self, document_ids: Sequence[int]) -> None:
        """Remove every vector of these documents. Unknown ids are no error."""
        ...

    def delete_revisions(self, document_id: int, *, keep: int) -> None:
        """Remove the vectors of every revision of a document but ``keep``."""
        ...

    def discard(self, document_id: int, revision: int) -> None:
        """Remove the vectors of one revision."""
        ...

    def counts(self) -> dict[tuple[int, int], int]:
        """Chunks by ``(document id, revision)``: what reconcile compares with the rows."""
        ...

    def flush(self) -> None:
        """Settle what was written, after an import: unflushed rows are searched slowly."""
        ...

    def reset(self) -> None:
        """Drop everything and begin an empty collection for the present embedder."""
        ...

    def health(self) -> PartHealth:
        """Never raises."""
        ...

    def close(self) -> None:
        """Let go of the connection or the file."""
        ...


class SessionMemory(Protocol):
    """Small shared state per key (one run, or one caller's session), expiring as a whole after its TTL.

    All three kinds of state live under the same key and go together with :meth:`clear`. Every write renews the expiry.
    """

    def claim(self, key: str, *, unless: Sequence[frozenset[str]], marks: Sequence[str]) -> bool:
        """Mark ``marks`` unless one of the sets in ``unless`` is already wholly marked; atomic. True when it marked."""
        ...

    def release(self, key: str, marks: Sequence[str]) -> None:
        """Take marks back."""
        ...

    def marked(self, key: str) -> frozenset[str]:
        """All marks."""
        ...

    def append(self, key: str, name: str, value: str) -> bool:
        """Add a value to an ordered list of distinct values. True when it was new."""
        ...

    def values(self, key: str, name: str) -> list[str]:
        """The list's values, in the order of their first append."""
        ...

    def increment(self, key: str, name: str, by: int = 1) -> int:
        """Add to a counter (which begins at 0) and give its new value; atomic. ``by=0`` reads it."""
        ...

    def clear(self, key: str) -> None:
        """Forget everything of this key."""
        ...

    def health(self) -> PartHealth:
        """Never raises."""
        ...


Role = Literal["system", "user", "assistant", "tool"]
AnswerFormat = Literal["json_schema", "json_object", "text"]
"""How an endpoint is asked for JSON, strictest first: by a schema, by "one object", in the text of the prompt only."""


@dataclass(frozen=True)
class LLMMessage:
    """One message to a model."""

    role: Role
    content: str


@dataclass(frozen=True)
class Completion:
    """A model's whole answer. ``usage`` counts tokens (``prompt``, ``completion``), empty where the model gave none."""

    text: str
    model: str
    finish_reason: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)


class FormatRefused(ClientError):  # noqa: N818 (it is no fault of anybody: the next format is asked for)
    """The endpoint does not take this ``response_format``; the same question in another one may work."""


class LLM(Protocol):
    """A chat model. ``configured`` is false for the stand-in of a site without one."""

    model: str
    configured: bool

    def complete(
        self,
        messages: Sequence[LLMMessage],
        *,
        temperature: float = 0.2,
        max_tokens: int = 1500,
        response_format: Mapping[str, Any] | None = None,
    ) -> Completion:
        """One whole answer. ``ClientError`` codes: ``llm_not_configured``, ``llm_unreachable``,
        ``llm_refused_key``, ``llm_rate_limited``, ``llm_error``, ``llm_empty``; time-outs are ``ClientTimeout``
        (``llm_timeout``). ``response_format`` as OpenAI has it; ``FormatRefused`` where the endpoint takes none
        such. For JSON use ``clients.structured.ask_structured``, which copes with that."""
        ...

    def answer_format(self) -> AnswerFormat:
        """The strictest format that this endpoint is not known to refuse."""
        ...

    def remember_format(self, works: AnswerFormat) -> None:
        """From here on :meth:`answer_format` is ``works``: stricter ones were refused and this one was answered."""
        ...

    def health(self) -> PartHealth:
        """Never raises; does not call the model."""
        ...
