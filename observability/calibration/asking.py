"""Questions asked of the store at hand as a lookup asks them, by whichever process holds it.

Rows are checked, the action memory is left alone, nothing is recorded: no trace of a calibration is in the figures of
the site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agents.level_fit import present_fit, saved_fit
from agents.recording import MAX_QUERY
from agents.tools import retrieval_settings
from clients.interfaces import ClientError, Embedder, LevelFit, VectorStore
from clients.registry import get_embedder, get_vector_store
from documents.local_server import internal
from documents.source import get_keyword_index, get_source
from observability.calibration.asked import Asked, CalibrationError, Candidate
from observability.calibration.questions import can_be_asked
from observability.thresholds import chunks_at_hand
from retrieval.exact import ExactMatches
from retrieval.lookup_types import RetrievalSettings
from retrieval.precise import may_be_precise
from retrieval.relevance import LevelRule, rule_for
from retrieval.rows import LiveRows
from retrieval.semantic import SemanticSearch
from retrieval.stopwatch import Stopwatch

AT_A_TIME = 16
"""Questions of one request: a second or two."""
LEAST_CHUNKS = 50


@dataclass(frozen=True)
class Site:
    """Whose questions are asked: the embedder with its fits, how many chunks there are, the operator's thresholds.

    ``calibrated``: ``in_force`` was saved by an earlier calibration.
    """

    embedder: str
    version: str
    chunks: int
    shipped: LevelFit
    in_force: LevelFit
    calibrated: bool
    highly_relevant: float | None
    reference: float | None

    def rule(self, fit: LevelFit) -> LevelRule:
        """The rule that lookups follow with this fit: thresholds that the environment sets stay."""
        settings = RetrievalSettings(
            highly_relevant_threshold=self.highly_relevant, reference_threshold=self.reference, fit=fit
        )
        return rule_for(settings, fit)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Site:
        """From what :func:`answer` gives."""
        fits = {name: LevelFit(**stored[name]) for name in ("shipped", "in_force")}
        return cls(**{**stored, **fits})


@internal
def calibrate_for_command(payload: dict[str, Any]) -> dict[str, Any]:
    """``POST /internal/calibrate/``: :func:`answer`, by the running server."""
    return answer(payload)


def answer(payload: dict[str, Any]) -> dict[str, Any]:
    """``{"queries": [text, …]}`` → ``{"site": …, "asked": [one of each]}``, or ``{"error": one line}``."""
    try:
        queries = _queries(payload)
        embedder, store = get_embedder(), get_vector_store()
        store.open()
        return {
            "site": asdict(_site(embedder)),
            "asked": [ask(query, embedder, store).as_dict() for query in queries],
        }
    except CalibrationError as fault:
        return {"error": str(fault)}
    except ClientError as fault:
        return {"error": f"{fault} {fault.hint}".strip()}


def ask(query: str, embedder: Embedder, store: VectorStore) -> Asked:
    """One question; ``CalibrationError`` where the embedder or the store fails."""
    source, watch, operator = get_source(), Stopwatch(), retrieval_settings(embedder)
    rows, index = LiveRows(source), get_keyword_index()
    index.refresh()
    exact = ExactMatches(index.find(query, rows.live, wanted=2), rows, watch)
    first = exact.first()
    unique = first is not None and exact.is_unique()
    search = SemanticSearch(
        source=source,
        embedder=embedder,
        store=store,
        rows=rows,
        rule=rule_for(operator, embedder.fit),
        max_l2_distance=operator.max_l2_distance,
        watch=watch,
    )
    found = search.find(query)
    if found.degraded:
        raise CalibrationError(
            f"The {found.degraded.replace('_', ' ')} fails: {found.error} Run: python manage.py doctor"
        )
    return Asked(
        query=query,
        matches=exact.count,
        precise=first is not None and unique and (not operator.precise_check or may_be_precise(query, first.keywords)),
        primary=first.state.file_path if first is not None else "",
        candidates=tuple(Candidate(hit.state.file_path, hit.evidence) for hit in found.candidates),
    )


def _queries(payload: dict[str, Any]) -> Sequence[str]:
    queries = payload.get("queries")
    if not isinstance(queries, list) or len(queries) > AT_A_TIME:
        raise CalibrationError(f'"queries" is a list of at most {AT_A_TIME} questions.')
    if not all(isinstance(query, str) and can_be_asked(query) for query in queries):
        raise CalibrationError(f"A question is a text of 1 to {MAX_QUERY} characters without NUL or half a character.")
    return queries


def _site(embedder: Embedder) -> Site:
    chunks = chunks_at_hand()
    if chunks < LEAST_CHUNKS:
        raise CalibrationError(
            f"The store has {chunks} chunks; fewer than {LEAST_CHUNKS} say nothing. Add documents, or wait for their "
            "vectors."
        )
    operator = retrieval_settings()
    return Site(
        embedder=embedder.name,
        version=embedder.version,
        chunks=chunks,
        shipped=embedder.fit,
        in_force=present_fit(embedder),
        calibrated=saved_fit(embedder) is not None,
        highly_relevant=operator.highly_relevant_threshold,
        reference=operator.reference_threshold,
    )
