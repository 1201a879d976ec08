"""Reconciling what rows and the inner folders say: staged files, deletions, leases, domains, the counter, history."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Max
from django.utils import timezone

from documents import history, jobs, llm_jobs, storage
from documents.counters import DOCUMENTS, put, read
from documents.deletion import due_deletions, finish_deletion
from documents.domains import counts, ensure_rows, mark_dirty
from documents.failpoints import failpoint
from documents.history_check import adopt_stray, make_again
from documents.models import ApiDocument, DeletedDocument, DocumentHistory, KnowledgeDomain
from documents.publishing import publish_leftovers, stale_staged, unpublished
from documents.reconcile_findings import Look

YOUNG_SECONDS = 30.0
"""A request that began so little time ago is still at it: what it has not done yet is no finding."""
_ABANDONED_SECONDS = 24 * 3600.0
_process_began = time.time()


def abandoned_after() -> float:
    """Seconds after which nobody comes for a file of a write any more.

    Whoever alone holds the data folder knows that all which is older than itself was another's, and that one is gone.
    """
    return time.time() - _process_began if settings.EMBEDDED else _ABANDONED_SECONDS


# ---- Files in .staging/ ----------------------------------------------------------------------------------------------
def staged(look: Look) -> None:
    """Revisions that were saved and not published; staged and temporary files that nobody comes for."""
    waiting = {pk: path for pk, path, at in unpublished().values_list("pk", "file_path", "updated_at") if not young(at)}
    if look.mend:
        publish_leftovers()
        failpoint("sweep.published")
    left = set(unpublished().filter(pk__in=waiting).values_list("pk", flat=True)) if waiting else set()
    for pk, path in waiting.items():
        look.note("unpublished", path, mended=pk not in left)
    for leftover in stale_staged(abandoned_after()):
        if look.mend:
            leftover.path.unlink(missing_ok=True)
        look.note("staged_leftover", _inner(leftover.path), mended=True)
    for cut_off in storage.temporary_files():
        if storage.age_in_seconds(cut_off) > abandoned_after():
            if look.mend:
                cut_off.unlink(missing_ok=True)
            look.note("temporary_file", _inner(cut_off), mended=True)


def young(moment: datetime) -> bool:
    """Whether a request that changed the row then may still be at work."""
    return abs((timezone.now() - moment).total_seconds()) < YOUNG_SECONDS


def _inner(path: object) -> str:
    return str(path).removeprefix(f"{storage.base()}/")


# ---- Deletions and leases --------------------------------------------------------------------------------------------
def deletions(look: Look) -> None:
    """Deletions that were cut off, or wait for a part that was down. A back-off is kept, unless a person asks."""
    rows = ApiDocument.objects.filter(status=ApiDocument.Status.DELETING).order_by("pk")
    due = set(due_deletions())
    for pk, path, at, attempts in list(rows.values_list("pk", "file_path", "updated_at", "attempts")):
        look.keep_turn()
        if not attempts and young(at):
            continue
        gone = look.mend and (look.asked or pk in due) and finish_deletion(pk)
        reason = "" if gone else rows.filter(pk=pk).values_list("status_reason", flat=True).first() or "…"
        look.note("deleting", path, mended=gone, reason=reason)


def leases(look: Look) -> None:
    """Work that a process had in hand when it ended. A lease that still holds is somebody's, and left alone."""
    for pk, path in list(jobs.expired_leases().values_list("pk", "file_path")):
        look.note("lease_expired", path, mended=look.mend and jobs.release_expired(pk))
    for table in llm_jobs.TABLES:
        for row in list(llm_jobs.expired_leases(table)):
            look.note("llm_lease_expired", row, mended=look.mend and llm_jobs.release_expired(table, row.pk))


# ---- Domains, counter ------------------------------------------------------------------------------------------------
def domains(look: Look) -> None:
    """Categories without a domain, and counts that differ although nothing waits to be counted."""
    known = {row.domain_id: row for row in KnowledgeDomain.objects.all()}
    categories = set(ApiDocument.objects.order_by().values_list("category", flat=True).distinct())
    for category in sorted(categories - known.keys()):
        look.note("domain_without_row", category, mended=True)
    counted = counts()
    for name, row in known.items():
        wanted = counted.get(name, 0)
        if row.dirty_seq == row.computed_seq and row.document_count != wanted and _still(row):
            if look.mend:
                mark_dirty(name)
            look.note("domain_count", name, mended=True, there=row.document_count, wanted=wanted)
    if look.mend:
        ensure_rows()


def _still(row: KnowledgeDomain) -> bool:
    """Whether no document of the domain changed since it was read: a change first counts, then is counted."""
    same = KnowledgeDomain.objects.filter(pk=row.pk, dirty_seq=row.dirty_seq, computed_seq=F("dirty_seq"))
    return same.filter(document_count=row.document_count).exists()


def counter(look: Look) -> None:
    """The change counter is never below a row's number: indexes of other processes would not hear of a change."""
    highest = max(
        ApiDocument.objects.aggregate(n=Max("seq"))["n"] or 0, DeletedDocument.objects.aggregate(n=Max("seq"))["n"] or 0
    )
    there = read(DOCUMENTS)
    if there < highest:
        if look.mend:
            put(DOCUMENTS, highest)
        look.note("counter_behind", DOCUMENTS, mended=True, there=there, wanted=highest)


# ---- History ---------------------------------------------------------------------------------------------------------
def earlier_revisions(look: Look) -> None:
    """Kept bytes without a row get one; rows without bytes get them where they lie elsewhere. Nothing is removed."""
    for path in history.strays():
        if storage.age_in_seconds(path) > max(YOUNG_SECONDS, min(3600.0, abandoned_after())):
            if look.mend and not adopt_stray(path):
                continue  # whose they are nobody knows; they stay as long as all that is kept
            look.note("history_without_row", _inner(path), mended=True)
    within = timezone.now() - timedelta(days=settings.TRASH_DAYS)
    for row in DocumentHistory.objects.filter(created_at__gte=within).order_by("pk").iterator(chunk_size=2_000):
        if not storage.history_path(row.stored_name).exists() and DocumentHistory.objects.filter(pk=row.pk).exists():
            mended = look.mend and make_again(row)
            subject = f".history/{row.stored_name}"
            look.note("history_without_file", subject, mended=mended, revision=row.revision, path=row.file_path)
