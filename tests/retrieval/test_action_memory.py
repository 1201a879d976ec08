from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from clients.session_memory import InProcessSessionMemory
from retrieval.action_memory import HeldDocument, MemoryScope, RetrievedDocTracker, is_valid_scope

SESSION = MemoryScope("user:1", "session-1").key


@pytest.fixture
def tracker() -> RetrievedDocTracker:
    return RetrievedDocTracker(InProcessSessionMemory(ttl=60))


def test_marking_remembers_the_document_and_its_domain(tracker: RetrievedDocTracker) -> None:
    assert tracker.mark_retrieved(SESSION, "api", "knowledge_base/api/a.md") is True
    assert tracker.is_doc_retrieved(SESSION, "knowledge_base/api/a.md")
    assert tracker.is_domain_retrieved(SESSION, "api")
    assert not tracker.is_doc_retrieved(SESSION, "knowledge_base/api/b.md")
    assert not tracker.is_domain_retrieved(SESSION, "payment")


def test_marking_again_says_that_it_was_not_new(tracker: RetrievedDocTracker) -> None:
    tracker.mark_retrieved(SESSION, "api", "knowledge_base/api/a.md")
    assert tracker.mark_retrieved(SESSION, "api", "knowledge_base/api/a.md") is False
    assert tracker.mark_retrieved(SESSION, "api", "knowledge_base/api/b.md") is True


def test_domains_come_in_the_order_of_their_first_retrieval(tracker: RetrievedDocTracker) -> None:
    for domain, path in [("payment", "1"), ("api", "2"), ("payment", "3"), ("infrastructure", "4")]:
        tracker.mark_retrieved(SESSION, domain, path)
    assert tracker.get_retrieved_domains(SESSION) == ["payment", "api", "infrastructure"]


def test_nothing_is_remembered_of_a_session_that_never_was(tracker: RetrievedDocTracker) -> None:
    assert tracker.get_retrieved_domains(SESSION) == []
    assert tracker.held_documents(SESSION) == []
    assert tracker.marks(SESSION) == frozenset()


def test_held_documents_bear_the_title_that_they_last_had(tracker: RetrievedDocTracker) -> None:
    tracker.mark_retrieved(SESSION, "api", "a.md", title="Old title")
    tracker.mark_retrieved(SESSION, "api", "b.md", title="With\ta tab")
    tracker.mark_retrieved(SESSION, "api", "a.md", title="New title")
    assert tracker.held_documents(SESSION) == [
        HeldDocument("api", "a.md", "New title"),
        HeldDocument("api", "b.md", "With\ta tab"),
    ]


def test_clearing_a_session_forgets_documents_domains_marks_and_counters(tracker: RetrievedDocTracker) -> None:
    tracker.mark_retrieved(SESSION, "api", "a.md")
    tracker.claim(SESSION, unless=[], marks=["p"])
    tracker.count_lookup(SESSION)
    tracker.count_repeat(SESSION)
    tracker.clear_session(SESSION)
    assert tracker.get_retrieved_domains(SESSION) == []
    assert not tracker.is_doc_retrieved(SESSION, "a.md")
    assert tracker.marks(SESSION) == frozenset()
    assert tracker.count_lookup(SESSION) == 1
    assert tracker.count_repeat(SESSION) == 1


def test_sessions_do_not_meet(tracker: RetrievedDocTracker) -> None:
    other = MemoryScope("user:1", "session-2").key
    tracker.mark_retrieved(SESSION, "api", "a.md")
    tracker.clear_session(other)
    assert tracker.get_retrieved_domains(other) == []
    assert tracker.is_doc_retrieved(SESSION, "a.md")


def test_of_parallel_marks_of_one_document_exactly_one_is_new(tracker: RetrievedDocTracker) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: tracker.mark_retrieved(SESSION, "api", "a.md"), range(200)))
    assert answers.count(True) == 1


def test_of_parallel_claims_of_one_part_exactly_one_succeeds(tracker: RetrievedDocTracker) -> None:
    def claim(_: int) -> bool:
        return tracker.claim(SESSION, unless=[frozenset({"opening"})], marks=["opening", "section"])

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(claim, range(200)))
    assert answers.count(True) == 1


def test_a_released_claim_can_be_made_again(tracker: RetrievedDocTracker) -> None:
    unless = [frozenset({"a"})]
    assert tracker.claim(SESSION, unless=unless, marks=["a"])
    assert not tracker.claim(SESSION, unless=unless, marks=["a"])
    tracker.release(SESSION, ["a"])
    assert tracker.claim(SESSION, unless=unless, marks=["a"])


def test_different_principals_have_different_keys_whatever_scope_they_name() -> None:
    keys = {
        MemoryScope(principal, scope).key
        for principal, scope in [
            ("user:1", "s"),
            ("user:2", "s"),
            ("key:1", "s"),
            ("user:1", "1:s"),
            ("user:1:1", "s"),
            ("user:11", "s"),
            ("user", "1:s"),
        ]
    }
    assert len(keys) == 7


@pytest.mark.parametrize("scope", ["a", "A-z_0.9:b", "x" * 128, "3f2b8c1e-0000-4000-8000-000000000000"])
def test_a_session_id_of_the_agreed_characters_is_taken(scope: str) -> None:
    assert is_valid_scope(scope)
    assert MemoryScope("user:1", scope).key.endswith(scope)


@pytest.mark.parametrize("scope", ["", "x" * 129, "a b", "a\n", "会话", 's" or session_id != "', "a/b", "a\x00"])
def test_any_other_session_id_is_refused(scope: str) -> None:
    assert not is_valid_scope(scope)
    with pytest.raises(ValueError, match="session id"):
        MemoryScope("user:1", scope)


def test_a_scope_without_a_principal_is_refused() -> None:
    with pytest.raises(ValueError, match="principal"):
        MemoryScope("", "s")
