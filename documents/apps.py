from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DocumentsConfig(AppConfig):
    name = "documents"
    verbose_name = _("Documents")

    def ready(self) -> None:
        """Lookups of ours, and what is repeated after a deadlock, before the first query."""
        from documents.lookups import register
        from documents.transactions import repeat_single_statements

        register()
        repeat_single_statements()
