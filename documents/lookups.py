"""Search without regard to case where the database's collation is binary (MySQL and MariaDB).

Django's ``icontains`` leaves case to the collation there, and ours tells cases apart, as names need it. A collation
that ignores case would also hold ``café`` and ``cafe``, or all emoji, equal.
"""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, TextField
from django.db.models.lookups import IContains


class CaselessContains(IContains):
    """``icontains``, spelt out for MySQL: both sides in lower case."""

    def as_mysql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """``LOWER(column) LIKE LOWER(pattern)``."""
        column, column_parameters = self.process_lhs(compiler, connection)
        pattern, pattern_parameters = self.process_rhs(compiler, connection)
        return f"LOWER({column}) LIKE LOWER({pattern})", [*column_parameters, *pattern_parameters]


def register() -> None:
    """For every text column; the admin's search boxes use the same lookup."""
    CharField.register_lookup(CaselessContains)
    TextField.register_lookup(CaselessContains)
