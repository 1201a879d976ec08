"""Programs that are wrong on purpose: each breaks one rule of the protocol, and the interleaving named beside it fails.

A suite that lets one of them pass would let the mistake pass too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q, QuerySet

from clients.registry import get_vector_store
from documents import deletion, disk_changes, ingest, jobs, publishing, scan, source, storage, uploads
from documents.counters import bump
from documents.failpoints import failpoint
from documents.models import ApiDocument
from documents.terms import remove_chunks
from retrieval import hybrid, rows
from tests.reliability import interleavings as told

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Variant:
    """A mistake, and the interleavings that catch it."""

    name: str
    make: Patch
    caught_by: tuple[told.Interleaving, ...]


def _published_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    stage = storage.stage

    def at_once(temporary: Path, document_id: int, revision: int) -> None:
        document = ApiDocument.objects.get(pk=document_id)
        place = storage.locate(document.file_path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(temporary.read_bytes())
        stage(temporary, document_id, revision)

    patch.setattr(storage, "stage", at_once)


def _published_whatever_the_revision(patch: pytest.MonkeyPatch) -> None:
    def publish(document_id: int, revision: int, *, by: str = "") -> bool:
        with transaction.atomic():
            document = ApiDocument.objects.select_for_update().get(pk=document_id)
            storage.put_in_place(storage.staged_path(document_id, revision), document.file_path)
            ApiDocument.objects.filter(pk=document_id).update(published_revision=revision, seq=bump())
        return True

    patch.setattr(publishing, "drop_stale_staged", lambda: 0)
    patch.setattr(uploads, "publish", publish)


def _file_removed_after_the_row(patch: pytest.MonkeyPatch) -> None:
    def remove(document_id: int, *, by: str) -> bool:
        with transaction.atomic():
            document = ApiDocument.objects.select_for_update().get(pk=document_id)
            remove_chunks([document.pk])
            bump()
            document.delete()
        failpoint("delete.after_commit")
        storage.unlink_published(document.file_path)
        return True

    patch.setattr(deletion, "_remove_file_and_row", remove)


def _scan_trusts_the_disk(patch: pytest.MonkeyPatch) -> None:
    look = scan._rows

    def rows_of() -> Any:
        ApiDocument.objects.filter(status="DELETING").update(status="PENDING", seq=bump())
        return look()

    patch.setattr(scan, "_rows", rows_of)


def _scan_takes_former_bytes_for_an_edit(patch: pytest.MonkeyPatch) -> None:
    pairs = scan._pairs

    def every_pair(known: dict[str, Any], found: dict[str, Any]) -> Iterator[Any]:
        yield from pairs(known, found)
        yield from ((found[path], row) for path, row in known.items() if path in found and not row.settled)

    patch.setattr(scan, "_pairs", every_pair)
    patch.setattr(disk_changes, "_settled", publishing.locked)


def _scan_inserts_what_it_saw(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Path, "exists", lambda path: True if path.suffix == ".md" else path.is_file() or path.is_dir())


def _indexed_without_compare_and_set(patch: pytest.MonkeyPatch) -> None:
    def held(job: jobs.Claim) -> QuerySet[ApiDocument]:
        return ApiDocument.objects.filter(pk=job.document_id)

    patch.setattr(ingest, "held", held)


def _lease_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jobs, "_due", lambda now: ApiDocument.objects.filter(Q(status="PENDING") | Q(status="INDEXING")))


def _older_revision_answers(patch: pytest.MonkeyPatch) -> None:
    def live_hits(search: Callable[[int, Sequence[int]], Any], live: rows.LiveRows, wanted: int) -> list[Any]:
        found = search(50, [])
        return [hit for hit in found if hit.document_id in live.states([hit.document_id])]

    patch.setattr(hybrid, "_live_hits", live_hits)
    patch.setattr(ingest, "remove_chunks", lambda _ids: None)


def _lookups_blind_for_deletions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source, "_DELETING", "never")


def _never_withdrawn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(uploads, "withdraw", lambda *_given: None)


def _vectors_removed_without_a_look_at_the_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "_remove_vectors", lambda document_id: get_vector_store().delete([document_id]))
    patch.setattr(deletion, "_mend_revived", lambda _document: None)


EVERY: tuple[Variant, ...] = (
    Variant(
        "published before the commit",
        _published_before_the_commit,
        (told.a_commit_that_failed_left_the_former_text,),
    ),
    Variant(
        "published whatever the revision",
        _published_whatever_the_revision,
        (told.two_replacements_published_in_the_other_order,),
    ),
    Variant("file removed after the row", _file_removed_after_the_row, (told.scanned_right_after_the_row_went,)),
    Variant("scan trusts the disk", _scan_trusts_the_disk, (told.scanned_while_it_is_deleted,)),
    Variant(
        "scan takes the former bytes for an edit",
        _scan_takes_former_bytes_for_an_edit,
        (told.scanned_between_commit_and_publication,),
    ),
    Variant(
        "scan inserts what it saw",
        _scan_inserts_what_it_saw,
        (told.deleted_between_reading_and_insertion_of_a_scan,),
    ),
    Variant(
        "INDEXED without compare and set",
        _indexed_without_compare_and_set,
        (told.replaced_between_vectors_and_row, told.deleted_between_vectors_and_row),
    ),
    Variant("lease ignored", _lease_ignored, (told.claimed_twice,)),
    Variant(
        "an older revision answers by meaning",
        _older_revision_answers,
        (told.replaced_before_the_older_vectors_are_removed,),
    ),
    Variant(
        "keyword index trusted, deletions not looked for",
        _lookups_blind_for_deletions,
        (told.looked_up_while_the_index_cannot_follow, told.deleted_between_vectors_and_row),
    ),
    Variant("never withdrawn", _never_withdrawn, (told.a_publication_that_failed_left_the_former_text,)),
    Variant(
        "vectors removed without a look at the row",
        _vectors_removed_without_a_look_at_the_row,
        (told.uploaded_and_indexed_again_while_it_is_deleted,),
    ),
)
