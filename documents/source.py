"""The documents app as retrieval sees it: rows, bodies, sections and chunks as plain values (``DocumentSource``)."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import connection

from documents import storage
from documents.content import current_bytes, former_bytes
from documents.counters import DOCUMENTS, read
from documents.errors import DocumentError
from documents.frontmatter import field_value, keywords_from
from documents.models import ApiDocument, DeletedDocument
from documents.reading import body_of
from documents.terms import term_counts, unpacked
from documents.twins import document_at
from retrieval.chunking import Section, split_sections
from retrieval.interfaces import ChunkKey, ChunkText, DocumentState, IndexChanges
from retrieval.keyword_index import KeywordEntry
from retrieval.keyword_sync import SyncedKeywordIndex
from retrieval.text_parts import TextParts, take_apart

log = logging.getLogger("documents.source")
_IDS_AT_A_TIME = 500
_ROWS_AT_A_TIME = 2_000
_CACHED_BODIES = 256
_CACHED_CHARACTERS = 16_000_000
_DELETING = ApiDocument.Status.DELETING.value
_STATE_COLUMNS = (
    "id, file_path, title, category, revision, content_hash, indexed_revision, indexed_hash, status, enabled, "
    "published_revision, missing_since, in_cjk"
)
_PLACE_FIELDS = ("id", "file_path", "revision", "published_revision", "content_hash", "status")
_PLACE_COLUMNS = ", ".join(_PLACE_FIELDS)
_ENTRY_COLUMNS = (
    "pk", "file_path", "title", "category", "metadata", "status", "enabled", "published_revision", "missing_since"
)  # fmt: skip
_CHUNK_COLUMNS = ("document_id", "revision", "number", "section", "heading_path", "start", "end", "text", "terms")


@dataclass(frozen=True)
class _Body:
    text: str
    sections: tuple[Section, ...]

    @cached_property
    def parts(self) -> TextParts:
        """Taken apart when a lookup first shows a choice of it."""
        return take_apart(self.text)


class _BodyCache:
    """The bodies that lookups read last, by document, revision and the file's stamp; bounded in number and size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bodies: OrderedDict[tuple[Any, ...], _Body] = OrderedDict()
        self._characters = 0

    def get(self, key: tuple[Any, ...]) -> _Body | None:
        with self._lock:
            body = self._bodies.get(key)
            if body is not None:
                self._bodies.move_to_end(key)
            return body

    def put(self, key: tuple[Any, ...], body: _Body) -> None:
        with self._lock:
            if key in self._bodies:
                return
            self._bodies[key] = body
            self._characters += len(body.text)
            while len(self._bodies) > _CACHED_BODIES or self._characters > _CACHED_CHARACTERS:
                _key, oldest = self._bodies.popitem(last=False)
                self._characters -= len(oldest.text)


class DjangoDocumentSource:
    """``retrieval.interfaces.DocumentSource`` over the tables and the knowledge base folder; safe in threads."""

    def __init__(self) -> None:
        self._cache = _BodyCache()

    def sequence(self) -> int:
        """The change counter, by one raw SELECT."""
        return read(DOCUMENTS)

    def entries_since(self, sequence: int) -> IndexChanges:
        """Entries with keywords that changed after ``sequence``, and ids that must not be in the index."""
        now = self.sequence()  # before the rows: what commits meanwhile is read again next time
        fields = tuple(settings.KEYWORD_FIELDS)
        rows = ApiDocument.objects.filter(seq__gt=sequence).order_by("pk")
        entries: list[KeywordEntry] = []
        removed: list[int] = []
        for row in rows.values_list(*_ENTRY_COLUMNS).iterator(chunk_size=_ROWS_AT_A_TIME):
            entry = _entry(row, fields)
            if entry is None:
                removed.append(row[0])
            else:
                entries.append(entry)
        removed.extend(DeletedDocument.objects.filter(seq__gt=sequence).values_list("document_id", flat=True))
        return IndexChanges(now, entries, removed)

    def states(self, document_ids: Iterable[int]) -> Mapping[int, DocumentState]:
        """The rows' present state by primary key; raw SQL, since each lookup asks (19 µs against 250 by the ORM)."""
        ids = sorted({int(document_id) for document_id in document_ids})
        found: dict[int, DocumentState] = {}
        for start in range(0, len(ids), _IDS_AT_A_TIME):
            batch = ids[start : start + _IDS_AT_A_TIME]
            marks = ", ".join(["%s"] * len(batch))
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {_STATE_COLUMNS} FROM api_document WHERE id IN ({marks})", batch)  # noqa: S608 (marks)
                found.update((row[0], _state(row)) for row in cursor.fetchall())
        return found

    def body(self, document_id: int, revision: int) -> str | None:
        """The body without frontmatter. Of a revision replaced a moment ago too, while its bytes are kept."""
        found = self._body(document_id, revision)
        return found.text if found is not None else None

    def sections(self, document_id: int, revision: int) -> Sequence[Section]:
        """The sections of that body, in order; none where it is gone."""
        found = self._body(document_id, revision)
        return found.sections if found is not None else ()

    def parts(self, document_id: int, revision: int) -> TextParts:
        """The parts of that body; kept with it."""
        found = self._body(document_id, revision)
        return found.parts if found is not None else TextParts()

    def chunks(self, keys: Sequence[ChunkKey]) -> Mapping[ChunkKey, ChunkText]:
        """Chunk texts by key, in one query."""
        if not keys:
            return {}
        values = [int(part) for key in keys for part in key]
        marks = " OR ".join(["(document_id = %s AND revision = %s AND number = %s)"] * len(keys))
        return {(one.document_id, one.revision, one.number): one for one in _chunk_rows(marks, values)}

    def term_counts(self, terms: Sequence[int]) -> tuple[Mapping[int, int], int]:
        """In how many chunks each term stands, and how many chunks there are; one query."""
        return term_counts(terms)

    def revision_chunks(self, document_id: int, revision: int) -> Sequence[ChunkText]:
        """Every chunk of one indexed revision, in order."""
        return _chunk_rows("document_id = %s AND revision = %s ORDER BY number", [int(document_id), int(revision)])

    def _body(self, document_id: int, revision: int) -> _Body | None:
        document = _place_of(document_id)
        if document is None or document.status == _DELETING:
            return None
        key = (document_id, revision, _stamp(document))
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        data = _bytes_of(document, revision)
        if data is None:
            return None
        try:
            text = body_of(data)
        except DocumentError as fault:
            log.error("%s cannot be read: %s", document.file_path, fault.detail)
            return None
        body = _Body(text, tuple(split_sections(text)))
        if key[2] is not None:
            self._cache.put(key, body)
        return body


def _entry(row: tuple[Any, ...], fields: tuple[str, ...]) -> KeywordEntry | None:
    """None for what must not be in the index: hidden, never published, or without a keyword."""
    document_id, file_path, title, category, metadata, status, enabled, published_revision, missing_since = row
    if status == _DELETING or not enabled or not published_revision or missing_since is not None or not metadata:
        return None
    keywords = keywords_from(metadata, fields)
    if not keywords:
        return None
    summary = field_value(metadata, "summary")
    return KeywordEntry(
        document_id=document_id,
        file_path=file_path,
        title=title,
        keywords=keywords,
        summary=summary if isinstance(summary, str) else "",
        category=category,
    )


def _state(row: tuple[Any, ...]) -> DocumentState:
    return DocumentState(
        document_id=row[0],
        file_path=row[1],
        title=row[2],
        domain=row[3],
        revision=row[4],
        content_hash=row[5],
        indexed_revision=row[6],
        indexed_hash=row[7],
        servable=row[8] != _DELETING and bool(row[9]) and row[10] > 0 and row[11] is None,
        in_cjk=bool(row[12]),
    )


def _chunk_rows(where: str, values: Sequence[int]) -> list[ChunkText]:
    columns = ", ".join(map(connection.ops.quote_name, _CHUNK_COLUMNS))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM document_chunk WHERE {where}", values)  # noqa: S608 (our own conditions)
        rows = cursor.fetchall()
    return [
        ChunkText(
            document_id=row[0],
            revision=row[1],
            number=row[2],
            section=row[3],
            heading_path=tuple(json.loads(row[4])),
            start=row[5],
            end=row[6],
            text=row[7],
            terms=unpacked(row[8]),
        )
        for row in rows
    ]


def _place_of(document_id: int) -> ApiDocument | None:
    """Just the fields that say where the bytes are; raw SQL, since each text that is served asks."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_PLACE_COLUMNS} FROM api_document WHERE id = %s", [int(document_id)])  # noqa: S608
        row = cursor.fetchone()
    return ApiDocument(**dict(zip(_PLACE_FIELDS, row, strict=True))) if row else None


def _stamp(document: ApiDocument) -> tuple[Any, ...] | None:
    """What changes when the file does; None where it cannot be told (the body is read afresh then, and checked)."""
    try:
        path = storage.inside(document.file_path)
        if document.published_revision < document.revision:
            staged = storage.staged_path(document.pk, document.revision)
            path = staged if staged.exists() else path
        stat = path.stat()
    except (OSError, storage.UnsafePath):
        return None
    return (str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _bytes_of(document: ApiDocument, revision: int) -> bytes | None:
    try:
        return current_bytes(document) if document.revision == revision else former_bytes(document, revision)
    except (DocumentError, OSError) as fault:
        log.error("%s cannot be read: %s", document.file_path, getattr(fault, "detail", fault))
        return None


def read_document(path: str, limit: int = 2000) -> str | None:
    """The body of the document at ``knowledge_base/…``, cut at ``limit`` characters with ``...`` only if cut (DOC-10).

    A document or file that is missing is an ERROR in the log, and None.
    """
    document = document_at(ApiDocument.objects.exclude(status=_DELETING), path)
    if document is None:
        log.error("%s: there is no such document", path)
        return None
    body = get_source().body(document.pk, document.revision)
    if body is None:
        log.error("%s: its file is missing", path)
        return None
    return body if len(body) <= limit else f"{body[:limit]}..."


_lock = threading.Lock()
_source: DjangoDocumentSource | None = None
_keyword_index: SyncedKeywordIndex | None = None


def get_source() -> DjangoDocumentSource:
    """The one source of this process."""
    global _source
    with _lock:
        if _source is None:
            _source = DjangoDocumentSource()
        return _source


def get_keyword_index() -> SyncedKeywordIndex:
    """The one keyword index of this process; it loads itself from the rows when it is first asked."""
    global _keyword_index
    source = get_source()
    with _lock:
        if _keyword_index is None:
            _keyword_index = SyncedKeywordIndex(source)
        return _keyword_index


def reset_source() -> None:
    """Forget both: between tests, and after a restore."""
    global _source, _keyword_index
    with _lock:
        _source = _keyword_index = None
