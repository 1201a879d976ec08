"""The fast index and the literal reading of the rules agree, whatever is put, replaced, removed and asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from retrieval.keyword_index import KeywordEntry, KeywordIndex
from retrieval.normalise import normalise
from tests.retrieval import literal_keyword_rules as literal

# Few letters, so that keywords meet in queries; every kind of edge that the rules name.
PIECES = [
    "a", "b", "A", "AB", "e", "1", "10", "_", "-", ".", ":", "=", "/", " ", "  ", "\t", "\u3000",
    "支", "付", "支付", "か", "ー", "・", "カ", "ｶ", "한", "글", "々", "〇", "。", "，", "：",
    "Ａ", "１", "＿", "－", "．", "é", "e\u0301", "ß", "İ", "ǰ", "я", "ा", "क", "٣", "①", "²", "…", "'", "\ufe0f",
]  # fmt: skip
TEXT = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
ASCII_TEXT = st.text(alphabet="abAB1_-.:=/ ", max_size=8)
WORDS = ["ab", "a_b", "a-b", "A.b", "ab=1", "1", "支付", "支付ab", "b:1", "/a/b", "AB", "a"]
WORDY = st.lists(st.sampled_from([*WORDS, " ", "-", ".", ":", "。", "b", "_"]), max_size=5).map("".join)
STRING = st.one_of(TEXT, ASCII_TEXT, WORDY)
KEYWORDS = st.lists(st.one_of(st.sampled_from(WORDS), STRING), max_size=5).map(tuple)
PUT = st.tuples(st.just("put"), st.integers(0, 7), KEYWORDS)
REMOVE = st.tuples(st.just("remove"), st.integers(0, 7), st.just(()))
Step = tuple[str, int, tuple[str, ...]]
RELAXED = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def entry(document_id: int, keywords: tuple[str, ...]) -> KeywordEntry:
    return KeywordEntry(document_id, f"knowledge_base/{document_id}.md", f"T{document_id}", keywords, "", "c")


def apply(steps: Iterable[Step]) -> tuple[KeywordIndex, dict[int, KeywordEntry]]:
    index, model = KeywordIndex(), dict[int, KeywordEntry]()
    for action, document_id, keywords in steps:
        if action == "put":
            model[document_id] = entry(document_id, keywords)
            index.put(model[document_id])
        else:
            model.pop(document_id, None)
            index.remove(document_id)
    return index, model


def row_check(living: frozenset[int]) -> Callable[[Sequence[int]], list[int]]:
    return lambda ids: [number for number in ids if number in living]


def answers(index: KeywordIndex, query: str, living: frozenset[int] | None) -> list[tuple[int, tuple[str, ...]]]:
    live = None if living is None else row_check(living)
    return [(match.entry.document_id, match.keywords) for match in index.match(query, live)]


@RELAXED
@given(
    steps=st.lists(st.one_of(PUT, PUT, PUT, REMOVE), max_size=12),
    queries=st.lists(STRING, min_size=1, max_size=5),
    living=st.one_of(st.none(), st.frozensets(st.integers(0, 7))),
    data=st.data(),
)
@example([("put", 0, ("R01",)), ("put", 1, ("R01-B",))], ["r01-b"], frozenset({0}), None)
@example([("put", 0, ("ab",)), ("put", 1, ("ab=1",))], ["ab=1", "1=ab=1"], frozenset({0, 1}), None)
@example([("put", 0, ("AB",)), ("put", 1, ("ab",))], ["ab-1"], None, None)
def test_the_index_answers_as_the_rules_read(
    steps: list[Step], queries: list[str], living: frozenset[int] | None, data: st.DataObject | None
) -> None:
    index, model = apply(steps)
    keywords = sorted({keyword for one in model.values() for keyword in one.keywords})
    asked = list(queries)
    if data is not None and keywords:  # queries made of keywords, so that most of them find something
        around = data.draw(st.lists(st.one_of(st.sampled_from(keywords), st.sampled_from(PIECES)), max_size=5))
        cut = data.draw(st.sampled_from(keywords))
        begin, end = data.draw(st.integers(0, len(cut))), data.draw(st.integers(0, len(cut)))
        asked += ["".join(around), cut[min(begin, end) : max(begin, end)], *keywords]
    for query in asked:
        live = None if living is None else row_check(living)
        assert answers(index, query, living) == literal.match(model.values(), query, live), query
    assert len(index) == sum(any(normalise(keyword) for keyword in one.keywords) for one in model.values())


@RELAXED
@given(steps=st.lists(st.one_of(PUT, PUT, REMOVE), max_size=12), query=STRING, living=st.frozensets(st.integers(0, 7)))
def test_a_lazy_answer_is_the_beginning_of_the_whole_one(steps: list[Step], query: str, living: frozenset[int]) -> None:
    index, _ = apply(steps)
    whole = index.match(query, row_check(living))
    found = index.find(query, row_check(living), wanted=2)
    assert found.matches == whole[: len(found.matches)]
    assert len(found.matches) >= min(2, len(whole))
    while found.more(1):
        pass
    assert found.matches == whole
    assert found.total == len(whole)


@RELAXED
@given(steps=st.lists(st.one_of(PUT, PUT, REMOVE), max_size=12))
def test_an_index_emptied_document_by_document_keeps_nothing(steps: list[Step]) -> None:
    index, model = apply(steps)
    for document_id in list(model):
        index.remove(document_id)
    assert len(index) == 0
    assert index.keyword_count == 0
    table = index._table
    assert (table._by_text, table._starts, table._fragments) == ({}, {}, {})
    assert not any(posting is not None for posting in table.documents)


@given(text=STRING)
def test_normalising_is_what_the_rules_say_and_does_nothing_twice(text: str) -> None:
    assert normalise(text) == literal.normal(text)
    assert normalise(normalise(text)) == normalise(text)
