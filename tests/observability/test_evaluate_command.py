"""``manage.py evaluate`` over small folders whose every figure is known; nothing here may touch the database."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from observability.evaluation.embedding_cache import FILE_NAME

BACKUP = "alpha backup restore nightly schedule"
CERTIFICATE = "certificate expired renewal steps"
PASSAGES = [
    {"id": "p1", "title": "Backups", "text": BACKUP, "lang": "en", "domain": "ops", "doc": "d1"},
    {"id": "p2", "title": "备份", "text": "每晚备份与恢复的计划 alpha", "lang": "zh", "domain": "ops", "doc": "d1"},
    {"id": "p3", "title": "Certificates", "text": CERTIFICATE, "lang": "en", "domain": "ops", "doc": "d2"},
    {"id": "p4", "title": "Certificates", "text": CERTIFICATE, "lang": "en", "domain": "ops", "doc": "d3"},
    {"id": "p5", "title": "天气", "text": "天气预报与烹饪食谱", "lang": "zh", "domain": "ops"},
]
QUESTIONS = [
    {"id": "q1", "text": BACKUP, "lang": "en", "kind": "faq"},
    {"id": "q2", "text": CERTIFICATE, "lang": "en", "kind": "faq"},
    {"id": "q3", "text": "天气预报与烹饪食谱", "lang": "zh", "kind": "reading"},
]
JUDGEMENTS = "query_id\tpassage_id\tgrade\nq1\tp1\t2\nq1\tp2\t1\nq2\tp3\t2\nq3\tp5\t2\n"


def write_lines(path: Path, records: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")


def evaluate(*arguments: str) -> str:
    out = io.StringIO()
    call_command("evaluate", *arguments, stdout=out)
    return out.getvalue()


def evaluated(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(evaluate(*arguments, "--json", "--store", "memory"))
    return answer


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, settings: Any) -> Path:
    """A DATA_DIR of this test's own."""
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path / "data"


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Five passages, of which two are the same text in two documents."""
    folder = tmp_path / "judged"
    write_lines(folder / "corpus.jsonl", PASSAGES)
    write_lines(folder / "queries.jsonl", QUESTIONS)
    (folder / "qrels.tsv").write_text(JUDGEMENTS, encoding="utf-8")
    return folder


class TestRetrieval:
    def test_figures(self, judged: Path) -> None:
        answer = evaluated("retrieval", str(judged))
        product = answer["systems"][0]
        overall = product["overall"]
        assert (product["name"], overall["count"]) == ("product", 3)
        assert overall["recall_at_1"] == pytest.approx(2 / 3)  # p3 and p4 have the same score: that is no hit
        assert (overall["recall_at_3"], overall["recall_at_10"]) == (1.0, 1.0)
        assert overall["mrr"] == pytest.approx((1 + 0.5 + 1) / 3)
        assert overall["document_recall_at_1"] == pytest.approx(2 / 3)
        assert (overall["twins"], overall["twin_within_10"]) == (1, 1.0)
        assert product["by_language"]["en"]["recall_at_1"] == 0.5
        assert product["by_kind"]["reading"]["ndcg_at_10"] == 1.0
        assert product["by_kind"]["faq"]["mrr"] == 0.75

    def test_equal_scores_cost_gain(self, judged: Path) -> None:
        (judged / "qrels.tsv").write_text("q2\tp3\t2\n", encoding="utf-8")
        overall = evaluated("retrieval", str(judged))["systems"][0]["overall"]
        assert overall["ndcg_at_10"] == pytest.approx(1 / math.log2(3))

    def test_baselines_and_comparisons(self, judged: Path) -> None:
        answer = evaluated("retrieval", str(judged))
        assert [one["name"] for one in answer["systems"]] == ["product", "plain BM25", "dense alone", "rank fusion"]
        assert [one["overall"]["recall_at_1"] for one in answer["systems"]] == pytest.approx([2 / 3] * 4)
        assert [(one["won"], one["lost"]) for one in answer["comparisons"]] == [(0, 0)] * 3

    def test_levels(self, judged: Path) -> None:
        levels = {one["level"]: one for one in evaluated("retrieval", str(judged))["levels"]}
        assert sum(one["count"] for one in levels.values()) == 3
        assert levels["HIGHLY_RELEVANT"]["passage"]["share"] == 1.0

    def test_what_was_measured_is_named(self, judged: Path) -> None:
        answer = evaluated("retrieval", str(judged), "--limit", "2")
        assert answer["data"] == {
            "name": "judged", "documents": 5, "groups": 4, "chunks": 5, "questions": 2, "left_out": 0, "unread": 0
        }  # fmt: skip
        assert answer["embedder"] == {"name": "hashing", "version": "1", "dimension": 1024}
        assert answer["fit"]["fitted_on"]
        assert answer["command"] == "retrieval"

    def test_some_questions_are_spread_over_all(self, judged: Path) -> None:
        kinds = evaluated("retrieval", str(judged), "--limit", "1")["systems"][0]["by_kind"]
        assert list(kinds) == ["faq"]
        write_lines(judged / "queries.jsonl", [*QUESTIONS, {"id": "q4", "text": "alpha", "kind": "last"}])
        (judged / "qrels.tsv").write_text(JUDGEMENTS + "q4\tp1\t2\n", encoding="utf-8")
        kinds = evaluated("retrieval", str(judged), "--limit", "2")["systems"][0]["by_kind"]
        assert list(kinds) == ["faq", "reading"]

    def test_tables_over_a_real_store(self, judged: Path, data_dir: Path) -> None:
        text = evaluate("retrieval", str(judged))
        assert "judged: 5 documents, 5 chunks, 3 questions" in text
        assert re.search(r"^  product +3 +0\.667 +1\.000 +1\.000 +0\.833 ", text, re.MULTILINE)
        assert "store: milvus" in text
        assert (data_dir / "evaluation" / FILE_NAME).exists()
        assert not list(data_dir.glob("*.db"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Documents of which one has an identifier and one an everyday word as its keyword."""
    folder = tmp_path / "tree"
    documents = {
        "ops/timeout.md": "---\nkeywords: [ERR_TIMEOUT_42]\n---\n# Out\n\nRestart  the `payment-worker` **now**.\n",
        "ops/logs.md": "---\nkeywords: [日志]\n---\n# 归档\n\n每周归档一次。\n",
        "ops/disk.md": "# 磁盘\n\n生产环境的磁盘空间不足导致日志写不进去时，运行 df -h 查看。\n",
    }
    for name, text in documents.items():
        path = folder / "knowledge_base" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_lines(
        folder / "questions.jsonl",
        [
            {
                "question": "what is ERR_TIMEOUT_42",
                "lang": "en",
                "documents": ["ops/timeout.md"],
                "key_facts": [{"text": "restart the payment-worker NOW", "in_documents": ["ops/timeout.md"]}],
            },
            {
                "question": "生产环境的磁盘空间不足导致日志写不进去怎么处理",
                "lang": "zh",
                "documents": ["ops/disk.md"],
                "key_facts": [
                    {"text": "df -h", "in_documents": ["ops/disk.md"]},
                    {"text": "不在任何文档里", "in_documents": ["ops/disk.md"]},
                ],
            },
            {"question": "quokka zebra xylophone", "documents": []},
        ],
    )
    write_lines(tmp_path / "near.jsonl", [{"question": "what is ERR_TIMEOUT_42", "remove": ["ops/timeout.md"]}])
    return folder


class TestLevels:
    def test_figures(self, tree: Path) -> None:
        answer = evaluated("levels", str(tree), "--questions", str(tree.parent / "near.jsonl"))
        precise, answerable = answer["precise"], answer["answerable"]
        assert (precise["wrong"]["hits"], precise["wrong"]["of"]) == (0, 1)
        assert (precise["literal_wrong"]["hits"], precise["literal_wrong"]["of"]) == (1, 2)
        assert (precise["kept"]["hits"], precise["kept"]["of"]) == (1, 1)
        assert (answerable["found"]["hits"], answerable["found"]["of"]) == (2, 2)
        assert answerable["document_at_1"]["share"] == answerable["document_within_3"]["share"] == 1.0
        assert (answerable["facts"]["hits"], answerable["facts"]["of"]) == (2, 3)
        assert answer["by_language"]["en"]["facts"]["share"] == 1.0

    def test_levels_are_of_answerable_questions(self, tree: Path) -> None:
        levels = {one["level"]: one for one in evaluated("levels", str(tree))["levels"]}
        assert sum(one["count"] for one in levels.values()) == 2
        assert levels["PRECISE"]["document"]["share"] == 1.0
        assert levels["PRECISE"]["passage"] is None  # whole documents
        rest = [one for one in levels.values() if one["level"] != "PRECISE" and one["count"]]
        assert [(one["document"]["hits"], one["any_document"]["hits"]) for one in rest] == [(0, 1)]

    def test_questions_without_an_answer(self, tree: Path) -> None:
        answer = evaluated("levels", str(tree), "--questions", str(tree.parent / "near.jsonl"))
        kinds = {one["kind"]: one for one in answer["no_answer"]}
        assert set(kinds) == {"near miss", "no answer", "shipped far", "shipped near"}
        assert kinds["near miss"]["found"] == {**kinds["no answer"]["found"], "hits": 0, "of": 1}
        assert kinds["shipped far"]["levels"]["PRECISE"] == 0
        assert sum(kinds["shipped far"]["levels"].values()) == kinds["shipped far"]["found"]["of"]

    def test_judged_folder_and_tables(self, judged: Path) -> None:
        text = evaluate("levels", str(judged), "--store", "memory")
        assert "P(right | level)" in text
        assert "right document within 3" in text


class TestFaults:
    def test_fault_of_the_data_is_one_line(self, judged: Path) -> None:
        (judged / "qrels.tsv").write_text("q1\tp9\t2\n", encoding="utf-8")
        with pytest.raises(CommandError, match=r"qrels\.tsv, line 1") as fault:
            evaluate("retrieval", str(judged))
        assert (fault.value.returncode, "\n" in str(fault.value)) == (1, False)

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [(["--embedder", "word2vec"], "word2vec"), (["--limit", "0"], "--limit")],
    )
    def test_bad_option(self, judged: Path, arguments: list[str], problem: str) -> None:
        with pytest.raises(CommandError, match=problem):
            evaluate("retrieval", str(judged), *arguments)

    def test_no_such_folder(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="not a folder"):
            evaluate("levels", str(tmp_path / "none"))

    def test_stopped_by_hand(self, judged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("observability.management.commands.evaluate.evaluate_retrieval", stop)
        with pytest.raises(CommandError, match="goes on from there"):
            evaluate("retrieval", str(judged), "--store", "memory")


@pytest.mark.parametrize("arguments", [["--help"], ["retrieval", "--help"], ["levels", "--help"]])
def test_the_help_says_where_the_lines_of_the_files_are_shown(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        call_command("evaluate", *arguments)
    said = " ".join(capsys.readouterr().out.split())
    assert 'docs/levels.md, "Your own questions"' in said
    if arguments[0] != "retrieval":
        for fields in ('{"question", "documents", "key_facts"}', '{"question", "remove"}'):
            assert fields in said
