"""What every embedder promises, each promise once; the test modules run all of them on each implementation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from clients.interfaces import Embedder

TEXTS = [
    "The payment gateway answers with a time-out when the bank is slow.",
    "证书到期前三十天，系统会提醒管理员更新。",
    "Restart the worker after the queue has been emptied.",
    "磁盘写满之后数据库只能读取。",
]
AWKWARD = ["", " \n\t", "!?。…", "\x00", "\ud800", "🙂", "a", "\ufdfa" * 20, "字" * 200, "x" * 200]


def _assert_unit_rows(rows: np.ndarray, count: int, dimension: int) -> None:
    assert rows.shape == (count, dimension)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def says_what_it_is_and_where_its_levels_begin(embedder: Embedder) -> None:
    assert embedder.name
    assert embedder.version
    assert embedder.dimension > 0
    assert 0.0 < embedder.fit.reference < embedder.fit.highly_relevant <= 1.0
    assert embedder.fit.fitted_on
    assert embedder.fit.date


def gives_one_unit_row_for_each_text_in_order(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS)
    _assert_unit_rows(together, len(TEXTS), embedder.dimension)
    alone = np.concatenate([embedder.embed_documents([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert not np.allclose(together[0], together[1])


def gives_no_row_for_no_text(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)


def gives_a_unit_vector_for_every_awkward_text(embedder: Embedder) -> None:
    _assert_unit_rows(embedder.embed_documents(AWKWARD), len(AWKWARD), embedder.dimension)
    for text in AWKWARD[:6]:
        _assert_unit_rows(embedder.embed_query(text)[np.newaxis], 1, embedder.dimension)


def reads_past_a_nul_and_a_lone_surrogate(embedder: Embedder) -> None:
    broken = embedder.embed_documents(["certificate\x00 expires \ud83dtomorrow"])
    np.testing.assert_allclose(broken, embedder.embed_documents(["certificate expires tomorrow"]), atol=1e-6)


def gives_the_same_numbers_again(embedder: Embedder) -> None:
    np.testing.assert_array_equal(embedder.embed_documents(TEXTS), embedder.embed_documents(TEXTS))
    np.testing.assert_array_equal(embedder.embed_query(TEXTS[0]), embedder.embed_query(TEXTS[0]))


def puts_a_question_nearest_to_the_passage_with_its_words(embedder: Embedder) -> None:
    documents = embedder.embed_documents(TEXTS)
    for number, question in enumerate(
        ["payment gateway time-out bank", "证书到期前系统会提醒吗", "restart the worker queue", "磁盘写满 数据库"]
    ):
        query = embedder.embed_query(question)
        assert int(np.argmax(documents @ query)) == number
        assert int(np.argmax(embedder.level_cosines(query, documents))) == number


def gives_one_level_cosine_for_each_document(embedder: Embedder) -> None:
    query = embedder.embed_query(TEXTS[0])
    cosines = embedder.level_cosines(query, embedder.embed_documents(TEXTS))
    assert cosines.shape == (len(TEXTS),)
    assert ((cosines >= -1.0) & (cosines <= 1.0)).all()
    assert embedder.level_cosines(query, embedder.embed_documents([])).shape == (0,)


def serves_several_threads_at_once(embedder: Embedder) -> None:
    expected = embedder.embed_documents(TEXTS)
    with ThreadPoolExecutor(max_workers=4) as threads:
        for rows in threads.map(lambda _: embedder.embed_documents(TEXTS), range(8)):
            np.testing.assert_array_equal(rows, expected)


PROMISES: list[Callable[[Embedder], None]] = [
    says_what_it_is_and_where_its_levels_begin,
    gives_one_unit_row_for_each_text_in_order,
    gives_no_row_for_no_text,
    gives_a_unit_vector_for_every_awkward_text,
    reads_past_a_nul_and_a_lone_surrogate,
    gives_the_same_numbers_again,
    puts_a_question_nearest_to_the_passage_with_its_words,
    gives_one_level_cosine_for_each_document,
    serves_several_threads_at_once,
]
