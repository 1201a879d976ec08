"""What each level is worth on real runbooks with the default embedder, each figure beside its goal.

    python -m bench.levels [DATA]      (default ../shared/data)

Runbooks with the agent questions; questions without an answer (far off, near misses with their documents removed);
false PRECISE over runbooks and codes together; how long a lookup by meaning takes. `manage.py evaluate levels` prints
more. The first run embeds 5,229 chunks, some fifteen minutes of both cores; vectors are kept under DATA_DIR/evaluation.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measuring import embedder, figures_of, loaded, set_up_django
from bench.report import Report, percentile
from bench.site_process import ROOT

if TYPE_CHECKING:
    from observability.evaluation.data import EvaluationData, Question
    from observability.evaluation.embedding_cache import CachedEmbedder
    from observability.evaluation.intervals import Share
    from observability.evaluation.site import EvaluationSite

DATA = ROOT.parent / "shared" / "data"
NEAR_MISSES = Path(__file__).resolve().parent / "data" / "near_misses.jsonl"


def main() -> int:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    if not (data / "runbooks").is_dir():
        print(f"bench.levels needs {data}, which is not here: nothing measured")
        return 0
    set_up_django()
    with embedder() as made:
        runbooks = _runbooks(data)
        with loaded(runbooks, made) as site:
            report = Report(figures_of(site, runbooks))
            report.begin()
            _levels(site, runbooks, report)
            _speed(site, runbooks.questions, report)
        _false_precise(data, made, report)
    return report.code()


def _runbooks(data: Path) -> EvaluationData:
    from observability.evaluation.tree_data import read_tree, with_questions

    runbooks = read_tree(data / "runbooks" / "knowledge_base", name="runbooks")
    questions = sorted((data / "agent_questions").glob("questions*.jsonl"))
    return with_questions(runbooks, [*questions, *sorted((data / "retrieval").glob("queries*.jsonl")), NEAR_MISSES])


def _levels(site: EvaluationSite, runbooks: EvaluationData, report: Report) -> None:
    from observability.evaluation.levels_run import evaluate_levels
    from observability.evaluation.tree_data import shipped_unanswerable

    result = evaluate_levels(site, runbooks, shipped_unanswerable(), progress=sys.stderr)
    answerable = result.answerable
    report.at_least(_of("right document at 1", answerable.document_at_1), _value(answerable.document_at_1), 0.92)
    report.at_least(_of("… within 3", answerable.document_within_3), _value(answerable.document_within_3), 0.97)
    report.at_least(_of("key facts in one lookup's text", answerable.facts), _value(answerable.facts), 0.85)
    report.at_least(_of("questions with documents that find some", answerable.found), _value(answerable.found), 0.95)
    for level in result.levels:
        report.figure(_of(f"{level.level}: first document right", level.document), _value(level.document))
    for kind in result.no_answer:
        silent = 1 - _value(kind.found)
        name = _of(f"no answer, {kind.kind}: silent", kind.found)
        if kind.kind == "reading":
            report.at_least(name, silent, 0.95)
        else:
            report.figure(name, silent)
        report.figure(f"  … called {', '.join(f'{level} {count}' for level, count in kind.levels.items())}", "")


def _speed(site: EvaluationSite, questions: Sequence[Question], report: Report) -> None:
    """Each question once, as nobody asked it before: the embedder itself works, no vector is kept for it."""
    from observability.evaluation.embedders import embedder_named

    asked = [question for question in questions if not question.hidden][:150]
    kept, site.embedder = site.embedder, embedder_named()
    try:
        site.look_up(asked[0].text)
        # Another space behind each makes it a question that no vector is kept for.
        alone = [_milliseconds(partial(site.embedder.embed_query, f"{one.text} ")) for one in asked]
        times = [_milliseconds(partial(site.look_up, f"{one.text}  ")) for one in asked]
    finally:
        site.embedder = kept
    report.figure(f"the embedder alone on {len(alone)} questions, p50", percentile(alone, 0.5), "ms")
    report.figure(f"lookup by meaning, p50 of {len(times)}, embedding included", percentile(times, 0.5), "ms")
    report.at_most("… p99", percentile(times, 0.99), 150, "ms")


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def _false_precise(data: Path, made: CachedEmbedder, report: Report) -> None:
    """818 documents with keywords, and every development question there is."""
    from observability.evaluation.levels_run import evaluate_levels

    both = _runbooks_and_codes(data)
    with loaded(both, made) as site:
        result = evaluate_levels(site, both, (), progress=sys.stderr)
    precise = result.precise
    report.at_most(_of("runbooks and codes: false PRECISE", precise.wrong), _value(precise.wrong), 0.02)
    report.figure(_of("… by the literal rule", precise.literal_wrong), _value(precise.literal_wrong))
    report.at_least(_of("… right ones that the check keeps", precise.kept), _value(precise.kept), 0.9)


def _runbooks_and_codes(data: Path) -> EvaluationData:
    from observability.evaluation.tree_data import read_tree, with_questions

    runbooks = read_tree(data / "runbooks" / "knowledge_base", name="runbooks")
    both = runbooks.joined(read_tree(data / "codes" / "docs", name="codes"))
    agent, codes = (data / "agent_questions").glob("questions*.jsonl"), (data / "codes").glob("queries*.jsonl")
    asked = with_questions(both, [*sorted(agent), *sorted(codes)])
    questions = (*_with_code_documents(data, asked.questions), *_passage_questions(data))
    return replace(asked, questions=questions)


def _with_code_documents(data: Path, questions: Sequence[Question]) -> list[Question]:
    """Codes were cut out of the sources of some runbooks: where a question names one, its own document is right too."""
    from observability.evaluation.data import RIGHT

    runbooks = _rows(data / "runbooks" / "index.jsonl")
    sources = {row["path"].removeprefix("knowledge_base/"): row["source_path"] for row in runbooks}
    codes = _rows(data / "codes" / "docs.jsonl")
    found = []
    for one in questions:
        right = {sources[name] for name in one.right if name in sources}
        same_source = (row for row in codes if row["source_path"] in right)
        parts = [row["id"] for row in same_source if any(code in one.text for code in row["codes"])]
        found.append(replace(one, grades={**one.grades, **dict.fromkeys(parts, RIGHT)}))
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _passage_questions(data: Path) -> list[Question]:
    """The judged questions, each right where the runbook that its passage is from has the keyword; else nowhere."""
    from observability.evaluation.data import RIGHT, Question
    from observability.evaluation.judged_data import read_judged

    paths: dict[str, list[str]] = {}
    for row in _rows(data / "runbooks" / "index.jsonl"):
        paths.setdefault(row["source_path"], []).append(row["path"].removeprefix("knowledge_base/"))
    judged = read_judged(data / "retrieval")
    group_of = judged.group_of()
    return [
        Question(
            id=one.id, text=one.text, kind=one.kind, lang=one.lang,
            grades={path: RIGHT for name in one.right for path in paths.get(group_of[name].partition(":")[2], [])},
        )
        for one in judged.questions
    ]  # fmt: skip


def _of(name: str, share: Share) -> str:
    return f"{name}, of {share.of}"


def _value(share: Share) -> float:
    return share.share or 0.0


if __name__ == "__main__":
    raise SystemExit(main())
