"""A site with the real BGE-M3 code in it: documents indexed into Milvus Lite, and found by the model's own weights."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agents.tools import LOOKUP_TOOL, ToolContext, call_tool
from clients.embedding_lexical import own_lexical_weights
from clients.registry import get_embedder, get_vector_store, reset_clients
from documents.models import DocumentChunk
from documents.terms import term_counts, unpacked
from retrieval.bm25 import coverage, query_terms, query_weights
from tests.clients.embedder_contract import TEXTS
from tests.documents.library import indexed, text

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("default")]
QUESTION = "restart the worker queue"


@pytest.fixture(autouse=True)
def _site(checkpoint: Path, settings: Any, tmp_path: Path) -> Iterator[None]:
    uri = str(tmp_path / "milvus.db")
    settings.CLIENTS = {
        **settings.CLIENTS,
        "embedder": {
            "BACKEND": "clients.embedding.BgeM3Embedder",
            "OPTIONS": {"model": str(checkpoint), "query_patience": 120.0},
            "QUERY_CACHE": {"redis_url": ""},
        },
        "vector_store": {"BACKEND": "clients.vector_store.MilvusVectorStore", "OPTIONS": {"uri": uri}},
    }
    reset_clients()
    yield
    reset_clients()


def test_documents_are_found_by_the_weights_of_the_model_and_judged_by_their_words(checkpoint: Path) -> None:
    for number, body in enumerate(TEXTS):
        indexed(text(f"KEY_{number}", f"{body}\n", title=f"Number {number}"), f"{number}.md")
    own = own_lexical_weights(get_embedder())
    assert own is not None
    asked = own.lexical_query(QUESTION)
    tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(str(checkpoint))
    assert set(asked) == set(tokenizer(QUESTION)["input_ids"]) - set(tokenizer.all_special_ids)

    best = get_vector_store().search_lexical(asked, 1)[0]
    chunk = DocumentChunk.objects.get(document_id=best.document_id)
    assert chunk.text.strip() == TEXTS[2]
    weights = own.lexical_documents([chunk.text])[0]
    score = sum(weight * weights.get(token, 0.0) for token, weight in asked.items())
    assert best.score == pytest.approx(score, abs=1e-4)

    reply = call_tool(LOOKUP_TOOL, {"query": QUESTION}, ToolContext(principal="user:1", channel="api"))
    assert reply.outcome is not None
    assert reply.outcome.degraded == ""
    trace = reply.outcome.trace
    assert trace is not None
    assert trace.has_lexical
    found = next(one for one in trace.candidates if one.document.document_id == best.document_id)
    assert found.lexical_rank == 1
    assert found.lexical == pytest.approx(best.score, abs=1e-5)
    terms = query_terms(QUESTION)
    weighed = query_weights(terms, *term_counts(terms))
    assert found.coverage == pytest.approx(coverage(weighed, unpacked(chunk.terms)))
    assert found.coverage
