"""The sample knowledge base: copied on a first start, never over a user's own files (DOC-8)."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.conf import settings

from documents.models import ApiDocument


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(path.is_file() for path in folder.rglob("*"))


def copy_sample() -> int:
    """Copy the sample into the knowledge base folder and say how many files that were.

    Nothing is copied, and 0 answered, where ``KNOWLEDGE_BASE_PATH`` is set, the folder holds any file, or any document
    has a row.
    """
    target: Path = settings.KNOWLEDGE_BASE_PATH
    if settings.KNOWLEDGE_BASE_PATH_IS_SET or _holds_files(target) or ApiDocument.objects.exists():
        return 0
    shutil.copytree(settings.SAMPLE_KNOWLEDGE_BASE, target, dirs_exist_ok=True)
    return sum(1 for path in target.rglob("*.md"))
