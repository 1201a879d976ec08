from __future__ import annotations

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _


class DocumentsConfig(AppConfig):
    name = "documents"
    verbose_name = _("Documents")

    def ready(self) -> None:
        """Lookups of ours, and what is repeated after a deadlock, before the first query; a test's failpoints."""
        from documents.failpoints import arm
        from documents.lookups import register
        from documents.transactions import repeat_single_statements

        arm(Path(settings.FAILPOINTS) if settings.FAILPOINTS else None)
        register()
        repeat_single_statements()
