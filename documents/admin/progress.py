"""The figures above the document list."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from documents.worker import get_worker


def progress() -> dict[str, Any]:
    """Where the vectors stand: documents by state, and the chunks of those in work."""
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
    }
