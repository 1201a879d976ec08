"""``manage.py evaluate``: how good the lookups are, measured on questions with known answers."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents.tools import retrieval_settings
from clients.interfaces import ClientError
from observability.evaluation.data import EvaluationData, EvaluationError, Question
from observability.evaluation.embedders import embedder_named
from observability.evaluation.embedding_cache import CachedEmbedder
from observability.evaluation.judged_data import read_judged
from observability.evaluation.levels_run import evaluate_levels
from observability.evaluation.reports import Measured, levels_tables, measured, retrieval_tables
from observability.evaluation.retrieval_run import evaluate_retrieval
from observability.evaluation.site import EvaluationSite
from observability.evaluation.tree_data import read_for_levels, shipped_unanswerable

FOLDER = "evaluation"
"""Below DATA_DIR: where vectors are kept."""
_JUDGED = "corpus.jsonl, queries.jsonl and qrels.tsv (or queries.*.jsonl, qrels.*.tsv)"
_LINES = '{"question", "documents", "key_facts"} or, for a near miss, {"question", "remove"}'
_MANUAL = 'docs/levels.md, "Your own questions", shows the lines of each file.'


class Command(BaseCommand):
    """Loads the folder into a store of its own: the site at hand is not touched, and may be running."""

    help = "Measure retrieval and relevance levels on a folder of documents and questions with known answers."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.epilog = (
            f"DIR is a folder with {_JUDGED}; for levels also one with knowledge_base/ and questions*.jsonl, whose "
            f"lines are {_LINES}. {_MANUAL}"
        )
        what = parser.add_subparsers(dest="what", required=True, metavar="retrieval | levels")
        retrieval = what.add_parser(
            "retrieval", help="recall, MRR, nDCG, by language, kind and level; and baselines", epilog=_MANUAL
        )
        _add_common(retrieval, f"a folder with {_JUDGED}")
        retrieval.add_argument("--limit", type=int, metavar="N", help="ask N questions only, spread over all")
        levels = what.add_parser(
            "levels", help="what each level is worth; false PRECISE; questions without an answer", epilog=_MANUAL
        )
        _add_common(levels, "a folder with corpus.jsonl and so on, or with knowledge_base/ and questions*.jsonl")
        levels.add_argument(
            "--questions",
            nargs="+",
            action="extend",
            default=[],
            metavar="FILE",
            help=f"more questions, JSON lines: {_LINES}",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder = Path(options["folder"])
        # What goes wrong is one line: the data's faults name file and line, a part's fault has its remedy.
        try:
            if not folder.is_dir():
                raise EvaluationError(f"{folder} is not a folder.")
            if options["what"] == "retrieval":
                about, result, tables = self._retrieval(folder, options)
            else:
                about, result, tables = self._levels(folder, options)
        except EvaluationError as fault:
            raise CommandError(str(fault)) from fault
        except ClientError as fault:
            raise CommandError(f"{fault} {fault.hint}".strip()) from fault
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was embedded is kept; the next run goes on from there.") from None
        if options["json"]:
            self.stdout.write(json.dumps({**about.as_dict(), **result}, ensure_ascii=False))
        else:
            self.stdout.write(f"{about.head()}\n\n{tables}")

    def _retrieval(self, folder: Path, options: dict[str, Any]) -> tuple[Measured, dict[str, Any], str]:
        data = read_judged(folder)
        if options["limit"] is not None:
            data = replace(data, questions=_some(data.questions, options["limit"]))
        with _loaded(data, options) as site:
            result = evaluate_retrieval(site, data, progress=sys.stderr)
            return measured("retrieval", site, data), asdict(result), retrieval_tables(result)

    def _levels(self, folder: Path, options: dict[str, Any]) -> tuple[Measured, dict[str, Any], str]:
        data = read_for_levels(folder, [Path(name) for name in options["questions"]])
        with _loaded(data, options) as site:
            result = evaluate_levels(site, data, shipped_unanswerable(), progress=sys.stderr)
            return measured("levels", site, data), asdict(result), levels_tables(result)


def _add_common(parser: ArgumentParser, folder: str) -> None:
    parser.add_argument("folder", metavar="DIR", help=folder)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--embedder", default="", metavar="NAME", help="another embedder than the site's")
    parser.add_argument(
        "--store", choices=("milvus", "memory"), default="milvus", help="where the vectors lie meanwhile"
    )


def _some(questions: Sequence[Question], limit: int) -> tuple[Question, ...]:
    """So many of them at even distances: files begin with one kind, and end with another."""
    if limit < 1:
        raise EvaluationError("--limit must be 1 or more.")
    count = min(limit, len(questions))
    return tuple(questions[place * len(questions) // count] for place in range(count))


@contextmanager
def _loaded(data: EvaluationData, options: dict[str, Any]) -> Iterator[EvaluationSite]:
    """The site with this data, and the vectors kept for the next time."""
    embedder = CachedEmbedder(embedder_named(options["embedder"]), settings.DATA_DIR / FOLDER, progress=sys.stderr)
    with closing(embedder):
        site = EvaluationSite(
            data.documents, embedder, settings=retrieval_settings(), store=options["store"], progress=sys.stderr
        )
        with site:
            yield site
