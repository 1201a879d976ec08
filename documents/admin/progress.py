"""The figures above the document list: how far the vectors are, and how far the model is."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from clients.registry import get_llm
from documents import services
from documents.worker import get_worker


def progress() -> dict[str, Any]:
    """Where the vectors stand: documents by state, and the chunks of those in work; and the model's part."""
    now = get_worker().progress()
    waiting = now.waiting + now.indexing
    return {
        "total": waiting + now.indexed + now.failed,
        "indexed": now.indexed,
        "failed": now.failed,
        "waiting": waiting,
        "current": [
            _("%(path)s: chunk %(done)d of %(total)d")
            % {"path": one.file_path, "done": one.done, "total": one.total or one.done}
            for one in now.current
        ],
        "model": model_progress(),
    }


def model_progress() -> dict[str, Any]:
    """Documents that the model has read, those to come, those it failed on, and documents with drafts to decide."""
    now = services.enrichment_progress()
    # Without a model nothing comes by itself: a page that waited for it would wait for ever.
    busy = now.waiting + now.running if get_llm().configured else 0
    return {
        "total": busy + now.done + now.failed,
        "written": now.done,
        "waiting": busy,
        "failed": now.failed,
        "drafts": now.drafts,
        "trouble": now.trouble,
    }
