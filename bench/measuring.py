"""What the benchmarks of retrieval share: Django set up, the default embedder with kept vectors, a loaded site."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from observability.evaluation.data import EvaluationData
    from observability.evaluation.embedding_cache import CachedEmbedder
    from observability.evaluation.site import EvaluationSite


def set_up_django() -> None:
    """Before anything of the product that reads settings is imported."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbsite.settings")
    django.setup()


@contextmanager
def embedder() -> Iterator[CachedEmbedder]:
    """The site's embedder; what it made before is read from DATA_DIR/evaluation."""
    from django.conf import settings

    from observability.evaluation.embedders import embedder_named
    from observability.evaluation.embedding_cache import CachedEmbedder

    with closing(CachedEmbedder(embedder_named(), settings.DATA_DIR / "evaluation", progress=sys.stderr)) as made:
        yield made


@contextmanager
def loaded(data: EvaluationData, made: CachedEmbedder) -> Iterator[EvaluationSite]:
    """The documents in a store of their own, looked up with the product's default settings."""
    from observability.evaluation.site import EvaluationSite

    with EvaluationSite(data.documents, made, progress=sys.stderr) as site:
        yield site


def figures_of(site: EvaluationSite, data: EvaluationData) -> str:
    """The heading: which data, how much of it, which embedder."""
    sizes = f"{len(data.documents):,} documents, {site.source.chunk_count:,} chunks, {len(data.questions):,} questions"
    return f"{data.name}: {sizes}; {site.embedder.name} {site.embedder.version}"
