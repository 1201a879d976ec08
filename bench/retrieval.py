"""Ranking on judged passages with the default embedder, each figure beside its goal.

    python -m bench.retrieval [FOLDER]      (default ../shared/data/retrieval)

The product's own search over a store of its own (`manage.py evaluate retrieval` prints all figures). The first run
embeds 2,538 passages, some ten minutes of both cores; vectors are kept under DATA_DIR/evaluation.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.measuring import embedder, figures_of, loaded, set_up_django
from bench.report import Report
from bench.site_process import ROOT

FOLDER = ROOT.parent / "shared" / "data" / "retrieval"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not folder.is_dir():
        print(f"bench.retrieval needs {folder}, which is not here: nothing measured")
        return 0
    set_up_django()
    from observability.evaluation.judged_data import read_judged
    from observability.evaluation.retrieval_run import evaluate_retrieval

    data = read_judged(folder)
    with embedder() as made, loaded(data, made) as site:
        result = evaluate_retrieval(site, data, progress=sys.stderr)
        report = Report(figures_of(site, data))
    report.begin()
    product = result.systems[0].overall
    report.at_least("recall@1", product.recall_at_1, 0.755)
    report.at_least("MRR", product.mrr, 0.83)
    report.at_least("document recall@1", product.document_recall_at_1, 0.91)
    report.figure("recall@10", product.recall_at_10)
    report.figure("nDCG@10", product.ndcg_at_10)
    if product.twin_within_10 is not None:
        report.at_least(f"twin in the other language within 10, of {product.twins}", product.twin_within_10, 0.62)
    for system in result.systems[1:]:
        report.figure(f"{system.name}: recall@1", system.overall.recall_at_1)
    goals = {"HIGHLY_RELEVANT": 0.95, "REFERENCE": 0.75}
    for level in result.levels:
        name = f"{level.level}: first document right, of {level.document.of}"
        if level.level in goals and level.document.share is not None:
            report.at_least(name, level.document.share, goals[level.level])
        else:
            report.figure(name, level.document.share or 0.0)
    return report.code()


if __name__ == "__main__":
    raise SystemExit(main())
