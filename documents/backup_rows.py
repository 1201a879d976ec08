"""Rows as lines of JSON that go into any of the databases: which tables a backup holds, one row out, many rows in."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models

_APPS = ("auth", "documents", "agents", "admin")
# Made again from the rest, or a state of the running site rather than of its knowledge.
_LEFT_OUT = {
    "auth.permission", "documents.documentchunk", "documents.termcount", "documents.changecounter",
    "documents.reconcilerun",
}  # fmt: skip
# Django makes these rows itself, under other numbers in every database: they are named, not numbered.
_NAMED = {"auth.permission", "contenttypes.contenttype"}
_AT_A_TIME = 500


def tables() -> list[type[models.Model]]:
    """The tables of a backup, each after those that it points at."""
    found: list[type[models.Model]] = []
    for label in _APPS:
        own = list(apps.get_app_config(label).get_models())
        linking: list[Any] = [field.remote_field.through for model in own for field in model._meta.local_many_to_many]
        found += [model for model in [*own, *linking] if model._meta.label_lower not in _LEFT_OUT]
    return found


def rows_of(model: type[models.Model]) -> Iterator[bytes]:
    """Every row, a line of JSON each, in the order of the primary key; some hundred at a time in memory."""
    fields = list(model._meta.concrete_fields)
    names = dict(_named_rows(fields))
    last: Any = None
    key = [field.attname for field in fields].index(_key_of(model).attname)
    while True:
        rows = model._base_manager.order_by("pk")
        rows = rows if last is None else rows.filter(pk__gt=last)
        batch = list(rows.values_list(*[field.attname for field in fields])[:_AT_A_TIME])
        for row in batch:
            line = {field.attname: _written(field, value, names) for field, value in zip(fields, row, strict=True)}
            yield json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"
        if len(batch) < _AT_A_TIME:
            return
        last = batch[-1][key]


def insert_rows(model: type[models.Model], lines: Iterable[bytes]) -> tuple[int, set[str]]:
    """Put rows of :func:`rows_of` into an empty table as they were, ids and times included.

    Columns that came later get their default. Returns how many rows, and the columns of the backup that this version
    does not have. Raises ``ValueError`` or ``KeyError`` on what is no such row, and ``DatabaseError``.
    """
    fields = list(model._meta.concrete_fields)
    numbers = {tuple(name): pk for (_model, pk), name in _named_rows(fields)}
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    statement = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES ({marks})"  # noqa: S608 (our own names)
    known, unknown, count = {field.attname for field in fields}, set[str](), 0
    with connection.cursor() as cursor:
        for batch in _batches(lines):
            rows = [json.loads(line) for line in batch]
            unknown.update(*[set(row) - known for row in rows])
            cursor.executemany(statement, [_parameters(fields, row, numbers) for row in rows])
            count += len(rows)
    return count, unknown


def _parameters(fields: list[Any], row: dict[str, Any], numbers: dict[tuple[str, ...], Any]) -> list[Any]:
    values = [
        _read(field, row[field.attname], numbers) if field.attname in row else field.get_default() for field in fields
    ]
    return [field.get_db_prep_save(value, connection) for field, value in zip(fields, values, strict=True)]


def _written(field: Any, value: Any, names: dict[Any, Any]) -> Any:
    """A value as JSON has it."""
    target = _target(field)
    if value is None or isinstance(target, models.JSONField):
        return value
    if isinstance(target, models.BinaryField):
        return base64.b64encode(bytes(value)).decode("ascii")
    if _is_named(field):
        return names[field.related_model, value]
    return value if isinstance(value, str | int | float) else _text(value)


def _text(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _read(field: Any, value: Any, numbers: dict[tuple[str, ...], Any]) -> Any:
    target = _target(field)
    if value is None or isinstance(target, models.JSONField):
        return value
    if isinstance(target, models.BinaryField):
        return base64.b64decode(value)
    if _is_named(field):
        return numbers.get(tuple(value))
    return target.to_python(value)


def _named_rows(fields: list[Any]) -> Iterator[tuple[tuple[Any, Any], list[str]]]:
    """``(model, id), name`` of every row that one of ``fields`` may point at by name."""
    for model in {field.related_model for field in fields if _is_named(field)}:
        for row in model._base_manager.all():
            yield (model, row.pk), list(row.natural_key())


def _is_named(field: Any) -> bool:
    return field.is_relation and field.related_model._meta.label_lower in _NAMED


def _target(field: Any) -> Any:
    while field.is_relation:
        field = field.target_field
    return field


def _key_of(model: type[models.Model]) -> Any:
    return model._meta.pk


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _AT_A_TIME:
            yield batch
            batch = []
    if batch:
        yield batch
