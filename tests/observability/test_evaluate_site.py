"""The knowledge base that is loaded to be measured, and one question put to it."""

from __future__ import annotations

import pytest

from clients.embedding_hashing import HashingEmbedder
from clients.fakes import InMemoryVectorStore
from clients.interfaces import ClientError
from observability.evaluation.asking import ask, folded
from observability.evaluation.data import RIGHT, EvaluatedDocument, EvaluationError, Fact, Question
from observability.evaluation.site import EvaluationSite
from retrieval.bm25 import query_terms
from retrieval.lookup_types import RetrievalSettings
from tests.retrieval.fakes import OwnWords

BACKUP = "alpha backup restore nightly schedule"
CERTIFICATE = "certificate expired renewal steps"


def document(name: str, body: str, *keywords: str) -> EvaluatedDocument:
    return EvaluatedDocument(name, f"knowledge_base/ops/{name}.md", name, body, "ops", keywords=keywords)


class TestSite:
    DOCUMENTS = (
        document("a", CERTIFICATE, "E-4711"),
        document("b", f"{CERTIFICATE} again", "E-4711"),
        document("c", BACKUP),
    )

    def site(self) -> EvaluationSite:
        return EvaluationSite(self.DOCUMENTS, HashingEmbedder(), store="memory")

    def test_an_embedder_with_lexical_weights_of_its_own_is_measured_by_them(self) -> None:
        embedder = OwnWords({"g": 3.0})
        with EvaluationSite(self.DOCUMENTS, embedder, store="memory") as site:
            ranking = site.find("gnu").ranking  # no word of it is in a document
            assert ranking is not None
            assert dict(ranking.lexical) == {(2, 1, 0): 9.0, (3, 1, 0): 9.0}
            assert ranking.query_weights

    def test_hidden_documents_are_away_for_a_while(self) -> None:
        with self.site() as site:
            before = site.rank(CERTIFICATE).fused
            with site.hide(["a"]):
                assert set(site.rank(CERTIFICATE).fused) == {"b", "c"}
                with site.hide(["c"]):
                    assert set(site.rank(CERTIFICATE).fused) == {"b"}
                assert set(site.rank(CERTIFICATE).fused) == {"b", "c"}
            assert site.rank(CERTIFICATE).fused == before
            assert max(before, key=lambda name: before[name]) == "a"

    def test_match_is_unique_while_the_other_one_is_away(self) -> None:
        with self.site() as site:
            assert site.look_up("E-4711").result.relevance_level != "PRECISE"
            with site.hide(["a"]):
                outcome = site.look_up("E-4711")
            assert outcome.result.relevance_level == "PRECISE"
            assert [site.name_of(one.document_id) for one in outcome.served] == ["b"]

    def test_hidden_documents_leave_the_term_counts(self) -> None:
        with self.site() as site:
            terms = query_terms("certificate backup")
            assert site.source.term_counts(terms) == ({terms[0]: 2, terms[1]: 1}, 3)
            with site.hide(["b", "c"]):
                assert site.source.term_counts(terms) == ({terms[0]: 1}, 1)

    def test_settings_are_the_lookups(self) -> None:
        strict = RetrievalSettings(highly_relevant_threshold=1.0, reference_threshold=0.999)
        with EvaluationSite(self.DOCUMENTS, HashingEmbedder(), settings=strict, store="memory") as site:
            assert not site.look_up("certificate").result.found
            assert site.look_up(CERTIFICATE).result.found

    def test_part_that_fails_ends_the_measurement(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def down(*_: object, **__: object) -> None:
            raise ClientError("no route to the store")

        with self.site() as site:
            monkeypatch.setattr(InMemoryVectorStore, "search", down)
            with pytest.raises(EvaluationError, match="no route to the store"):
                site.look_up(CERTIFICATE)
            with pytest.raises(EvaluationError, match="no route to the store"):
                site.rank(CERTIFICATE)

    def test_fact_of_a_document_served_in_translation(self) -> None:
        fact = Fact("renew it by hand", frozenset({"c"}), twins=frozenset({"a"}))
        question = Question("q", CERTIFICATE, "agent", grades={"c": RIGHT, "a": RIGHT}, facts=(fact,))
        group_of = {name: name for name in "abc"}
        with self.site() as site:
            asked = ask(site, question, group_of)
            assert (asked.facts.all, asked.facts.held, asked.facts.by_meaning) == (1, 0, 1)
            assert asked.document_right
            with site.hide(["a"]):
                assert ask(site, question, group_of).facts.by_meaning == 0


def test_folding() -> None:
    assert folded("Run  `systemctl\\_x`\n**Now**") == "run systemctl_x now"
